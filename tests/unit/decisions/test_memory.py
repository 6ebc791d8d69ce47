"""The latest decisions are kept, within bounds of number and bytes, and questions about them are answered."""

import weakref

import pytest

from scheduler.decisions import memory as module
from scheduler.decisions.document import decode, encode
from scheduler.decisions.failure import Failure
from scheduler.decisions.failure_cause import cause_of
from scheduler.decisions.memory import DecisionMemory
from scheduler.hosts.rows import Parsed
from scheduler.request.scheduling_request import SchedulingRequest
from tests.support.options import make_conf
from tests.unit.decisions.decisions import decide, record_of
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate

PLENTY = 2**30


def traces(*wanted_mb):
    """A decision on a request of each of these sizes, on a host of 4 GiB."""
    conf = make_conf(
        enabled_filters=["RamFilter"], available_filters=["nova.scheduler.filters.ram_filter.RamFilter"]
    )
    made = []
    for number, size in enumerate(wanted_mb):
        spec = make_spec(sizes={"memory_mb": size}, instance_uuid=f"i{number}")
        made.append(decide(conf, [host_with_candidate("h")], SchedulingRequest.of(spec, [f"i{number}"])))
    return made


def decisions(*wanted_mb):
    """The documents of ``traces``, each with a request id and a second of its own."""
    made = [trace.decision for trace in traces(*wanted_mb)]
    for number, decision in enumerate(made):
        decision.request_id, decision.time = f"req-{number}", f"1970-01-01T00:16:4{number}.000+00:00"
    return made


def memory_of(made, count=10, max_bytes=PLENTY):
    memory = DecisionMemory(count, max_bytes)
    for decision in made:
        memory.add(record_of(decision))
    return memory


def kept(memory):
    return [decode(encoded).request_id for encoded in memory.latest_first()]


def test_the_oldest_decision_goes_first():
    memory = memory_of(decisions(1, 1, 1), 2)
    assert kept(memory) == ["req-2", "req-1"]
    assert memory.find("i0") is None
    assert decode(memory.find("i1")).request_id == decode(memory.find("req-1")).request_id == "req-1"


def test_no_decision_is_kept_if_none_is_wanted():
    assert len(memory_of(decisions(1), 0)) == 0


def served(hosts=1, instances=1):
    """The record of a request that has found hosts."""
    uuids = [f"i{number}" for number in range(instances)]
    spec = make_spec(sizes={"memory_mb": 1}, instance_uuid="i0")
    offered = [host_with_candidate(f"h{number}") for number in range(hosts)]
    return decide(make_conf(), offered, SchedulingRequest.of(spec, uuids)).record


def is_made(record):
    return "decision" in vars(record)


def test_a_document_is_made_when_it_is_wanted():
    memory, records = DecisionMemory(10, PLENTY), [served() for _ in range(3)]
    for number, record in enumerate(records):
        record.request_id = f"req-{number}"
        memory.add(record)
    assert list(map(is_made, records)) == [False] * 3
    assert decode(memory.find("req-1")).request_id == "req-1"
    assert list(map(is_made, records)) == [False, True, False]
    assert kept(memory) == ["req-2", "req-1", "req-0"]


def test_a_failure_and_a_request_for_many_are_kept_as_documents():
    (failed,), many = traces(99999), served(instances=module.FEW + 1)
    memory = DecisionMemory(10, PLENTY)
    memory.add(failed.record)
    memory.add(many)
    assert [len(decode(text).instances) for text in memory.latest_first()] == [module.FEW + 1, 1]
    assert memory._bytes == sum(map(len, memory.latest_first()))


def test_no_more_than_one_table_is_kept_and_not_for_more_than_some_decisions(monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    memory, records = DecisionMemory(10, PLENTY), [served(hosts=2) for _ in range(5)]
    tables = [weakref.ref(record.table) for record in records]
    for record in records[:2]:
        memory.add(record)
    assert [record.table for record in records[:2]] == [None, None]
    for record in records[3:]:
        record.table = records[2].table
    for record in records[2:]:
        memory.add(record)
    del record
    assert [one() for one in tables] == [None] * 5
    assert [decode(text).hosts.host for text in memory.latest_first()] == [["h0", "h1"]] * 5


def test_what_was_read_of_a_host_is_not_kept_with_a_decision():
    """Each new row of a host that changes would be: its cells, devices and stats, of all hosts that are named.

    And each reading of the aggregates, which have the names of all hosts.
    """
    memory = DecisionMemory(10, PLENTY)
    host = host_with_candidate("h").aggregate("a", availability_zone="z1")
    host.set(stats=Parsed({"io_workload": "1"}))
    request = SchedulingRequest.of(make_spec(instance_uuid="i0"), ["i0"])
    record = decide(make_conf(), [host], request).record
    read = [weakref.ref(host.columns["stats"]), weakref.ref(record.table.coded["aggregates"].values[0])]
    kept = [memory.add(record), memory.add(served())]
    del host, record
    assert [one() for one in read] == [None, None]
    hosts = decode(memory.text(kept[0])).hosts
    assert (hosts.host, list(hosts.zones.values())) == (["h"], ["z1"])


def incomplete(size=99999):
    """The record of a failure whose explanation is still to be completed."""
    (failed,) = traces(size)
    failed.record.unexplained = Failure(failed.request)
    return failed.record


def test_a_document_that_is_completed_has_its_new_text_and_counts_with_its_new_size():
    memory, record = DecisionMemory(10, PLENTY), incomplete()
    first = memory.add(record)
    before = memory.text(first)
    record.decision.summary = "x" * 1000
    assert memory.text(first) == before
    memory.close(first)
    record.decision.summary = "changed after the end"
    assert decode(memory.text(first)).summary == "x" * 1000
    small, record = DecisionMemory(10, len(before) + 500), incomplete()
    kept_one = small.add(record)
    assert len(kept(small)) == 1
    record.decision.summary = "x" * 1000
    small.close(kept_one)
    assert kept(small) == []
    assert decode(small.text(kept_one)).summary == "x" * 1000


def test_bytes_are_those_of_the_documents():
    made = decisions(99999, 99999, 99999)
    two = len(encode(made[1])) + len(encode(made[2]))
    assert kept(memory_of(made, max_bytes=two)) == ["req-2", "req-1"]
    assert kept(memory_of(made, max_bytes=two - 1)) == ["req-2"]


def test_records_count_with_what_their_documents_may_have(monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 1)
    memory = DecisionMemory(1000, 10 * 2 * module.RECORD)
    for _ in range(30):
        memory.add(served())
    assert 10 <= len(memory) < 30
    assert sum(map(len, memory.latest_first())) < 10 * 2 * module.RECORD


@pytest.fixture
def made():
    """Three decisions of one second each: the second one failed, the third is of another project."""
    found = decisions(1, 99999, 1)
    for number, decision in enumerate(found):
        decision.project_id = "a" if number < 2 else "b"
    return found


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
def test_a_list_has_the_latest_first(made, wanted, found):
    assert [one["instances"][0] for one in memory_of(made).entries(**wanted)] == found


def test_a_long_request_does_not_hide_those_that_began_after_it(made):
    """The first request began before the time that is asked for, and ended last."""
    memory = memory_of([*made[1:], made[0]])
    assert [one["instances"][0] for one in memory.entries(since=1000.5)] == ["i2", "i1"]


def test_an_entry_tells_result_and_reason(made):
    served, failed, _ = memory_of(made).entries()
    assert (served["result"], served["hosts"], served["summary"]) == ("scheduled", ["h"], "")
    assert (failed["result"], failed["hosts"]) == ("failed", [])
    assert (served["cause"], served["error"]) == (None, None)


def test_an_entry_has_the_cause_that_the_decision_has(made):
    (failed,) = memory_of(made).entries(failed=True)
    cause = cause_of(made[1])
    assert failed["cause"] == {
        "code": cause.code,
        "subject": cause.subject,
        "words": cause.words,
        "remedy": cause.remedy,
    }
    assert failed["error"] == "NoValidHost"
