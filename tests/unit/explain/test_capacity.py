"""How many instances fit is what claiming one after the other would come to."""

from random import Random

import pytest

from scheduler.explain import capacity as module
from scheduler.explain.capacity import Offer, capacity, room
from scheduler.explain.explanation import Names
from scheduler.placement.answer import AllocationCandidate, Candidates, Usage
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.headroom import Headroom
from tests.builders import CELL, OTHER_CELL
from tests.support.options import make_conf
from tests.unit.explain.decisions import decide
from tests.unit.filters.asking import make_spec
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


def test_a_count_on_one_host_is_bounded():
    fit = room([candidate({"VCPU": 1})], {"root": {"VCPU": Usage(10**9, 0)}}.get)
    assert fit.count == module.MOST_ON_HOST


def offer_of(conf, hosts, vcpus_left, spec=None):
    """A dry run over hosts, on which Placement has so many VCPUs left; an instance takes two."""
    spec = spec or make_spec(sizes={"memory_mb": 64, "vcpus": 2}, instance_uuid="i")
    record, *_ = decide(conf, hosts, SchedulingRequest.of(spec, ["i"]))
    left = {host.columns["uuid"]: left for host, left in zip(hosts, vcpus_left, strict=True)}
    by_root = {
        uuid: (AllocationCandidate.of(uuid, (uuid,), {uuid: {"resources": {"VCPU": 2}}}, {}),)
        for uuid in left
    }
    return Offer(
        record, Candidates(by_root, read_usage=lambda uuid: {"VCPU": Usage(100, 100 - left[uuid])}), conf
    )


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


def test_builds_are_over_before_the_next_instance_comes():
    conf = make_conf(enabled_filters=["IoOpsFilter"], max_io_ops_per_host=2)
    assert counted(offer_of(conf, [host_with_candidate("h1")], [20]))["instances"] == 10


def test_hosts_that_the_request_excludes_count_nothing():
    spec = make_spec(sizes={"vcpus": 2}, instance_uuid="i", ignore_hosts=["h1"])
    hosts = [host_with_candidate("h1"), host_with_candidate("h2")]
    found = counted(offer_of(make_conf(enabled_filters=["ComputeFilter"]), hosts, [20, 10], spec))
    assert (found["instances"], found["total"]["hosts_with_room"]) == (5, 1)
    assert {"limit": "request", "hosts": 1} in found["total"]["limits"]


def test_without_hosts_the_reason_is_told():
    record, *_ = decide(
        make_conf(enabled_filters=[]), [], SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    )
    record.summary = "Placement offers no host"
    found = counted(Offer(record, Candidates(), make_conf()))
    assert (found["instances"], found["places"], found["reason"]) == (0, [], "Placement offers no host")
