"""The latest decisions are kept, within bounds of number and bytes."""

from scheduler.explain.memory import DecisionMemory
from scheduler.explain.record import BASE_SIZE, ROW_SIZE
from scheduler.request.scheduling_request import SchedulingRequest
from tests.support.options import make_conf
from tests.unit.explain.decisions import decide
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate

PLENTY = 2**30


def records(*wanted_mb):
    """A record for a request of each of these sizes, on a host of 4 GiB; all have a table of their own."""
    conf = make_conf(
        enabled_filters=["RamFilter"], available_filters=["nova.scheduler.filters.ram_filter.RamFilter"]
    )
    made = []
    for number, size in enumerate(wanted_mb):
        spec = make_spec(sizes={"memory_mb": size}, instance_uuid=f"i{number}")
        request = SchedulingRequest.of(spec, [f"i{number}"])
        made.append(decide(conf, [host_with_candidate("h")], request)[0])
    return made


def test_the_oldest_record_goes_first():
    memory, made = DecisionMemory(2, PLENTY), records(1, 1, 1)
    for record in made:
        memory.add(record)
    assert list(memory.latest_first()) == [made[2], made[1]]
    assert memory.find("i0") is None
    assert memory.find("i1") is made[1]


def test_no_record_is_kept_if_none_is_wanted():
    memory = DecisionMemory(0, PLENTY)
    memory.add(*records(1))
    assert (len(memory), memory.bytes) == (0, 0)


def test_of_short_memory_the_hosts_of_served_requests_go_first():
    made = records(9999, 1, 9999, 1)
    memory = DecisionMemory(10, 4 * BASE_SIZE + 2 * (made[0].hosts.size + ROW_SIZE))
    for record in made:
        memory.add(record)
    assert [record.hosts is not None for record in made] == [True, False, True, False]
    assert made[1].last_counts[0].name == "RamFilter"
    assert memory.bytes <= 4 * BASE_SIZE + 2 * (made[0].hosts.size + ROW_SIZE)


def test_whole_records_go_if_nothing_else_helps():
    made = records(1, 1, 1)
    memory = DecisionMemory(10, 2 * BASE_SIZE)
    for record in made:
        memory.add(record)
    assert list(memory.latest_first()) == [made[2], made[1]]
    assert memory.bytes == 2 * BASE_SIZE


def test_a_table_that_records_share_counts_once():
    (first,), (second,) = records(1), records(1)
    second.hosts.table = first.hosts.table
    memory = DecisionMemory(10, PLENTY)
    memory.add(first)
    one = memory.bytes
    memory.add(second)
    assert memory.bytes - one == second.size
    memory.resize(0, PLENTY)
    assert memory.bytes == 0


def test_smaller_bounds_apply_at_once():
    memory = DecisionMemory(10, PLENTY)
    for record in records(1, 1, 1):
        memory.add(record)
    memory.resize(1, PLENTY)
    assert len(memory) == 1
