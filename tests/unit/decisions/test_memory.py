"""The latest decisions are kept, within bounds of number and bytes."""

from scheduler.decisions import memory as module
from scheduler.decisions.document import decode, encode
from scheduler.decisions.memory import DecisionMemory
from scheduler.request.scheduling_request import SchedulingRequest
from tests.support.options import make_conf
from tests.unit.decisions.decisions import decide
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
        memory.add(decision)
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


def test_documents_are_encoded_when_some_wait_or_one_is_wanted(monkeypatch):
    encoded = []
    monkeypatch.setattr(module, "encode", lambda decision: encoded.append(decision) or encode(decision))
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    made = decisions(1, 1, 1, 1)
    memory = memory_of(made[:2])
    assert encoded == []
    memory.add(made[2])
    assert encoded == made[:3]
    memory.add(made[3])
    assert decode(memory.find("req-3")).request_id == "req-3"
    assert encoded == made


def test_a_document_that_changes_has_its_new_text_and_counts_with_its_new_size():
    made = decisions(1, 1)
    memory = memory_of(made)
    first = memory.add(decisions(1)[0])
    before = memory.text(first)
    changed = decisions(1)[0]
    changed.summary = "x" * 1000
    memory.change(first, changed)
    assert decode(memory.text(first)).summary == "x" * 1000
    small = DecisionMemory(10, len(before) + 500)
    kept_one = small.add(decisions(1)[0])
    assert kept(small) == ["req-0"]
    small.change(kept_one, changed)
    assert kept(small) == []
    assert decode(small.text(kept_one)).summary == "x" * 1000


def test_bytes_are_those_of_the_documents():
    made = decisions(1, 1, 1)
    two = len(encode(made[1])) + len(encode(made[2]))
    assert kept(memory_of(made, max_bytes=two)) == ["req-2", "req-1"]
    assert kept(memory_of(made, max_bytes=two - 1)) == ["req-2"]
