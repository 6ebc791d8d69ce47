from types import SimpleNamespace

import pytest

from scheduler.errors import InvalidRequest
from scheduler.numa.guest import GuestCell, GuestTopology, carried_state, guest_topology_from
from scheduler.numa.topology import Limits, NumaNetworks, limits_from, network_from
from tests.unit.numa.shapes import Unset


@pytest.mark.parametrize("obj", [None, SimpleNamespace(cells=[]), Unset()])
def test_objects_without_cells_have_no_topology(obj):
    assert guest_topology_from(obj) is None


def test_all_fields_of_a_cell_are_read():
    cell = SimpleNamespace(
        id=1, cpuset={0}, pcpuset={1}, memory=512, pagesize=-1, cpu_policy="mixed", cpu_thread_policy="prefer",
        cpu_pinning_raw={"1": 9}, cpuset_reserved={3},
    )  # fmt: skip
    found = guest_topology_from(SimpleNamespace(cells=[cell], emulator_threads_policy="isolate"))
    expected = GuestCell(
        1, frozenset({0}), frozenset({1}), 512, -1, "mixed", "prefer", ((1, 9),), frozenset({3})
    )
    assert found == GuestTopology((expected,), isolated_emulator=True)
    assert hash(found) == hash(GuestTopology((expected,), isolated_emulator=True))


@pytest.mark.parametrize(
    ("policy", "cpuset", "pcpuset"),
    [("dedicated", set(), {0, 1}), (None, {0, 1}, set()), ("shared", {0, 1}, set())],
)
def test_cell_without_pcpuset_is_read_as_one_of_an_older_version(policy, cpuset, pcpuset):
    found = guest_topology_from(Unset(cells=[Unset(id=0, cpuset={0, 1}, memory=1, cpu_policy=policy)]))
    assert (found.cells[0].cpuset, found.cells[0].pcpuset) == (cpuset, pcpuset)
    assert not found.isolated_emulator


def test_limits_are_read_with_and_without_networks():
    assert limits_from(None) is None
    assert limits_from(Unset(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5)) == Limits(4.0, 1.5)
    network = Unset(physnets={"a"})
    full = SimpleNamespace(cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0, network_metadata=network)
    assert limits_from(full) == Limits(1.0, 1.0, NumaNetworks(frozenset({"a"})))


def test_unset_network_fields_mean_no_networks():
    assert network_from(None) is None
    assert network_from(Unset()) == NumaNetworks()
    assert network_from(SimpleNamespace(physnets=None, tunneled=True)) == NumaNetworks(tunneled=True)


def test_carried_state_is_page_sizes_and_where_there_are_several_cells_their_ids():
    one, other = GuestCell(0, pagesize=4), GuestCell(1, pagesize=4, pins=((0, 1),))
    assert carried_state(GuestTopology((one,))) == carried_state(GuestTopology((other,)))
    assert carried_state(GuestTopology((one,))) != carried_state(GuestTopology((GuestCell(0, pagesize=-1),)))
    assert carried_state(GuestTopology((one, other))) != carried_state(GuestTopology((other, one)))
    assert carried_state(None) is None


@pytest.mark.parametrize("missing", ["id", "memory"])
def test_a_cell_without_a_number_is_refused_by_its_name(missing):
    cell = SimpleNamespace(**{"id": 0, "memory": 512, missing: None})
    with pytest.raises(InvalidRequest, match=f"A cell of numa_topology has no {missing}"):
        guest_topology_from(SimpleNamespace(cells=[cell]))
