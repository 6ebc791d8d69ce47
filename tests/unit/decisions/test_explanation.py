"""Explanations of requests without a host in clouds of hundreds of hosts, decided as a plan decides them."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.decisions.cause_code import CauseCode
from scheduler.decisions.failure_cause import cause_of
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, group, node
from tests.unit.operators.plan.test_capacity import request
from tests.unit.operators.plan.test_drain import host_cells, pinned_spec

#: More hosts than any bound of what is named or read.
MANY = 230


def explained(cloud, wanted, count=1, in_group=None, **fields):
    """The document of a request that finds no host, and its cause."""
    _, spec = request(cloud, wanted, **fields)
    spec.num_instances, spec.instance_group = count, in_group
    uuids = [uuid_of(f"new {number}") for number in range(count)]
    decision = cloud.planned().decide(spec, uuids, explain=True).document
    return decision, cause_of(decision)


def alone(decision):
    """How many hosts fail each constraint alone."""
    return {constraint.text: failing.hosts for constraint, failing in decision.why.alone()}


def test_the_reason_of_a_filter_is_kept_if_it_rejects_other_hosts_too():
    cloud = MadeCloud(*(node(f"h{number}") for number in range(MANY)))
    for number in range(5):
        cloud.put(f"full{number}", f"h{number}", flavor("all", ram=8192))
    image = objects.ImageMeta(properties=objects.ImageMetaProps.from_dict({"hw_architecture": "aarch64"}))
    decision, cause = explained(cloud, flavor(), image=image)
    assert alone(decision) == {"ImagePropertiesFilter": MANY - 5}
    assert cause.code is CauseCode.CAPABILITIES
    assert "aarch64" in cause.words


@settings(max_examples=5, deadline=None)
@given(st.lists(st.booleans(), min_size=MANY, max_size=MANY))
def test_filters_judge_all_hosts_that_lack_little(has_cells):
    """Hosts of too little memory, some with NUMA cells: those without do not lack memory alone."""
    hosts = [node(f"h{number}", ram=600) for number in range(MANY)]
    for host, cells in zip(hosts, has_cells, strict=True):
        if cells:
            host.numa(host_cells(4))
    decision, _ = explained(
        MadeCloud(*hosts), flavor("pinned", vcpus=2, ram=700), numa_topology=pinned_spec()
    )
    found = alone(decision)
    assert set(found) <= {"700 MEMORY_MB"}
    assert found.get("700 MEMORY_MB", 0) == sum(has_cells)


def test_racks_that_the_instances_before_use_are_used_for_all_hosts():
    racks = 21
    hosts = [node(f"h{number}", vcpus=64).aggregate(f"rack{number % racks}", {"rack": f"{number % racks}"})
             for number in range(MANY)]  # fmt: skip
    for host in hosts[-5:]:
        host.disabled("repair")
    for host in hosts[-20:-5]:
        host.ram(1024, 1024)
    cloud = MadeCloud(
        *hosts, enabled_filters=[*FILTERS, "FailureDomainFilter"], berth__failure_domain_key="rack"
    )
    cloud.traits = {host.columns["host"]: {"COMPUTE_STATUS_DISABLED"} for host in hosts[-5:]}
    members = [f"new {number}" for number in range(racks + 2)]
    decision, cause = explained(
        cloud, flavor(ram=2048), count=racks + 2, in_group=group("g", "soft-anti-affinity", members),
        scheduler_hints={"different_failure_domain": ["true"]},
    )  # fmt: skip
    assert decision.why.placed == racks
    assert alone(decision) == {"FailureDomainFilter": MANY - 20}
    assert (cause.code, "members of group" in cause.words) == (CauseCode.SERVER_GROUP, True)


@pytest.mark.parametrize("there", [MANY, 3])
def test_hosts_that_placement_does_not_know_in_the_zone_are_named(there):
    hosts = [node(f"h{number}").az("here" if number < there else "elsewhere") for number in range(MANY)]
    decision, cause = explained(MadeCloud(*hosts), flavor(), availability_zone="here")
    text = "Placement's copy of nova's aggregates (availability zone here)"
    assert alone(decision)[text] == there
    assert cause.remedy == "Copy nova's aggregates to Placement: nova-manage placement sync_aggregates."
    assert re.match(rf"{there} hosts lack only {re.escape(text)}", cause.words)
