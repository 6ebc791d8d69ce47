"""The state of each host for one more instance of a flavor."""

import pytest

from scheduler.operators.report.hosts import ReportedState, read_hosts
from scheduler.operators.snapshot.request_specs import NotFound
from tests.unit.operators.plan.clouds import MadeCloud, flavor, node

#: What one more instance takes: 2 vCPUs, 2048 MiB and 1 GiB of disk.
ASKED = flavor("m1", vcpus=2, ram=2048)


def states(cloud, *flavors, chosen=None):
    cloud.flavors["m1"] = ASKED
    found = read_hosts(cloud.planned(), flavors or ["m1"], chosen or {})
    return {one.host: one for one in found.states}, found


@pytest.mark.parametrize(
    ("changed", "used", "state", "words", "room"),
    [
        (lambda host: host, None, ReportedState.ROOM, "", 4),
        (lambda host: host, flavor("x", vcpus=1, ram=7168), ReportedState.STRANDED, "2048 MEMORY_MB: at most 1024 MEMORY_MB free", 0),
        (lambda host: host, flavor("x", vcpus=7, ram=1024), ReportedState.STRANDED, "2 VCPU: at most 1 VCPU free", 0),
        (lambda host: host, flavor("x", vcpus=8, ram=8192, disk=100), ReportedState.FULL, "1 DISK_GB: at most 0 DISK_GB free; 2048 MEMORY_MB: at most 0 MEMORY_MB free; 2 VCPU", 0),
        (lambda host: host.disabled("new kernel"), None, ReportedState.DISABLED, "service disabled (new kernel)", 0),
        (lambda host: host.down(), None, ReportedState.DOWN, "service last seen", 0),
        (lambda host: host, flavor("x"), ReportedState.UNSUITABLE, "NumInstancesFilter: 1 instances, limit 1", 0),
    ],
    ids=["free", "without memory", "without vcpus", "full", "disabled", "down", "filtered"],
)  # fmt: skip
def test_the_state_of_a_host(changed, used, state, words, room):
    # Made here: a service that was seen when this file was imported is down by now
    cloud = MadeCloud(
        changed(node("h")), node("other"), max_instances_per_host=1 if "Filter" in words else 50
    )
    if used:
        cloud.put("i", "h", used)
    found, _ = states(cloud)
    assert found["h"].state is state
    assert words in found["h"].words
    assert found["h"].room == room
    assert found["h"].instances == (used is not None)
    assert found["other"].state is ReportedState.ROOM


def test_a_host_that_placement_does_not_offer_though_it_has_room_is_unsuitable():
    cloud = MadeCloud(node("h"))
    cloud.flavors["gpu"] = flavor("gpu", trait__CUSTOM_GPU="required")
    found, hosts = states(cloud, "gpu")
    assert hosts.flavor == "gpu"
    assert found["h"].state is ReportedState.UNSUITABLE
    assert found["h"].words == "required trait CUSTOM_GPU (flavor)"


def test_hosts_are_in_order_of_zone_and_name_with_how_often_they_were_chosen():
    cloud = MadeCloud(node("h2").az("b"), node("h1").az("b"), node("h3").az("a"))
    _, hosts = states(cloud, chosen={"h1": 7})
    assert [(one.zone, one.host, one.chosen) for one in hosts.states] == [
        ("a", "h3", 0),
        ("b", "h1", 7),
        ("b", "h2", 0),
    ]


@pytest.mark.parametrize(
    ("flavors", "taken"),
    [(["gone", "m2"], "m2"), (["gone"], "m0"), ([], "m0")],
    ids=["the first that exists", "none exists", "nothing was asked for"],
)
def test_room_is_for_a_flavor_that_exists(flavors, taken):
    cloud = MadeCloud(node("h"))
    cloud.flavors |= {"m0": flavor("m0", ram=512), "m2": flavor("m2", ram=4096)}
    assert read_hosts(cloud.planned(), flavors, {}).flavor == taken


def test_a_cloud_without_flavors_is_an_error():
    with pytest.raises(NotFound, match="no flavor"):
        read_hosts(MadeCloud(node("h")).planned(), ["m1"], {})
