from dataclasses import replace
import math

import pytest

from scheduler import objects
from scheduler.numa.guest import guest_topology_from
from scheduler.request.scheduling_request import SchedulingRequest
from tests.unit.request.builders import make_flavor, make_image

GROUP = {"uuid": "g", "policy": "anti-affinity", "members": ["a", "b"], "hosts": ["h1"]}


def make_spec(**fields):
    return objects.RequestSpec(**{"flavor": make_flavor(), "num_instances": 2, **fields})


def test_a_build_claims_for_the_named_instances():
    request = SchedulingRequest.of(make_spec(), ["a", "b"], "context", with_alternates=True, deadline=7.0)
    assert (request.claims, request.is_rebuild) == (True, False)
    assert request.instance_uuids == ("a", "b")
    assert (request.context, request.with_alternates, request.deadline) == ("context", True, 7.0)
    assert request.progress.instance_uuid == "a"


@pytest.mark.parametrize(
    ("fields", "uuids"), [({}, ("", "")), ({"instance_uuid": "i"}, ("i", "i"))], ids=["unnamed", "one named"]
)
def test_without_instances_stand_ins_are_used_and_nothing_is_claimed(fields, uuids):
    request = SchedulingRequest.of(make_spec(**fields))
    assert request.instance_uuids == uuids
    assert not request.claims
    assert request.deadline == math.inf


def test_an_empty_list_of_instances_names_none():
    request = SchedulingRequest.of(make_spec(), [])
    assert request.instance_uuids == ()
    assert request.progress.instance_uuid == ""


def test_a_rebuild_check_claims_nothing():
    spec = make_spec(scheduler_hints={"_nova_check_type": ["rebuild"]}, force_hosts=["h"])
    request = SchedulingRequest.of(spec, ["a"])
    assert (request.claims, request.is_rebuild) == (False, True)


def test_topology_and_devices_are_plain_values():
    cell = objects.InstanceNUMACell(id=0, cpuset={0, 1}, pcpuset=set(), memory=512)
    spec = make_spec(
        numa_topology=objects.InstanceNUMATopology(cells=[cell]),
        pci_requests=objects.InstancePCIRequests(requests=[]),
    )
    request = SchedulingRequest.of(spec, ["a"])
    assert request.guest.cells[0].memory == 512
    assert request.progress.guest is request.guest
    assert request.pci_requests == ()


def test_unset_topology_and_devices_are_none():
    request = SchedulingRequest.of(make_spec(), ["a"])
    assert request.guest is None
    assert request.pci_requests is None
    assert request.server_group is None
    assert request.progress.provider_uuids is None


def test_a_server_group_as_plain_values():
    group = objects.InstanceGroup(**GROUP, _rules={"max_server_per_host": "2"})
    request = SchedulingRequest.of(make_spec(instance_group=group), ["a"])
    found = request.server_group
    assert (found.uuid, found.policy, found.policies) == ("g", "anti-affinity", ("anti-affinity",))
    assert (found.members, found.hosts) == (("a", "b"), ("h1",))
    assert found.max_server_per_host == 2
    assert request.progress.group_hosts == ("h1",)


def test_a_server_group_brought_up_to_date_leaves_the_first_request_as_it_was():
    request = SchedulingRequest.of(make_spec(instance_group=objects.InstanceGroup(**GROUP)), ["a"])
    later = request.with_group(["a", "b", "c"], ["h2"])
    assert (later.server_group.members, later.server_group.hosts) == (("a", "b", "c"), ("h2",))
    assert later.progress.group_hosts == ("h2",)
    assert request.progress.group_hosts == ("h1",)


def test_without_a_server_group_there_is_nothing_to_bring_up_to_date():
    request = SchedulingRequest.of(make_spec(), ["a"])
    assert request.with_group(["a"], ["h"]) is request


@pytest.mark.parametrize("hosts", [["h1"], None], ids=["hosts", "no hosts"])
def test_unchanged_progress_leaves_the_request_spec_as_it_was_sent(hosts):
    topology = objects.InstanceNUMATopology(cells=[objects.InstanceNUMACell(id=0, cpuset={0}, memory=1)])
    group = objects.InstanceGroup(**GROUP | {"hosts": hosts})
    spec = make_spec(numa_topology=topology, instance_group=group, requested_resources=[])
    SchedulingRequest.of(spec, ["a"]).write_progress()
    assert (spec.numa_topology, spec.instance_group, spec.instance_group.hosts) == (topology, group, hosts)
    assert spec.instance_uuid == "a"


def test_progress_is_written_onto_the_request_spec():
    topology = objects.InstanceNUMATopology(
        cells=[objects.InstanceNUMACell(id=0, cpuset={0}, memory=1, pagesize=-2)],
        emulator_threads_policy="isolate",
    )
    spec = make_spec(
        numa_topology=topology,
        instance_group=objects.InstanceGroup(**GROUP),
        requested_resources=[objects.RequestGroup(requester_id="port")],
    )
    request = SchedulingRequest.of(spec, ["a", "b"]).with_group(["a", "b", "c"], ["h2"])
    fitted = replace(request.guest.cells[0], id=3, pagesize=4, pins=((0, 7),), reserved=frozenset({8}))
    request.progress.instance_uuid = "b"
    request.progress.guest = request.guest.with_cells((fitted,))
    request.progress.provider_uuids = {"port": ("nic",)}
    request.progress.group_hosts = ("h2", "h3")
    request.write_progress()
    assert spec.instance_uuid == "b"
    assert (spec.instance_group.members, spec.instance_group.hosts) == (["a", "b", "c"], ["h2", "h3"])
    assert spec.requested_resources[0].provider_uuids == ["nic"]
    assert guest_topology_from(spec.numa_topology) == request.progress.guest
    assert spec.numa_topology.emulator_threads_policy == "isolate"


def test_flavor_image_and_hints():
    spec = make_spec(
        flavor=make_flavor({"hw:cpu_policy": "dedicated"}),
        image=make_image({"hw_architecture": "x86_64"}),
        scheduler_hints={"same_host": ["i"]},
    )
    request = SchedulingRequest.of(spec, ["a"])
    assert request.extra_specs == {"hw:cpu_policy": "dedicated"}
    assert request.image_property("hw_architecture") == "x86_64"
    assert request.image_property("hw_vm_mode") is None
    assert request.hint("same_host") == "i"
    assert request.hint("different_host") is None


CELL = objects.CellMapping(uuid="11111111-1111-1111-1111-111111111111")


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        (None, None),
        (objects.Destination(), None),
        (objects.Destination(cell=None), None),
        (objects.Destination(cell=CELL), CELL.uuid),
        (objects.Destination(cell=CELL, allow_cross_cell_move=True), None),
    ],
    ids=["no destination", "cell unset", "cell null", "cell", "any cell"],
)
def test_the_cell_of_the_destination(destination, expected):
    assert SchedulingRequest.of(make_spec(requested_destination=destination)).cell_uuid == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"requested_destination": objects.Destination(host="h")}, False),
        ({"requested_destination": objects.Destination(cell=CELL)}, True),
        ({"ignore_hosts": ["h"]}, True),
    ],
    ids=["boot", "boot on a named host", "move within a cell", "evacuation"],
)
def test_requests_that_move_an_instance(fields, expected):
    assert SchedulingRequest.of(make_spec(**fields), ["a"]).moves_instance is expected


def test_a_restarted_request_is_as_before_any_choice():
    group = objects.InstanceGroup(**GROUP)
    request = SchedulingRequest.of(make_spec(instance_group=group), ["a", "b"])
    request.progress.instance_uuid = "b"
    request.progress.group_hosts = ("h1", "h7")
    again = request.restarted()
    assert (again.progress.instance_uuid, again.progress.group_hosts) == ("a", ("h1",))
    assert request.progress.instance_uuid == "b"
