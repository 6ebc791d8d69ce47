"""How many instances fit is what claiming one after the other would come to."""

from random import Random
from types import SimpleNamespace

import pytest

from scheduler import objects
from scheduler.explain import capacity as module
from scheduler.explain.capacity import Offer, OfferTrace, capacity, room
from scheduler.explain.trace import Names
from scheduler.pci.pools import from_flat
from scheduler.placement.answer import AllocationCandidate, Candidates, Usage
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.headroom import Headroom
from tests.builders import CELL, OTHER_CELL, make_table
from tests.support.options import make_conf
from tests.unit.explain.decisions import decide
from tests.unit.filters.asking import make_spec
from tests.unit.numa.shapes import host as topology
from tests.unit.numa.shapes import host_cell
from tests.unit.selection.requests import host_with_candidate

NAMES = Names({CELL: "cell1", OTHER_CELL: "cell2"}, "nova")


def candidate(amounts, provider="root"):
    return AllocationCandidate.of("root", ("root",), {provider: {"resources": amounts}}, {"": [provider]})


def claimed_one_by_one(candidates, usages):
    headroom, count = Headroom(usages), 0
    while found := next(filter(headroom.fits, candidates), None):
        headroom.plan(found)
        count += 1
    return count


def test_a_host_has_room_for_as_many_as_can_be_claimed_one_by_one():
    random = Random(1)
    for _ in range(200):
        usages = {
            provider: {
                name: Usage(capacity := random.randrange(10, 60), random.randrange(capacity - 8))
                for name in ("VCPU", "MEMORY_MB")
            }
            for provider in ("a", "b")
        }
        amounts = {"VCPU": random.randrange(1, 8), "MEMORY_MB": random.randrange(1, 8)}
        for providers in (["a"], ["a", "b"]):
            offered = [candidate(amounts, provider) for provider in providers]
            assert room(offered, usages.get).count == claimed_one_by_one(offered, usages.get), (
                usages,
                amounts,
            )


@pytest.mark.parametrize(
    ("takes", "count", "stranded"),
    [
        ([{"a": 2, "b": 2}], 1, 9),
        ([{"a": 2, "b": 1}], 3, 4),
        ([{"a": 2, "b": 1}, {"a": 1, "b": 2}], 3, 4),
    ],
    ids=str,
)
def test_a_class_that_is_taken_from_several_providers_runs_out_with_the_first_of_them(takes, count, stranded):
    """As with two devices, or two groups with vCPUs, of which each has a provider of its own."""
    usages = {"a": {"VCPU": Usage(10, 0)}, "b": {"VCPU": Usage(3, 0)}}
    offered = [
        AllocationCandidate.of(
            "root", ("root",), {name: {"resources": {"VCPU": amount}} for name, amount in each.items()}, {}
        )
        for each in takes
    ]
    fit = room(offered, usages.get)
    assert (fit.count, fit.limit, fit.stranded) == (count, "VCPU", {"VCPU": stranded})


@pytest.mark.parametrize(
    ("left", "count", "limit", "stranded"),
    [
        ({"VCPU": 10, "MEMORY_MB": 1000}, 5, "VCPU", {"VCPU": 0, "MEMORY_MB": 500}),
        ({"VCPU": 100, "MEMORY_MB": 250}, 2, "MEMORY_MB", {"VCPU": 96, "MEMORY_MB": 50}),
        ({"VCPU": -4, "MEMORY_MB": 250}, 0, "VCPU", {"VCPU": 0, "MEMORY_MB": 250}),
    ],
    ids=["vcpus", "memory", "overcommitted"],
)
def test_what_runs_out_first_strands_the_rest(left, count, limit, stranded):
    usages = {"root": {name: Usage(1000, 1000 - amount) for name, amount in left.items()}}
    fit = room([candidate({"VCPU": 2, "MEMORY_MB": 100})], usages.get)
    assert (fit.count, fit.limit, fit.stranded) == (count, limit, stranded)


@pytest.mark.parametrize(
    ("memory", "limit"), [(64 * 3 + 63, "MEMORY_MB"), (64 * 100, "VCPU")], ids=["memory", "vcpus"]
)
def test_what_runs_out_is_what_no_further_instance_finds(memory, limit):
    """More MB are left than VCPUs, but not enough for an instance; then two VCPUs, but on two providers."""
    offered = [
        AllocationCandidate.of(
            "root",
            ("root",),
            {"root": {"resources": {"MEMORY_MB": 64}}, provider: {"resources": {"VCPU": 2}}},
            {},
        )
        for provider in ("a", "b")
    ]
    usages = {name: {"VCPU": Usage(21, 0)} for name in ("a", "b")} | {"root": {"MEMORY_MB": Usage(memory, 0)}}
    fit = room(offered, usages.get)
    assert (fit.count, fit.limit) == (3 if limit == "MEMORY_MB" else 20, limit)


def test_the_count_pauses_between_pieces():
    hosts = [host_with_candidate(f"h{number}") for number in range(2 * module.PIECE)]
    offer = offer_of(make_conf(enabled_filters=[]), hosts, [2] * len(hosts))
    pauses = []
    capacity(offer, NAMES, lambda: pauses.append(1))
    assert len(pauses) == 2


def test_a_count_on_one_host_is_bounded():
    fit = room([candidate({"VCPU": 1})], {"root": {"VCPU": Usage(10**9, 0)}}.get)
    assert fit.count == module.MOST_ON_HOST


class Left:
    """Summaries of an answer: so many VCPUs are left on each provider."""

    def __init__(self, vcpus):
        self.vcpus = vcpus

    def of(self, provider):
        return SimpleNamespace(resources={"VCPU": Usage(100, 100 - self.vcpus[provider])})


def offer_of(conf, hosts, vcpus_left, spec=None, others=()):
    """A dry run over hosts, on which Placement has so many VCPUs left; an instance takes two.

    ``others`` are hosts that Placement does not offer.
    """
    spec = spec or make_spec(sizes={"memory_mb": 64, "vcpus": 2}, instance_uuid="i")
    trace = decide(conf, hosts, SchedulingRequest.of(spec, ["i"]), make=OfferTrace)
    left = {host.columns["uuid"]: left for host, left in zip(hosts, vcpus_left, strict=True)}
    by_root = {
        uuid: (AllocationCandidate.of(uuid, (uuid,), {uuid: {"resources": {"VCPU": 2}}}, {}),)
        for uuid in left
    }
    found = Candidates(by_root, _summaries=(Left(left),))
    return Offer(trace, found, conf, make_table([*hosts, *others]))


def counted(offer):
    return capacity(offer, NAMES, lambda: None)


def test_instances_are_summed_by_cell_and_zone():
    hosts = [
        host_with_candidate("h1").az("a"),
        host_with_candidate("h2").az("a"),
        host_with_candidate("h3").az("b"),
        host_with_candidate("h4").az("a").cell(OTHER_CELL),
    ]
    found = counted(offer_of(make_conf(enabled_filters=[]), hosts, [10, 5, 2, 8]))
    assert [(one["cell"], one["zone"], one["instances"], one["hosts"]) for one in found["places"]] == [
        ("cell1", "a", 7, 2),
        ("cell1", "b", 1, 1),
        ("cell2", "a", 4, 1),
    ]
    assert found["instances"] == 12
    assert found["total"]["stranded"] == {"VCPU": 1}
    assert found["total"]["limits"] == [{"limit": "VCPU", "hosts": 4}]


def test_hosts_that_placement_does_not_offer_are_told_by_place():
    offered = [host_with_candidate("h1").az("a")]
    full = [host_with_candidate("h2").az("a"), host_with_candidate("h3").az("b")]
    found = counted(offer_of(make_conf(enabled_filters=[]), offered, [10], others=full))
    assert [
        (one["zone"], one["instances"], one["hosts"], one["hosts_with_room"], one["not_offered"])
        for one in found["places"]
    ] == [("a", 5, 1, 1, 1), ("b", 0, 0, 0, 1)]
    assert (found["total"]["hosts"], found["total"]["not_offered"]) == (1, 2)


def test_filters_end_the_count_of_a_host():
    conf = make_conf(enabled_filters=["ComputeFilter", "NumInstancesFilter"], max_instances_per_host=5)
    hosts = [
        host_with_candidate("free"),
        host_with_candidate("busy").num_instances(3),
        host_with_candidate("full").num_instances(5),
        host_with_candidate("down").down(),
    ]
    found = counted(offer_of(conf, hosts, [100, 100, 100, 100]))
    assert found["instances"] == 5 + 2
    assert found["total"]["limits"] == [
        {"limit": "NumInstancesFilter", "hosts": 3},
        {"limit": "ComputeFilter", "hosts": 1},
    ]
    assert found["total"]["hosts_with_room"] == 2


def test_only_hosts_that_may_have_such_instances_strand_anything():
    """Of those that are full by a filter the rest is stranded; disabled ones have nothing to give."""
    conf = make_conf(enabled_filters=["ComputeFilter", "NumInstancesFilter"], max_instances_per_host=5)
    hosts = [
        host_with_candidate("free"),
        host_with_candidate("full").num_instances(5),
        host_with_candidate("disabled").disabled(),
        host_with_candidate("ignored"),
    ]
    spec = make_spec(sizes={"memory_mb": 64, "vcpus": 2}, instance_uuid="i", ignore_hosts=["ignored"])
    total = counted(offer_of(conf, hosts, [5, 30, 100, 100], spec))["total"]
    assert (total["free"], total["stranded"]) == ({"VCPU": 35}, {"VCPU": 1 + 30})


def test_isolated_hosts_of_another_project_strand_nothing():
    conf = make_conf(enabled_filters=["AggregateMultiTenancyIsolation"])
    hosts = [host_with_candidate("ours"), host_with_candidate("theirs").aggregate("t", filter_tenant_id="q")]
    assert counted(offer_of(conf, hosts, [5, 100]))["total"]["stranded"] == {"VCPU": 1}


def test_disabled_hosts_are_counted_whether_placement_offers_them_or_not():
    conf = make_conf(enabled_filters=["ComputeFilter"])
    disabled = [host_with_candidate(f"off{number}").disabled() for number in range(4)]
    offer = offer_of(conf, [host_with_candidate("h1"), *disabled[:2]], [10, 10, 10], others=disabled[2:])
    total = counted(offer)["total"]
    assert (total["disabled"], total["disabled_not_offered"]) == (4, 2)
    assert {"limit": "ComputeFilter", "hosts": 2} in total["limits"]


def test_builds_are_over_before_the_next_instance_comes():
    conf = make_conf(enabled_filters=["IoOpsFilter"], max_io_ops_per_host=2)
    assert counted(offer_of(conf, [host_with_candidate("h1")], [20]))["instances"] == 10


GUEST = objects.InstanceNUMATopology(
    cells=[
        objects.InstanceNUMACell(
            id=0, cpuset=set(), pcpuset={0, 1}, memory=512, cpu_policy="dedicated", pagesize=None
        )
    ]
)


def numa_host(name, *cells):
    return host_with_candidate(name).numa(topology(*cells))


def test_a_topology_ends_the_count_where_no_cell_has_room_for_one_guest_more():
    """Placement has room for 20 on each; a guest has two pinned CPUs of one cell."""
    conf = make_conf(enabled_filters=["NUMATopologyFilter"])
    hosts = [
        numa_host("even", host_cell(0, cpus=4), host_cell(1, cpus=4)),
        numa_host("odd", host_cell(0, cpus=3), host_cell(1, cpus=3), host_cell(2, cpus=1)),
        numa_host("single", host_cell(0, cpus=1), host_cell(1, cpus=1)),
        host_with_candidate("without"),
    ]
    spec = make_spec(sizes={"memory_mb": 512, "vcpus": 2}, instance_uuid="i", numa_topology=GUEST)
    found = counted(offer_of(conf, [host.az(host.columns["host"]) for host in hosts], [40] * 4, spec))
    assert {
        one["zone"]: (one["instances"], [limit["limit"] for limit in one["limits"]])
        for one in found["places"]
    } == {
        "even": (4, ["NUMATopologyFilter"]),
        "odd": (2, ["NUMATopologyFilter"]),
        "single": (0, ["NUMATopologyFilter"]),
        "without": (0, ["NUMATopologyFilter"]),
    }


def test_a_topology_does_not_lift_what_placement_has_left():
    conf = make_conf(enabled_filters=["NUMATopologyFilter"])
    spec = make_spec(sizes={"memory_mb": 512, "vcpus": 2}, instance_uuid="i", numa_topology=GUEST)
    found = counted(offer_of(conf, [numa_host("h", host_cell(0, cpus=8))], [6], spec))
    assert (found["instances"], found["total"]["limits"]) == (3, [{"limit": "VCPU", "hosts": 1}])


def test_devices_end_the_count():
    conf = make_conf(enabled_filters=["PciPassthroughFilter"])
    nic = {"vendor_id": "8086", "product_id": "1", "numa_node": 0}
    hosts = [
        host_with_candidate("h1").pci(from_flat([{**nic, "count": 5}])),
        host_with_candidate("h2").pci(from_flat([{**nic, "count": 1}])),
    ]
    wanted = objects.InstancePCIRequest(
        count=2, spec=[{"vendor_id": "8086"}], alias_name="nic", request_id="r"
    )
    spec = make_spec(
        sizes={"vcpus": 2},
        instance_uuid="i",
        pci_requests=objects.InstancePCIRequests(requests=[wanted]),
    )
    found = counted(offer_of(conf, hosts, [40, 40], spec))
    assert found["instances"] == 2
    assert found["total"]["limits"] == [{"limit": "PciPassthroughFilter", "hosts": 2}]


def test_hosts_that_are_not_counted_in_time_are_told():
    conf = make_conf(enabled_filters=["NUMATopologyFilter"])
    hosts = [numa_host(name, host_cell(0, cpus=4)) for name in ("h1", "h2", "h3")]
    spec = make_spec(sizes={"memory_mb": 512, "vcpus": 2}, instance_uuid="i", numa_topology=GUEST)
    ticks = iter([0.0, 1.0, module.BUDGET + 1, module.BUDGET + 2])
    found = capacity(offer_of(conf, hosts, [40] * 3, spec), NAMES, lambda: None, lambda: next(ticks))
    assert (found["instances"], found["unreached"]) == (2, 2)
    assert found["total"]["stranded"] == {"VCPU": 36}


def test_hosts_that_the_request_excludes_count_nothing():
    spec = make_spec(sizes={"vcpus": 2}, instance_uuid="i", ignore_hosts=["h1"])
    hosts = [host_with_candidate("h1"), host_with_candidate("h2")]
    found = counted(offer_of(make_conf(enabled_filters=["ComputeFilter"]), hosts, [20, 10], spec))
    assert (found["instances"], found["total"]["hosts_with_room"]) == (5, 1)
    assert {"limit": "request", "hosts": 1} in found["total"]["limits"]


def test_without_hosts_the_reason_is_told():
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    trace = decide(make_conf(enabled_filters=[]), [], request, make=OfferTrace)
    trace.decision.summary = "Placement offers no host"
    found = counted(
        Offer(trace, Candidates(), make_conf(), make_table([host_with_candidate("full").az("a")]))
    )
    assert (found["instances"], found["reason"]) == (0, "Placement offers no host")
    assert [(one["zone"], one["hosts"], one["not_offered"]) for one in found["places"]] == [("a", 0, 1)]
