"""Who learns of a decision, and when."""

import contextlib

import pytest

from scheduler.decisions import recorder as recorder_module
from scheduler.decisions.document import decode
from scheduler.decisions.recorder import DecisionRecorder
from scheduler.errors import NoValidHost
from scheduler.health.counters import Counters
from scheduler.health.decisions import DecisionCounter
from tests.support.options import make_conf
from tests.unit.decisions.test_memory import traces


def recorder_with(**options):
    conf = make_conf()
    for name, value in options.items():
        conf.set_override(name, value, "berth")
    counters, analysed = Counters(), []
    recorder = DecisionRecorder(conf, observe=DecisionCounter(counters).count, analyse=analysed.append)
    return recorder, counters, analysed


@pytest.mark.parametrize(
    ("size", "error"), [(1, None), (99999, NoValidHost("none"))], ids=["served", "failed"]
)
@pytest.mark.parametrize("count", [1000, 0], ids=["kept", "none kept"])
def test_decisions_are_counted_however_few_are_kept(monkeypatch, count, size, error):
    monkeypatch.setattr(recorder_module, "MOST_DECISIONS", count)
    recorder, counters, analysed = recorder_with()
    (decided,) = traces(size)
    trace = recorder.begin(decided.request)
    trace.decision.filters = decided.decision.filters
    with contextlib.suppress(NoValidHost), recorder.recording(trace):
        if error:
            raise error
    counted = {key: values for key, values in counters.take().items() if key[0] == "berth_hosts_filtered"}
    assert counted == ({("berth_hosts_filtered", ("RamFilter",)): [1]} if error else {})
    assert len(recorder.memory) == min(count, 1)
    assert analysed == ([trace] if error else [])


def test_a_failed_request_is_kept_with_its_reason():
    recorder, *_ = recorder_with(explain_no_valid_host=True)
    (decided,) = traces(1)
    error = NoValidHost("none")
    with contextlib.suppress(NoValidHost), recorder.recording(recorder.begin(decided.request)):
        raise error
    decision = decode(recorder.memory.find("i0"))
    assert (decision.result, decision.error.kind) == ("failed", "NoValidHost")
    assert decision.summary in str(error)


def test_a_document_that_has_grown_is_written_again(tmp_path):
    recorder, *_ = recorder_with(decision_log=str(tmp_path))
    recorder.start()
    (decided,) = traces(1)
    with recorder.recording(recorder.begin(decided.request)):
        pass
    grown = decode(recorder.memory.find("i0"))
    grown.candidates.relaxed_at = "later"
    recorder.amend(grown)
    recorder.stop(60)
    (file,) = tmp_path.iterdir()
    assert [decode(line).candidates.relaxed_at for line in file.read_bytes().splitlines()] == [None, "later"]
    assert decode(recorder.memory.find("i0")).candidates.relaxed_at == "later"
