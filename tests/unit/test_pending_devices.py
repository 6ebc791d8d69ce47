"""Bursts of single requests for devices and dedicated CPUs that no compute has reported yet."""

from collections import Counter
import logging
from types import SimpleNamespace

import pytest

from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.pci.pools import from_flat
from tests.builders import uuid_of
from tests.unit.numa.shapes import host as topology
from tests.unit.numa.shapes import host_cell
from tests.unit.selection.requests import REFUSED, host_with_candidate, make_spec
from tests.unit.test_manager import ask, conf, make_world  # noqa: F401 - fixtures

FILTERS = ["ComputeFilter", "NUMATopologyFilter", "PciPassthroughFilter"]


@pytest.fixture
def make_cloud(make_world, conf):  # noqa: F811
    """Hosts with so many GPUs and four dedicated CPUs each; ``expected`` are the builds that nova still has."""
    conf.set_override("enabled_filters", FILTERS, "filter_scheduler")

    def make(*gpus, answers=None):
        hosts = [
            host_with_candidate(f"h{number}").pci(pools(count)).numa(topology(host_cell(0)))
            for number, count in enumerate(gpus, 1)
        ]
        world = make_world(hosts, answers)
        world.hosts.expected = {}
        world.hosts.states = SimpleNamespace(
            on_their_way=lambda wanted: {
                uuid for uuid, host in wanted.items() if world.hosts.expected.get(uuid, host) == host
            }
        )
        return world

    return make


def pools(count):
    pool = {"vendor_id": "10de", "product_id": "1", "numa_node": 0, "count": count}
    return from_flat([pool] if count else [])


def gpu_spec():
    request = objects.InstancePCIRequest(
        count=1,
        spec=[{"vendor_id": "10de"}],
        alias_name="gpu",
        request_id=None,
        numa_policy="legacy",
        requester_id=None,
    )
    return make_spec(project_id="p", pci_requests=objects.InstancePCIRequests(requests=[request]))


def pinned_spec():
    cell = objects.InstanceNUMACell(
        id=0, cpuset=set(), pcpuset={0, 1}, memory=512, pagesize=None, cpu_policy="dedicated"
    )
    return make_spec(project_id="p", numa_topology=objects.InstanceNUMATopology(cells=[cell]))


def huge_pages_spec():
    """All of the 1,024 pages of 2 MiB that a host has."""
    cell = objects.InstanceNUMACell(
        id=0, cpuset={0}, pcpuset=set(), memory=2048, pagesize=2048, cpu_policy=None
    )
    return make_spec(project_id="p", numa_topology=objects.InstanceNUMATopology(cells=[cell]))


def burst(world, make, number):
    """The host of each request, or None; they come one after the other."""
    chosen = []
    for index in range(number):
        try:
            chosen.append(ask(world, make(), [f"i{index}"], return_alternates=False)[0][0].service_host)
        except NoValidHost:
            chosen.append(None)
    return chosen


def test_no_more_requests_are_answered_than_there_are_devices(make_cloud):
    chosen = Counter(burst(make_cloud(6, 4, 2, 1), gpu_spec, 20))
    assert chosen == {"h1": 6, "h2": 4, "h3": 2, "h4": 1, None: 7}


def test_dedicated_cpus_count_too(make_cloud):
    assert Counter(burst(make_cloud(0, 0), pinned_spec, 5)) == {"h1": 2, "h2": 2, None: 1}


def test_memory_pages_count_too(make_world, conf):  # noqa: F811
    conf.set_override("enabled_filters", FILTERS, "filter_scheduler")
    shared = host_cell(0, cpuset=frozenset(range(4)), pcpuset=frozenset())
    world = make_world([host_with_candidate(f"h{n}").numa(topology(shared)) for n in (1, 2, 3)])
    world.hosts.states = SimpleNamespace(on_their_way=set)
    assert Counter(burst(world, huge_pages_spec, 4)) == {"h1": 1, "h2": 1, "h3": 1, None: 1}


def test_requests_without_devices_are_served_as_before(make_cloud):
    world = make_cloud(1, 1)
    burst(world, gpu_spec, 2)
    assert ask(world, uuids=["plain"])[0][0].service_host in {"h1", "h2"}


@pytest.mark.parametrize("where", [None, "h2"], ids=["failed", "went to another host"])
def test_a_build_that_came_to_nothing_blocks_no_device(make_cloud, caplog, where):
    caplog.set_level(logging.INFO, "nova.scheduler")
    world = make_cloud(1, 0)
    assert burst(world, gpu_spec, 1) == ["h1"]
    with pytest.raises(NoValidHost):
        ask(world, gpu_spec(), ["i8"])
    world.hosts.expected["i0"] = where
    assert ask(world, gpu_spec(), ["i9"])[0][0].service_host == "h1"
    assert "of 1 pending placements are not counted any more; choosing again for instance i9" in caplog.text


def test_what_an_earlier_run_chose_for_an_instance_does_not_block_it(make_cloud):
    world = make_cloud(1)
    assert burst(world, gpu_spec, 1) == burst(world, gpu_spec, 1) == ["h1"]


def test_a_refused_claim_takes_no_device(make_cloud):
    world = make_cloud(1, 1, answers={uuid_of("h1"): REFUSED})
    assert burst(world, gpu_spec, 2) == ["h2", None]
    world.placement.answers = {}
    assert ask(world, gpu_spec(), ["i9"])[0][0].service_host == "h1"
