"""Requests that find no valid host, by one cause each, on a real Placement: cause, remedy and dry run are true.

Each case names the cause and the remedy that is told, and follows the remedy: the request then finds hosts.
The dry run of the request, on a snapshot of the same cloud, tells the same.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
import random
from typing import Any

import pytest

from scheduler import objects
from scheduler.decisions.cause_code import CauseCode
from scheduler.decisions.constraints import STALE
from scheduler.decisions.failure_cause import (
    OF_AFFINITY,
    OF_AFFINITY_OUT_OF_SERVICE,
    OF_ANTI_AFFINITY,
    OF_GROUP,
    OF_IGNORED,
    OF_STALE_TRAIT,
    OF_ZONE_OF_MOVE,
    for_fewer,
)
from scheduler.operators.plan.capacity import capacity
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from tools.rig.draw import THERE
from tools.rig.fleet import Aggregate, Cell, Fleet, Hardware, Placed
from tools.rig.load import random_uuid
from tools.rig.placement import placement_of
from tools.rig.refusing_cloud import RefusingCloud
from tools.rig.wanted import TENANT, Wanted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HARDWARE = Hardware(
    16,
    16384,
    100,
    cpu_ratio=1.0,
    reserved_mb=0,
    limits={"VCPU": {"max_unit": 8}, "DISK_GB": {"max_unit": 1000}},
)
CELL1 = Cell("cell1", "").uuid
INSTANCE = "5e000000-0000-4000-8000-000000000001"
SSD, AVX = "STORAGE_DISK_SSD", "HW_CPU_X86_AVX512F"

Situation = Callable[[RefusingCloud], AbstractContextManager[object]]


def four_hosts(_rng, cells):
    """Two hosts in each of az1 and az2, one of each zone in each cell; none in az3. One has an instance."""
    usual = {"machine": HARDWARE, "traits": (SSD,), "devices": 1}
    fleet = Fleet(
        [replace(each, vgpus=2 if each.number < 2 else 0, **usual) for each in Fleet(4, cells).hosts], cells
    )
    fleet.aggregates += [
        Aggregate("fast", {"speed": "fast"}, []), Aggregate("tenant", {"filter_tenant_id": TENANT}, [])
    ]  # fmt: skip
    fleet.placed = [Placed(INSTANCE, fleet.hosts[2], THERE)]
    return fleet


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp("refusals")
    with (
        placement_of(directory) as place,
        RefusingCloud(directory / "cloud", place, random.Random(1), four_hosts) as cloud,
    ):
        yield cloud


def nothing(_spec):
    pass


def in_usual_state(_cloud):
    return nullcontext()


@dataclass(frozen=True)
class Refusal:
    """A request that is refused.

    Attributes:
        code: The code of the cause.
        words: A part of the cause in words.
        remedy: The remedy that is told.
        better: The request that follows the remedy; None: it cannot be followed in this cloud.
        situation: The state of the cloud that refuses it.
        helped: The state of the cloud after the remedy.
        change: Changes the spec.
    """

    name: str
    wanted: Wanted
    code: str
    words: str
    remedy: str
    better: Wanted | None
    situation: Situation = in_usual_state
    helped: Situation = in_usual_state
    change: Callable[[Any], None] = nothing

    def uuids(self, cloud):
        return [random_uuid(cloud.rng) for _ in range(self.wanted.count)]

    def spec(self, cloud, uuids):
        made = self.wanted.spec(uuids)
        if self.wanted.group_hosts:
            made.instance_group.members = [INSTANCE, *uuids]
        self.change(made)
        return made


def require_trait_in_image(spec):
    spec.image.properties.traits_required = [AVX]


def dedicate_cpus(spec):
    spec.flavor.extra_specs |= {"hw:cpu_policy": "dedicated"}


def move_within_cell1(spec):
    cell = objects.CellMapping(uuid=CELL1)
    spec.requested_destination = objects.Destination(cell=cell, allow_cross_cell_move=False)


def hosts_are(state, *numbers):
    return lambda cloud: getattr(cloud, state)(*[cloud.fleet.hosts[number] for number in numbers])


ALL = (0, 1, 2, 3)
GROUP_HOST = "cmp-00002"
MEMBER = Wanted(policy="affinity", group_hosts=(GROUP_HOST,))
LAST_OF_GROUP = Wanted(
    policy="anti-affinity",
    group_hosts=(GROUP_HOST,),
    memory_mb=16000,
    destination=(GROUP_HOST, f"{GROUP_HOST}.example.net"),
)

CASES = [
    Refusal(
        "a trait that no host has", Wanted(traits=(AVX,)),
        "trait", f"4 hosts lack only required trait {AVX} (flavor)", CauseCode("trait").remedy, Wanted(),
    ),
    Refusal(
        "a trait of the image", Wanted(),
        "trait", f"4 hosts lack only required trait {AVX} (image)", CauseCode("trait").remedy, Wanted(),
        change=require_trait_in_image,
    ),
    Refusal(
        "max_unit", Wanted(vcpus=12),
        "resources", "4 hosts lack only 12 VCPU: VCPU max_unit 8",
        "Use a flavor with at most 8 VCPU, or hosts with a larger max_unit; allocation ratios do not raise it.",
        Wanted(vcpus=8),
    ),
    Refusal(
        "small hosts", Wanted(root_gb=500),
        "resources", "4 hosts lack only 500 DISK_GB: DISK_GB capacity 100",
        "Add larger hosts, raise the ratio or reserve less of DISK_GB, or use a flavor with at most 100 DISK_GB.",
        Wanted(root_gb=100),
    ),
    Refusal(
        "full hosts", Wanted(memory_mb=2048),
        "resources", "4 hosts lack only 2048 MEMORY_MB: at most 512 MEMORY_MB free",
        "Free or add capacity, raise the allocation ratio of MEMORY_MB, or use a flavor with at most 512 MEMORY_MB.",
        Wanted(memory_mb=512), hosts_are("full", *ALL), hosts_are("full", *ALL),
    ),
    Refusal(
        "a numbered group", Wanted(vgpus=3),
        "resources", "4 hosts lack only group 1 (3 VGPU) (flavor)", OF_GROUP, Wanted(vgpus=2),
    ),
    Refusal(
        "a numbered group besides CPUs that may be dedicated or shared", Wanted(vgpus=3),
        "resources", "4 hosts lack only group 1 (3 VGPU) (flavor)", OF_GROUP, Wanted(vgpus=2),
        change=dedicate_cpus,
    ),
    Refusal(
        "a class of children", Wanted(tree_vgpus=3),
        "resources", "4 hosts lack only 3 VGPU",
        "Free or add capacity, or use a flavor with less VGPU.",
        Wanted(tree_vgpus=2),
    ),
    Refusal(
        "devices", Wanted(devices=2),
        "pci", "4 hosts are rejected only by PciPassthroughFilter: ", CauseCode("pci").remedy, Wanted(devices=1),
    ),
    Refusal(
        "a NUMA cell", Wanted(numa=True, memory_mb=12000),
        "numa", "4 hosts are rejected only by NUMATopologyFilter: ", CauseCode("numa").remedy,
        Wanted(numa=True, memory_mb=6000),
    ),
    Refusal(
        "more instances than room", Wanted(memory_mb=8000, count=9),
        "resources",
        "for instance 8 of 9; 7 found a host, which was released; "
        "4 hosts lack only 8000 MEMORY_MB: at most 6336 MEMORY_MB free",
        "Request at most 7 instances at once, add capacity, or use a flavor with at most 6336 MEMORY_MB.",
        Wanted(memory_mb=8000, count=7),
    ),
    Refusal(
        "more instances than devices in trees", Wanted(vgpus=1, count=5),
        "resources",
        "for instance 5 of 5; 4 found a host, which was released; "
        "4 hosts lack only group 1 (1 VGPU) (flavor): used by the instances before on 2 hosts",
        for_fewer(4, OF_GROUP), Wanted(vgpus=1, count=4),
    ),
    Refusal(
        "more members than hosts", Wanted(policy="anti-affinity", count=5),
        "server_group",
        "for instance 5 of 5; 4 found a host, which was released; "
        "4 hosts are rejected only by ServerGroupAntiAffinityFilter: ",
        for_fewer(4, OF_ANTI_AFFINITY), Wanted(policy="anti-affinity", count=4),
    ),
    Refusal(
        "the full host of an affinity group", MEMBER,
        "resources", "1 host lacks only 1024 MEMORY_MB: at most 512 MEMORY_MB free", OF_AFFINITY, MEMBER,
        hosts_are("full", 2),
    ),
    Refusal(
        "the host of an affinity group that is down", MEMBER,
        "server_group", "1 host is rejected only by ComputeFilter: service forced down",
        OF_AFFINITY_OUT_OF_SERVICE, MEMBER, hosts_are("down", 2),
    ),
    Refusal(
        "a zone without hosts", Wanted(zone="az3"),
        "availability_zone", "4 hosts lack only availability zone az3", CauseCode("availability_zone").remedy,
        Wanted(zone="az1"),
    ),
    Refusal(
        "a requested host that is full and forbidden by the group", LAST_OF_GROUP,
        "host", f"1 host is rejected by ServerGroupAntiAffinityFilter and lacks 16000 MEMORY_MB; "
        f"3 hosts suit but are not the requested destination {GROUP_HOST}",
        CauseCode("host").remedy, replace(LAST_OF_GROUP, destination=None),
    ),
    Refusal(
        "hosts to leave", Wanted(ignored=tuple(f"cmp-{number:05}" for number in ALL)),
        "excluded", "4 hosts suit but are ignored by the request", OF_IGNORED, Wanted(ignored=("cmp-00000",)),
    ),
    Refusal(
        "a move whose own host is the only one", Wanted(zone="az1", ignored=("cmp-00000",)),
        "availability_zone", "1 host suits but is ignored by the request", OF_ZONE_OF_MOVE, None,
        change=move_within_cell1,
    ),
    Refusal(
        "disabled hosts", Wanted(zone="az1"),
        "disabled", "2 hosts lack only an enabled compute service: service disabled (maintenance)",
        CauseCode("disabled").remedy, Wanted(zone="az1"), hosts_are("disabled", 0, 1),
    ),
    Refusal(
        "hosts that are disabled in Placement only", Wanted(zone="az1"),
        "disabled", f"2 hosts lack only an enabled compute service: {STALE}", OF_STALE_TRAIT,
        Wanted(zone="az1"), hosts_are("forgotten", 0, 1),
    ),
    Refusal(
        "hosts that are down", Wanted(),
        "compute_down", "4 hosts are rejected only by ComputeFilter: service forced down",
        CauseCode("compute_down").remedy, Wanted(), hosts_are("down", *ALL),
    ),
    Refusal(
        "the aggregate of a project", Wanted(tenant=True),
        "aggregate", f"4 hosts lack only required aggregate tenant of project {TENANT}", CauseCode("aggregate").remedy,
        Wanted(),
    ),
    Refusal(
        "a property of aggregates", Wanted(fast=True),
        "aggregate", "4 hosts are rejected only by AggregateInstanceExtraSpecsFilter: ", CauseCode("aggregate").remedy,
        Wanted(),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refusal_has_its_cause_and_a_remedy_that_helps(cloud, case):
    uuids = case.uuids(cloud)
    with case.situation(cloud):
        told = cloud.decide(case.spec(cloud, uuids), uuids, explain=True)
        planned = cloud.dry_run(case.spec(cloud, uuids))
    cause = told.cause
    assert (cause.code, cause.remedy) == (case.code, case.remedy)
    assert case.words in cause.words
    assert planned.cause == cause
    if case.better:
        with case.helped(cloud):
            assert finds_hosts(cloud, replace(case, wanted=case.better, change=nothing))


def test_no_instance_beyond_a_unit_limit_is_counted(cloud):
    (case,) = (one for one in CASES if one.name == "max_unit")
    with snapshot.read(cloud.conf) as read:
        found = capacity(PlannedCloud(read), case.spec(cloud, case.uuids(cloud)))
    assert found.instances == 0
    assert case.words in found.reason


def finds_hosts(cloud, case):
    uuids = case.uuids(cloud)
    found = cloud.decide(case.spec(cloud, uuids), uuids).error is None
    cloud.release(uuids)
    return found
