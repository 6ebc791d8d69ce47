"""Who learns of a decision, and when."""

import contextlib

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
from scheduler.selection.host_claiming import NOT_ENOUGH
from tests.support.counted import counted
from tests.support.options import make_conf
from tests.unit.decisions.test_memory import traces


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
