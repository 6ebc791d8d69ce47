import numpy as np
import pytest

from scheduler.hosts.pending import AMOUNTS, PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.stream.records import MOST_CELLS
from scheduler.stream.room import Room, room_of
from tests.builders import CELL, OTHER_CELL, make_aggregates, make_host, make_table


@pytest.mark.parametrize(
    ("hosts", "free", "total"),
    [
        ([make_host("a").ram(1000, 4000), make_host("b").ram(500, 2000)], 1500, 6000),
        ([make_host("a").ram(1000, 4000).ratios(ram=1.5)], 3000, 6000),
        ([make_host("a").ram(-1000, 4000).ratios(ram=1.5)], 1000, 6000),
        ([make_host("a").ram(-3000, 4000), make_host("b").ram(500, 2000)], 500, 6000),
        ([make_host("a").ram(1000, 4000).disabled(), make_host("b").ram(1, 2).forced_down()], 0, 0),
    ],
    ids=["sums", "overcommit", "used beyond the memory", "no less than none", "disabled or down"],
)
def test_the_memory_of_hosts_that_may_be_used(hosts, free, total):
    assert room_of(make_table(hosts), PendingPlacements()) == Room(free, total, (CELL,))


def test_pending_placements_are_subtracted():
    table, pending = make_table([make_host("a").ram(1000, 4000)]), PendingPlacements()
    amounts = np.zeros(len(AMOUNTS), np.int64)
    amounts[AMOUNTS.index("free_ram_mb")] = -300
    pending.add("i1", table, 0, amounts)
    assert room_of(table, pending).free_mb == 700


def test_the_cells_of_the_hosts_are_named_unless_they_are_too_many():
    table = make_table([make_host("a"), make_host("b").cell(OTHER_CELL), make_host("c")])
    assert room_of(table, PendingPlacements()).cells == (CELL, OTHER_CELL)
    many = make_table([make_host(f"h{number}").cell(f"c{number}") for number in range(MOST_CELLS + 1)])
    assert room_of(many, PendingPlacements()).cells == ()


def test_without_hosts_there_is_none():
    assert room_of(HostTable((), {}, make_aggregates([])), PendingPlacements()) == Room()
