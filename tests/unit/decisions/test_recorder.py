"""Who learns of a decision, and when."""

import contextlib
from pathlib import Path
import threading

import numpy as np
import pytest

from scheduler.bounds.waits import waiting_for
from scheduler.decisions import recorder as recorder_module
from scheduler.decisions.document import Constraint, Failing, Why, decode
from scheduler.decisions.explanation import Explanation
from scheduler.decisions.recorder import DecisionRecorder
from scheduler.errors import NoValidHost
from scheduler.health.counters import Counters
from scheduler.health.decisions import DecisionCounter
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.host_claiming import NOT_ENOUGH
from tests.support.counted import counted
from tests.support.options import make_conf
from tests.unit.decisions.test_memory import traces
from tests.unit.filters.asking import make_spec


def recorder_with(explain=None, **options):
    conf = make_conf()
    for name, value in options.items():
        conf.set_override(name, value, "berth")
    counters = Counters()
    return DecisionRecorder(conf, observe=DecisionCounter(counters).count, explain=explain), counters


@pytest.mark.parametrize(
    ("size", "error"), [(1, None), (99999, NoValidHost("none"))], ids=["served", "failed"]
)
@pytest.mark.parametrize("count", [1000, 0], ids=["kept", "none kept"])
def test_decisions_are_counted_however_few_are_kept(monkeypatch, count, size, error):
    monkeypatch.setattr(recorder_module, "MOST_DECISIONS", count)
    recorder, counters = recorder_with()
    (decided,) = traces(size)
    trace = recorder.begin(decided.request)
    trace.record.filters = decided.record.filters
    with contextlib.suppress(NoValidHost), recorder.recording(trace):
        if error:
            raise error
    found = {key: value for key, value in counted(counters).items() if key[0] == "berth_hosts_filtered_total"}
    assert found == ({("berth_hosts_filtered_total", ("RamFilter",)): 1} if error else {})
    assert len(recorder.memory) == min(count, 1)


def test_a_failed_request_is_kept_with_its_reason():
    recorder, *_ = recorder_with(explain_no_valid_host="true")
    (decided,) = traces(1)
    error = NoValidHost("none")
    with contextlib.suppress(NoValidHost), recorder.recording(recorder.begin(decided.request)):
        raise error
    decision = decode(recorder.memory.find("i0"))
    assert (decision.result, decision.error.kind) == ("failed", "NoValidHost")
    assert decision.summary in str(error)


@pytest.mark.parametrize(
    ("wanted", "appended"),
    [
        ("off", ""),
        ("code", " Cause: trait"),
        ("full", " 3 hosts lack only required trait CUSTOM_A (flavor)"),
    ],
)
def test_users_see_as_much_of_the_cause_as_the_operator_wants(wanted, appended):
    trait = Constraint("required trait CUSTOM_A", "trait", "flavor")
    why = Why(3, constraints=[trait], failing=[Failing([0], 3)])
    explained = Explanation(why, np.zeros(3, int))
    recorder, *_ = recorder_with(explain=lambda _failure, *, asks: explained, explain_no_valid_host=wanted)
    (decided,) = traces(1)
    error = NoValidHost(NOT_ENOUGH)
    with contextlib.suppress(NoValidHost), recorder.recording(recorder.begin(decided.request)):
        raise error
    assert str(error) == f"No valid host was found. {NOT_ENOUGH}{appended}"


def test_an_explanation_that_fails_changes_nothing_for_the_caller():
    def fail(_failure, *, asks):
        raise ValueError

    recorder, *_ = recorder_with(explain=fail)
    (decided,) = traces(1)
    with pytest.raises(NoValidHost), recorder.recording(recorder.begin(decided.request)):
        raise NoValidHost(NOT_ENOUGH)
    assert decode(recorder.memory.find("i0")).why is None


def test_a_decision_is_open_and_its_waits_are_noted_until_it_is_kept():
    recorder, _ = recorder_with()
    (decided,) = traces(1)
    trace = recorder.begin(decided.request)
    with recorder.recording(trace):
        assert recorder.open() == [trace]
        with waiting_for("the API database"):
            assert trace.waits.current.text == "the API database"
    assert recorder.open() == []
    with contextlib.suppress(NoValidHost), recorder.recording(recorder.begin(decided.request)):
        raise NoValidHost("none")
    assert recorder.open() == []


# -- explanations that are completed after the caller has heard that there is no host --------------------


class Completed:
    """A recorder of failed requests; ``completed`` are their instances, in the order of completion.

    ``hold`` lets the first completion wait.
    """

    def __init__(self, **options):
        self.completed = []
        self.hold, self.begun = threading.Event(), threading.Event()
        self.hold.set()
        self.recorder, _ = recorder_with(explain=self._explain, **options)

    def _explain(self, failure, *, asks):
        if asks:
            self.begun.set()
            assert self.hold.wait(10)
            self.completed.append(failure.request.instance_uuids[0])
        return Explanation(Why(3, incomplete=not asks), np.zeros(3, int))

    def fail(self, *names):
        for name in names:
            request = SchedulingRequest.of(make_spec(instance_uuid=name), [name])
            with contextlib.suppress(NoValidHost), self.recorder.recording(self.recorder.begin(request)):
                raise NoValidHost(NOT_ENOUGH)

    def hold_at(self, name):
        """Let the request of an instance fail, and its completion wait."""
        self.hold.clear()
        self.recorder.start()
        self.fail(name)
        assert self.begun.wait(10)

    def go_on_to_the_end(self):
        self.hold.set()
        self.recorder.complete_now(timeout=10.0)
        self.recorder.stop(10.0)

    def incomplete(self):
        """The instances of decisions whose documents are incomplete, the oldest first."""
        kept = list(map(decode, self.recorder.memory.latest_first()))
        return [decision.instances[0] for decision in reversed(kept) if decision.why.incomplete]


def test_explanations_are_completed_in_the_background_the_oldest_first():
    one = Completed()
    one.recorder.start()
    one.fail("a", "b")
    one.recorder.complete_now(timeout=10.0)
    one.recorder.stop(10.0)
    assert (one.completed, one.incomplete()) == (["a", "b"], [])


def test_the_fault_has_the_cause_of_the_log_line_however_soon_the_explanation_is_completed(monkeypatch):
    def explain(_failure, *, asks):
        trait = Constraint("required trait CUSTOM_A", "trait", "flavor")
        return Explanation(
            Why(3, constraints=[trait], failing=[Failing([0], 1 + asks)], incomplete=not asks),
            np.zeros(3, int),
        )

    recorder, _ = recorder_with(explain=explain, explain_no_valid_host="full")
    wake, woken = recorder_module.BackgroundLoop.wake, []

    def complete_first(loop):
        wake(loop)
        woken.append(loop)
        if len(woken) == 1:
            recorder.complete_now(timeout=10.0)

    monkeypatch.setattr(recorder_module.BackgroundLoop, "wake", complete_first)
    recorder.start()
    (decided,) = traces(1)
    error = NoValidHost(NOT_ENOUGH)
    with contextlib.suppress(NoValidHost), recorder.recording(recorder.begin(decided.request)):
        raise error
    recorder.stop(10.0)
    assert str(error).endswith(" 1 host lacks only required trait CUSTOM_A (flavor)")
    assert decode(recorder.memory.find("i0")).cause.words.startswith("2 hosts lack only required")


def test_a_question_completes_the_decision_that_it_names_first():
    one = Completed()
    one.fail("a", "b", "c")
    assert one.incomplete() == ["a", "b", "c"]
    one.recorder.complete_now("b", timeout=0.0)
    one.recorder.start()
    assert not decode(one.recorder.decision("b")).why.incomplete
    assert one.recorder.decision("unknown") is None
    one.recorder.complete_now(timeout=10.0)
    one.recorder.stop(10.0)
    assert (one.completed, one.incomplete()) == (["b", "a", "c"], [])


def test_a_question_waits_for_the_completion_in_progress_and_goes_before_others():
    one = Completed()
    one.hold_at("a")
    one.fail("b", "c")
    one.recorder.complete_now("a", timeout=0.0)
    one.recorder.complete_now("c", timeout=0.0)
    assert (one.completed, one.incomplete()) == ([], ["a", "b", "c"])
    one.hold.set()
    one.recorder.complete_now("a", timeout=10.0)
    assert one.completed[0] == "a"
    one.recorder.complete_now(timeout=10.0)
    assert one.completed == ["a", "c", "b"]
    one.recorder.stop(10.0)


def test_the_decision_that_a_question_names_stays_however_many_follow(monkeypatch):
    monkeypatch.setattr(recorder_module, "MOST_INCOMPLETE", 2)
    one = Completed()
    one.hold_at("a")
    one.fail("b", "c")
    one.recorder.complete_now("c", timeout=0.0)
    one.fail("d", "e")
    one.go_on_to_the_end()
    assert (one.completed, one.incomplete()) == (["a", "c", "d", "e"], ["b"])


def test_of_too_many_decisions_that_questions_name_the_oldest_stay_incomplete_too(monkeypatch):
    monkeypatch.setattr(recorder_module, "MOST_INCOMPLETE", 2)
    one = Completed()
    one.hold_at("a")
    for name in ("b", "c", "d", "e"):
        one.fail(name)
        one.recorder.complete_now(name, timeout=0.0)
    one.go_on_to_the_end()
    assert (one.completed, one.incomplete()) == (["a", "b", "d", "e"], ["c"])


def test_of_too_many_the_oldest_stay_incomplete_and_all_are_logged_once(monkeypatch, tmp_path):
    monkeypatch.setattr(recorder_module, "MOST_INCOMPLETE", 2)
    monkeypatch.setattr(recorder_module.BackgroundLoop, "start", lambda _loop: None)
    one = Completed(decision_log=str(tmp_path))
    one.recorder.start()
    one.fail("a", "b", "c", "d")
    one.recorder.stop(10.0)
    assert (one.completed, one.incomplete()) == ([], ["a", "b", "c", "d"])
    (file,) = Path(tmp_path).iterdir()
    logged = list(map(decode, file.read_bytes().splitlines()))
    assert [each.instances[0] for each in logged] == ["a", "b", "c", "d"]
