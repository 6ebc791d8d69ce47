"""Plans know the unit limits of hosts, which Placement's answer about all of them lacks."""

import pytest

from scheduler.decisions.failure_cause import cause_of
from scheduler.operators.plan.capacity import capacity
from scheduler.operators.plan.drain import drain
from scheduler.operators.plan.dry_run import dry_run
from scheduler.operators.plan.survive import by_hosts, survive
from tests.unit.operators.plan.clouds import MadeCloud, flavor, node
from tests.unit.operators.plan.test_capacity import request

LARGE = flavor("large", vcpus=4)


def limited(*names, **limits):
    """A cloud of hosts with 8 VCPU, of which those named have unit limits of VCPU."""
    cloud = MadeCloud(node("h1"), node("h2"), node("h3"))
    cloud.inventories = {name: {"VCPU": limits} for name in names}
    return cloud


@pytest.mark.parametrize(
    "limits", [{"max_unit": 3}, {"min_unit": 5, "max_unit": 8}, {"step_size": 3, "max_unit": 8}]
)
def test_a_dry_run_names_no_host_whose_limits_refuse_the_flavor(limits):
    cloud = limited("h1", "h2", "h3", **limits)
    _, spec = request(cloud, LARGE)
    found = dry_run(cloud.planned(), spec)
    assert found.hosts == []
    name, limit = next(iter(limits.items()))
    assert f"3 hosts lack only 4 VCPU: VCPU {name} {limit}" in cause_of(found.decision).words


def test_only_hosts_whose_limits_allow_the_flavor_count():
    cloud = limited("h1", "h2", max_unit=3)
    _, spec = request(cloud, LARGE)
    assert capacity(cloud.planned(), spec).instances == 2


def test_no_instance_is_moved_to_a_host_whose_limits_refuse_it():
    cloud = limited("h2", max_unit=3).put("i1", "h1", LARGE)
    assert [move.to for move in drain(cloud.planned(), [0]).moves] == ["h3"]


def test_the_loss_of_a_host_is_not_survived_by_hosts_whose_limits_refuse_its_instances():
    planned = limited("h2", "h3", max_unit=3).put("i1", "h1", LARGE).planned()
    found = survive(planned, by_hosts(planned.snapshot))
    assert (found.survived, found.missing["VCPU"]) == (0, 4)
