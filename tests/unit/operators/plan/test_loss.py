"""What fits after the loss of a host, against losing each host in turn and counting everything again."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.numa.topology import HostCell, HostTopology
from scheduler.operators.plan import losing
from scheduler.operators.plan.capacity import capacities
from scheduler.operators.plan.fits import fits
from scheduler.operators.plan.moves import Mover
from scheduler.operators.snapshot.as_nova_api import guest_topology, pci_requests, read_aliases
from scheduler.operators.snapshot.requests import of_flavor
from scheduler.pci.pools import from_flat
from scheduler.request.flavor_and_image import FlavorAndImage
from tests.builders import CELL, OTHER_CELL
from tests.support.campaigns import examples
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, node

FAST = "HW_CPU_X86_AVX512F"

SIZES = {"small": flavor("small", ram=1024), "large": flavor("large", ram=4096, vcpus=2)}
FAST_ONES = flavor("fast", ram=2048, **{f"trait__{FAST}": "required"})
CELLS = flavor("cells", vcpus=2, ram=3000, hw__numa_nodes="2")
ODD = flavor("odd", ram=1700)
DEVICE = flavor("device", pci_passthrough__alias="gpu:1")
ALIAS = '{"name": "gpu", "vendor_id": "10de", "product_id": "1"}'
ASKED = [*SIZES.values(), FAST_ONES, CELLS, ODD, DEVICE]


def host_cells(memory):
    """Two NUMA cells with four shared CPUs each."""
    found = []
    for number in range(2):
        cpus = frozenset(range(4 * number, 4 * number + 4))
        siblings = tuple(frozenset({cpu}) for cpu in cpus)
        found.append(HostCell(number, cpus, frozenset(), memory // 2, siblings=siblings))
    return HostTopology(tuple(found))


def as_nova_api(wanted):
    """What nova-api makes of a flavor: the guest's topology, and its requests for devices."""
    wishes = FlavorAndImage(
        objects.RequestSpec(flavor=wanted, image=objects.ImageMeta(properties=objects.ImageMetaProps()))
    )
    requests = pci_requests(wishes, read_aliases([ALIAS])) if wanted is DEVICE else None
    more = {} if requests is None else {"pci_requests": requests}
    return {"numa_topology": guest_topology(wishes), **more}


def left_after(cloud, rows, wanted):
    """Lose hosts of a cloud of its own; return how many of a flavor fit then by zone."""
    planned = cloud.planned()
    snapshot = planned.snapshot
    indices = snapshot.instances.on(rows).tolist()
    snapshot.load_requests(indices)
    planned.closed[list(rows)] = True
    mover = Mover(planned)
    mover.move_all(mover.order(indices))
    zones = {}
    try:
        counts = fits(planned, of_flavor(snapshot, wanted))
    except BerthError:
        counts = {}
    for at, fit in counts.items():
        zones[snapshot.zone(at)] = zones.get(snapshot.zone(at), 0) + fit.count
    return zones


def made(hosts, instances, filters):
    """A cloud of hosts that are fast, have NUMA cells with devices, are in zones and cells, and mapped, or not."""
    nodes, free = [], []
    for number, (ram, _, cell_mb, zone, other, _) in enumerate(hosts):
        one = node(f"h{number}", ram=ram, cell=OTHER_CELL if other else CELL).az(zone)
        nodes.append(one.numa(host_cells(cell_mb)) if cell_mb else one)
        free.append([ram, 8, 3 if cell_mb else 0])
    cloud = MadeCloud(*nodes, enabled_filters=filters, max_instances_per_host=4)
    cloud.conf.set_override("alias", [ALIAS], "pci")
    cloud.traits = {f"h{number}": {FAST} for number, one in enumerate(hosts) if one[1]}
    cloud.unmapped = {f"h{number}" for number, one in enumerate(hosts) if one[5]}
    for number, (at, name) in enumerate(instances):
        host = at % len(hosts)
        wanted = {each.name: each for each in ASKED}[name]
        if free[host][0] < wanted.memory_mb or free[host][1] < wanted.vcpus:
            continue
        if (name == "fast" and not hosts[host][1]) or (name == "cells" and not hosts[host][2]):
            continue
        if name == "device" and not free[host][2]:
            continue
        free[host][0] -= wanted.memory_mb
        free[host][1] -= wanted.vcpus
        free[host][2] -= name == "device"
        cloud.put(f"i{number}", f"h{host}", wanted, **as_nova_api(wanted))
    for one, (_, _, devices) in zip(nodes, free, strict=True):
        one.pci(from_flat([{"vendor_id": "10de", "product_id": "1", "numa_node": 0, "count": devices}]))
    cloud.flavors |= {each.name: each for each in ASKED}
    return cloud


HOSTS = st.lists(
    st.tuples(
        st.sampled_from([4096, 8192]), st.booleans(), st.sampled_from([0, 0, 6500]), st.sampled_from("ab"),
        st.sampled_from([False, False, True]), st.sampled_from([False, False, False, True]),
    ),
    min_size=1, max_size=5,
)  # fmt: skip
INSTANCES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["small", "large", "fast", "odd", "cells", "device"])),
    max_size=9,
)


@pytest.mark.slow
@pytest.mark.parametrize("with_counts", [False, True], ids=["amounts", "instances a host"])
@examples(12)
@given(hosts=HOSTS, instances=INSTANCES)
def test_the_figures_are_those_of_brute_force(with_counts, hosts, instances):
    filters = [name for name in FILTERS if with_counts or name != "NumInstancesFilter"]
    filters.append("PciPassthroughFilter")
    cloud = made(hosts, instances, filters)
    planned = cloud.planned()
    before = planned.snapshot.table.numbers["free_ram_mb"].copy()
    for one in capacities(planned, ASKED).flavors:
        expected = [left_after(cloud, [row], one.flavor) for row in range(len(hosts))]
        assert one.headroom == min(sum(each.values()) for each in expected)
        for zone in one.zones:
            assert zone.headroom == min(each.get(zone.zone, 0) for each in expected)
    assert (planned.snapshot.table.numbers["free_ram_mb"] == before).all()
    assert not planned.closed.any()


def test_instances_that_never_go_to_the_hosts_of_a_flavor_take_none_of_its_places():
    """The memory in use of a host without the trait is no loss for a flavor that needs the trait."""
    cloud = MadeCloud(node("plain", ram=65536), *(node(f"p{number}", ram=65536) for number in range(2)),
                      node("fast0"), node("fast1"))  # fmt: skip
    cloud.traits = {"fast0": {FAST}, "fast1": {FAST}}
    for number in range(8):
        cloud.put(f"i{number}", "plain", flavor("large", ram=4096))
    cloud.flavors["fast"] = FAST_ONES
    _, fast = capacities(cloud.planned(), list(cloud.flavors.values())).flavors
    assert (fast.zones[0].instances, fast.headroom) == (8, 4)
    assert fast.worst_loss in {"fast0", "fast1"}


def test_instances_that_nova_never_evacuates_take_no_place_of_the_others():
    cloud = MadeCloud(node("h1", ram=16384), node("h2"))
    cloud.put("tpm", "h1", flavor("tpm", ram=4096, hw__tpm_version="2.0"))
    cloud.flavors |= SIZES
    security = {f"COMPUTE_SECURITY_TPM_{name}" for name in ("2_0", "TIS", "SECRET_SECURITY_USER")}
    cloud.traits = dict.fromkeys(("h1", "h2"), security)
    (large,) = capacities(cloud.planned(), [SIZES["large"]]).flavors
    assert (large.headroom, large.worst_loss) == (2, "h1")


def test_in_a_large_cloud_the_hosts_with_most_room_and_instances_are_tried(monkeypatch):
    monkeypatch.setattr(losing, "MOST_TRIED", 3)
    cloud = MadeCloud(
        node("large", ram=32768, vcpus=32), *(node(f"h{number}") for number in range(6)), node("fast")
    )
    cloud.traits = {"fast": {FAST}}
    for number in range(4):
        cloud.put(f"i{number}", "large", flavor("small", ram=1024))
    cloud.flavors["fast"] = FAST_ONES
    found = capacities(cloud.planned(), list(cloud.flavors.values()))
    small, fast = found.flavors
    # 8 fit on each of the others by vCPUs, of which the instances take 4
    assert (small.headroom, small.worst_loss) == (7 * 8 - 4, "large")
    assert (fast.headroom, fast.worst_loss) == (0, "fast")
    assert (found.losses_not_tried, found.words()[0].sayings) == (0, [])
    monkeypatch.setattr(losing, "MOST_TRIED", 1)
    found = capacities(cloud.planned(), list(cloud.flavors.values()))
    assert "the loss of 1 host was not tried, and may leave less" in found.words()[0].sayings[0].words
