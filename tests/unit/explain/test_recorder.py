"""Who is told of a decision, and when."""

import contextlib

import pytest

from scheduler.errors import NoValidHost
from scheduler.explain.recorder import DecisionRecorder
from scheduler.health.counters import Counters
from scheduler.health.decisions import DecisionCounter
from tests.support.options import make_conf
from tests.unit.explain.test_memory import records


@pytest.mark.parametrize(
    ("size", "error"), [(1, None), (99999, NoValidHost("none"))], ids=["served", "failed"]
)
@pytest.mark.parametrize("options", [{}, {"decision_memory": 0}, {"decision_records": 0}], ids=str)
def test_decisions_are_counted_however_few_are_kept(options, size, error):
    counters = Counters()
    conf = make_conf()
    for name, value in options.items():
        conf.set_override(name, value, "berth")
    recorder = DecisionRecorder(conf, observe=DecisionCounter(counters).count)
    (decided,) = records(size)
    trace = recorder.begin(decided.request)
    trace.record.hosts = decided.hosts
    with contextlib.suppress(NoValidHost), recorder.recording(trace):
        if error:
            raise error
    counted = {key: values for key, values in counters.take().items() if key[0] == "berth_hosts_filtered"}
    assert counted == ({("berth_hosts_filtered", ("RamFilter",)): [1]} if error else {})
    assert len(recorder.memory) <= 1
