"""Questions to a worker: which decision is meant, what a list has, and that work is bounded."""

import threading

import pytest

from scheduler.explain.explainer import LONGEST_PAUSE, Busy, Explainer, Pace, seconds_of
from scheduler.explain.explanation import Names
from scheduler.explain.memory import DecisionMemory
from scheduler.explain.relaxation import NOTHING_HELPS, Relaxation
from tests.unit.explain.test_memory import PLENTY, records


@pytest.fixture(scope="module")
def made():
    """Three decisions of one second each: the second one failed, the third is of another project."""
    found = records(1, 99999, 1)
    for number, record in enumerate(found):
        record.started_at = 1000.0 + number
        record.request.spec.project_id = "a" if number < 2 else "b"
    return found


@pytest.fixture
def explainer(made):
    memory = DecisionMemory(10, PLENTY)
    for record in made:
        memory.add(record)
    return make_explainer(memory)


def make_explainer(memory, names=Names):
    return Explainer(memory, names, 0.0, lambda: lambda: None)


def test_a_decision_is_found_by_instance(explainer):
    assert explainer.decision("i1", 10)["decision"]["instances"] == ["i1"]
    assert explainer.host("i1", "h")["nodes"][0]["filter"] == "RamFilter"


def test_an_unknown_decision_is_none(explainer):
    assert explainer.decision("i9", 10) is None
    assert explainer.host("i9", "h") is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["i2", "i1", "i0"]),
        ({"failed": True}, ["i1"]),
        ({"since": 1000.5}, ["i2", "i1"]),
        ({"project": "a"}, ["i1", "i0"]),
        ({"project": "none"}, []),
        ({"at_most": 2}, ["i2", "i1"]),
    ],
    ids=str,
)
def test_a_list_has_the_latest_first(explainer, wanted, found):
    assert [one["instances"][0] for one in explainer.decisions(**wanted)] == found


def test_a_long_request_does_not_hide_those_that_began_after_it(made):
    """The first request began before the time that is asked for, and ended last."""
    memory = DecisionMemory(10, PLENTY)
    for record in (*made[1:], made[0]):
        memory.add(record)
    explainer = make_explainer(memory)
    assert [one["instances"][0] for one in explainer.decisions(since=1000.5)] == ["i2", "i1"]


def test_an_entry_tells_result_and_reason(explainer):
    served, failed, _ = explainer.decisions()
    assert (served["result"], served["hosts"], served["summary"]) == ("scheduled", ["h"], "")
    assert (failed["result"], failed["hosts"]) == ("failed", [])


def test_an_entry_has_the_cause_that_was_found(explainer, made):
    """The summary of an empty answer says no more than that nothing fits."""
    made[1].relaxed, made[1].relaxed_at = (Relaxation((), 3),), 2000.0
    _, failed, _ = explainer.decisions()
    assert failed["summary"].endswith("the same query, asked again, has 3 hosts: the cloud has changed since")
    made[1].relaxed = ()
    assert explainer.decisions(failed=True)[0]["summary"].endswith(NOTHING_HELPS)


def test_a_second_question_is_refused_while_the_first_takes_too_long(made):
    memory = DecisionMemory(10, PLENTY)
    for record in made:
        memory.add(record)
    asked, answered = threading.Event(), threading.Event()

    def names():
        asked.set()
        answered.wait(30)
        return Names()

    explainer = make_explainer(memory, names)
    first = threading.Thread(target=explainer.decision, args=("i1", 10))
    first.start()
    assert asked.wait(30)
    with pytest.raises(Busy):
        explainer.decision("i1", 10)
    answered.set()
    first.join()
    assert explainer.decision("i1", 10)


def test_a_pause_is_as_long_as_the_work_before_it_within_a_bound():
    times = iter([0.0, 0.004, 1.0, 3.0, 9.0])
    slept = []
    pace = Pace(lambda: next(times), slept.append)
    pace()
    pace()
    assert slept == [0.004, LONGEST_PAUSE]


@pytest.mark.parametrize(
    "text", ["1970-01-01T00:01:00", "1970-01-01T00:01:00+00:00", "1970-01-01T01:01:00+01:00"]
)
def test_times_without_a_zone_are_utc(text):
    assert seconds_of(text) == 60.0
