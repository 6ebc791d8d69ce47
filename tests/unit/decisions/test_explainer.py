"""Questions to a scheduler: which decision is meant, what a list has, and that work is bounded."""

import pytest

from scheduler.decisions.document import decode
from scheduler.decisions.explainer import Explainer
from scheduler.decisions.failure_cause import cause_of
from tests.unit.decisions.test_memory import decisions, memory_of


@pytest.fixture
def made():
    """Three decisions of one second each: the second one failed, the third is of another project."""
    found = decisions(1, 99999, 1)
    for number, decision in enumerate(found):
        decision.project_id = "a" if number < 2 else "b"
    return found


def make_explainer(memory):
    return Explainer(memory, list)


@pytest.fixture
def explainer(made):
    return make_explainer(memory_of(made))


def test_a_decision_is_found_by_instance(explainer):
    assert decode(explainer.decision("i1")).instances == ["i1"]
    assert explainer.decision("i9") is None


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
    explainer = make_explainer(memory_of([*made[1:], made[0]]))
    assert [one["instances"][0] for one in explainer.decisions(since=1000.5)] == ["i2", "i1"]


def test_an_entry_tells_result_and_reason(explainer):
    served, failed, _ = explainer.decisions()
    assert (served["result"], served["hosts"], served["summary"]) == ("scheduled", ["h"], "")
    assert (failed["result"], failed["hosts"]) == ("failed", [])
    assert (served["cause"], served["error"]) == (None, None)


def test_an_entry_has_the_cause_that_the_decision_has(explainer, made):
    (failed,) = explainer.decisions(failed=True)
    cause = cause_of(made[1])
    assert failed["cause"] == {
        "code": cause.code,
        "subject": cause.subject,
        "words": cause.words,
        "remedy": cause.remedy,
    }
    assert failed["error"] == "NoValidHost"
