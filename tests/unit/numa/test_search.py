"""The search leaves arrangements out; what it finds must be what trying them all finds."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.numa import search as search_module
from scheduler.numa.cell import GuestCellState, try_host_cell
from scheduler.numa.search import Search, SearchBudget, StepLimit, affinity
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
    states, good, bad = [GuestCellState.of(cell) for cell in wanted.cells], set(), set()
    near = affinity(topology, bounds)
    for chosen in permutations(topology.cells, len(states)):
        if all(
            _placed(h, s, i, wanted, bounds, good, bad)
            for i, (h, s) in enumerate(zip(chosen, states, strict=True))
        ):
            ids = frozenset(cell.id for cell in chosen)
            served = offer is None or consume_devices(offer, ChosenCells(ids, topology.sockets))[1] is None
            if served and not any(ids.isdisjoint(cells) for cells in near):
                return True, states
    return False, states


def _placed(h, state, position, wanted, bounds, good, bad):
    key = (h.id, state.id)
    if key in bad:
        return False
    if key in good:
        state.id = h.id
        return True
    overhead = int(wanted.isolated_emulator and position == 0)
    refused = try_host_cell(h, state, bounds, overhead)
    (bad if refused else good).add(key)
    return not refused


@st.composite
def offers(draw):
    policy = draw(st.sampled_from(("legacy", "required", "preferred", "socket")))
    request = make_request(
        draw(st.integers(1, 2)), [{"vendor_id": "8086"}], alias_name="a", numa_policy=policy
    )
    return draw(st.sampled_from((None, make_offer(POOLS, (request,)))))


@given(hosts(least=2), guests(), limits(), offers())
def test_search_finds_what_trying_all_arrangements_finds(topology, wanted, bounds, offer):
    if len(wanted.cells) > len(topology.cells):
        return
    search = Search(topology, topology.cells, wanted, bounds, affinity(topology, bounds), offer)
    assert (search.run(), search.states) == naive(topology, wanted, bounds, offer)


@given(hosts(least=2), guests(), limits(), offers())
def test_shortcuts_give_the_same_verdict_and_host_cells(topology, wanted, bounds, offer):
    if len(wanted.cells) > len(topology.cells):
        return
    search = Search(topology, topology.cells, wanted, bounds, affinity(topology, bounds), offer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "EXHAUSTIVE", 0)
        found = search.run()
    expected, states = naive(topology, wanted, bounds, offer)
    assert found == expected
    if found:
        assert [state.id for state in search.states] == [state.id for state in states]


def large(cells, wanted, **changes):
    topology = host(*(host_cell(number, **changes) for number in range(cells)))
    return Search(topology, topology.cells, wanted, None, (), None)


def test_search_ends_at_the_limit_of_steps_for_one_host():
    unlike = guest(*(pinned(number, memory=512 + 4 * number) for number in range(8)))
    search = large(16, unlike)
    search.affinity = (frozenset(),)
    assert not search.run()
    assert search.cut_short is StepLimit.HOST
    assert search.steps <= search_module.MAX_STEPS


def test_networks_are_compared_once_with_a_set_of_cells():
    unlike = guest(*(pinned(number, memory=512 + 4 * number) for number in range(8)))
    search = large(8, unlike)
    search.affinity = (frozenset(),)
    assert not search.run()
    assert not search.cut_short
    assert search.steps == 1


def test_no_search_is_made_if_too_few_cells_have_room():
    search = large(16, guest(*(pinned(number, vcpus=5) for number in range(8))))
    assert not search.run()
    assert search.steps == 0


def test_guest_cells_that_are_alike_get_the_host_cells_in_order():
    search = large(16, guest(*(pinned(number) for number in range(8))))
    search.affinity = (frozenset({9}),)
    assert search.run()
    assert [state.id for state in search.states] == [0, 1, 2, 3, 4, 5, 6, 9]
    assert search.states[7].pins == {70: 900, 71: 901}


def test_search_ends_early_if_the_request_has_no_steps_left():
    unlike = guest(*(pinned(number, memory=512 + 4 * number) for number in range(8)))
    search = large(16, unlike)
    search.affinity = (frozenset(),)
    search.budget = SearchBudget(150)
    assert not search.run()
    assert (search.steps, search.cut_short, search.budget.left) == (150, StepLimit.REQUEST, 0)


@pytest.mark.parametrize(
    ("left", "steps"), [(1_000_000, 6000), (6000, 6000), (5999, 5999), (101, 101), (99, 100), (0, 100)]
)
def test_each_host_gets_what_is_left_but_never_less_than_the_minimum(left, steps):
    assert SearchBudget(left).steps_for_next_host == steps


def test_guest_cells_that_are_alike_are_searched_completely_without_budget():
    """8 host cells have 1680 arrangements of 4, but only 70 sets."""
    search = large(8, guest(*(pinned(number) for number in range(4))))
    search.affinity, search.budget = (frozenset({7}),), SearchBudget(0)
    assert search.run()
    assert [state.id for state in search.states] == [0, 1, 2, 7]
