"""The search leaves arrangements out; what it finds must be what trying them all finds."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from scheduler.numa import search as search_module
from scheduler.numa.cell import GuestCellState, seat_on
from scheduler.numa.search import Search, affinity
from scheduler.pci.consumption import ChosenCells, consume_devices
from scheduler.pci.offer import make_offer
from scheduler.pci.pools import from_flat
from scheduler.pci.requests import make_request
from tests.unit.numa.shapes import guest, guests, host, host_cell, hosts, limits, pinned

POOLS = from_flat(
    {"vendor_id": "8086", "product_id": "1", "numa_node": node, "count": 1} for node in (0, 2, None)
)


def naive(topology, wanted, bounds, offer):
    """The rule as written: every arrangement, one by one, with the search's memory."""
    seats, good, bad = [GuestCellState.of(cell) for cell in wanted.cells], set(), set()
    near = affinity(topology, bounds)
    for chosen in permutations(topology.cells, len(seats)):
        if all(
            _seated(h, s, i, wanted, bounds, good, bad)
            for i, (h, s) in enumerate(zip(chosen, seats, strict=True))
        ):
            ids = frozenset(cell.id for cell in chosen)
            served = offer is None or consume_devices(offer, ChosenCells(ids, topology.sockets))[1] is None
            if served and not any(ids.isdisjoint(cells) for cells in near):
                return True, seats
    return False, seats


def _seated(h, seat, position, wanted, bounds, good, bad):
    key = (h.id, seat.id)
    if key in bad:
        return False
    if key in good:
        seat.id = h.id
        return True
    overhead = int(wanted.isolated_emulator and position == 0)
    refused = seat_on(h, seat, bounds, overhead)
    (bad if refused else good).add(key)
    return not refused


@st.composite
def offers(draw):
    policy = draw(st.sampled_from(("legacy", "required", "preferred", "socket")))
    request = make_request(
        draw(st.integers(1, 2)), [{"vendor_id": "8086"}], alias_name="a", numa_policy=policy
    )
    return draw(st.sampled_from((None, make_offer(POOLS, (request,)))))


@settings(max_examples=150, deadline=None)
@given(hosts(least=2), guests(), limits(), offers())
def test_finds_what_trying_everything_finds(topology, wanted, bounds, offer):
    if len(wanted.cells) > len(topology.cells):
        return
    search = Search(topology.cells, wanted, bounds, affinity(topology, bounds), offer, topology.sockets)
    assert (search.run(), search.seats) == naive(topology, wanted, bounds, offer)


@settings(max_examples=150, deadline=None)
@given(hosts(least=2), guests(), limits(), offers())
def test_shortcuts_give_the_same_verdict_and_host_cells(topology, wanted, bounds, offer):
    if len(wanted.cells) > len(topology.cells):
        return
    search = Search(topology.cells, wanted, bounds, affinity(topology, bounds), offer, topology.sockets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "EXHAUSTIVE", 0)
        found = search.run()
    expected, seats = naive(topology, wanted, bounds, offer)
    assert found == expected
    if found:
        assert [seat.id for seat in search.seats] == [seat.id for seat in seats]


def large(cells, wanted, **changes):
    topology = host(*(host_cell(number, **changes) for number in range(cells)))
    return Search(topology.cells, wanted, None, (), None, topology.sockets)


def test_gives_up_within_bounded_effort():
    unlike = guest(*(pinned(number, memory=512 + 4 * number) for number in range(8)))
    search = large(16, unlike)
    search.affinity = (frozenset(),)
    assert not search.run()
    assert search.gave_up
    assert search.effort <= search_module.MAX_EFFORT


def test_one_set_of_cells_is_asked_once():
    unlike = guest(*(pinned(number, memory=512 + 4 * number) for number in range(8)))
    search = large(8, unlike)
    search.affinity = (frozenset(),)
    assert not search.run()
    assert not search.gave_up
    assert search.effort == 1


def test_cells_that_nobody_fits_are_counted_before_the_search():
    search = large(16, guest(*(pinned(number, vcpus=5) for number in range(8))))
    assert not search.run()
    assert search.effort == 0


def test_seats_alike_cells_of_a_large_host_in_order():
    search = large(16, guest(*(pinned(number) for number in range(8))))
    search.affinity = (frozenset({9}),)
    assert search.run()
    assert [seat.id for seat in search.seats] == [0, 1, 2, 3, 4, 5, 6, 9]
    assert search.seats[7].pins == {70: 900, 71: 901}
