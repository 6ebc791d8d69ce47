import pytest

from scheduler.placement.claim_events import ClaimEvent, ClaimHistory, ClaimState


@pytest.fixture
def log(caplog):
    caplog.set_level("DEBUG")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def line(text):
    return f"Claim for instance i1 on host h1, {text}"


INFO = {
    ClaimState.RESENDING,
    ClaimState.SPLIT,
    ClaimState.OVER_CAPACITY,
    ClaimState.AGAINST_POLICY,
    ClaimState.NEXT_HOST,
    ClaimState.GIVEN_UP,
}


STEPS = [state for state in ClaimState if state is not ClaimState.GRANTED]


@pytest.mark.parametrize("state", STEPS, ids=lambda state: state.name)
def test_each_step_leaves_one_line_and_those_for_operators_at_info(log, state):
    history = ClaimHistory("i1", "h1")
    history.begin_try()
    history.add(state, "no answer")
    level = "INFO" if state in INFO else "DEBUG"
    assert log() == [(level, line(f"try 1: no answer; {state.value}"))]


def test_a_claim_that_succeeds_at_once_leaves_no_line(log):
    history = ClaimHistory("i1", "h1")
    history.begin_try()
    history.add(ClaimState.GRANTED, "accepted", 204)
    assert log() == []
    assert history.events == [ClaimEvent(1, "h1", 204, "accepted", ClaimState.GRANTED)]


def test_a_claim_that_took_two_tries_leaves_one_line_at_info(log):
    history = ClaimHistory("i1", "h1")
    history.begin_try()
    history.add(ClaimState.BACKING_OFF, "concurrent update", 409)
    history.begin_try()
    history.add(ClaimState.GRANTED, "accepted", 204)
    info = [text for level, text in log() if level == "INFO"]
    assert info == ["Claim for instance i1 on host h1 succeeded at try 2 after: concurrent update"]


@pytest.mark.parametrize("state", [ClaimState.NEXT_HOST, ClaimState.GIVEN_UP], ids=lambda state: state.name)
def test_a_refusal_is_a_warning_only_when_the_claim_has_failed(log, state):
    history = ClaimHistory("i1", "h1")
    history.begin_try()
    history.add(ClaimState.BACKING_OFF, "concurrent update", 409)
    assert [text for level, text in log() if level == "WARNING"] == []
    history.add(state, "no capacity", 409)
    warnings = [text for level, text in log() if level == "WARNING"]
    assert warnings == ["Failed to save allocation for i1. Got HTTP 409: no capacity"]


def test_a_history_goes_on_with_earlier_events():
    earlier = (ClaimEvent(3, "h1", None, "no answer", ClaimState.SPLIT),)
    history = ClaimHistory("i1", "h1", earlier)
    history.begin_try()
    history.add(ClaimState.NEXT_HOST, "no capacity", 409)
    assert [event.attempt for event in history.events] == [3, 4]


def test_a_claim_that_was_not_sent_leaves_one_event_and_one_line(log):
    history = ClaimHistory("i1", "h1")
    history.add(ClaimState.GIVEN_UP, "another claim is running")
    assert history.events == [ClaimEvent(0, "h1", None, "another claim is running", ClaimState.GIVEN_UP)]
    assert log() == [("INFO", line("try 0: another claim is running; giving the claim up"))]


def test_a_claim_that_is_sent_again_through_an_outage_says_so_once(log):
    history = ClaimHistory("i1", "h1")
    for _ in range(30):
        history.begin_try()
        history.add(ClaimState.RESENDING, "no connection")
    history.begin_try()
    history.add(ClaimState.GRANTED, "accepted", 204)
    info = [text for level, text in log() if level == "INFO"]
    assert info == [
        line("try 1: no connection; sending the same claim again"),
        "Claim for instance i1 on host h1 succeeded at try 31 after: no connection",
    ]
