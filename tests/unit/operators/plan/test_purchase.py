"""What further hosts bring, against a cloud that has them."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.operators.plan.capacity import fits
from scheduler.operators.plan.purchase import NotOffered, purchase
from scheduler.operators.plan.shown import shown
from scheduler.operators.shown.shown import lines_of
from scheduler.operators.snapshot.requests import of_flavor
from tests.support.campaigns import examples
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, node
from tests.unit.operators.plan.test_loss import ASKED, FAST, host_cell, one_cell

NOW = datetime(2026, 11, 23, 12)


def no_changes(_flavor):
    return ()


def made(ram, is_fast, cell_mb, more, instances):
    """A host with instances and one beside it, and so many further ones like the first, without instances."""
    names = ["like", *(f"new{number}" for number in range(more))]
    hosts = [node(name, ram=ram) for name in names]
    if cell_mb:
        hosts = [host.numa(host_cell(cell_mb)) for host in hosts]
    filters = [name for name in FILTERS if name != "NumInstancesFilter"]
    cloud = MadeCloud(*hosts, node("other"), enabled_filters=filters)
    cloud.traits = {name: {FAST} for name in names if is_fast}
    left = [ram, 8]
    for number, name in enumerate(instances):
        wanted = {each.name: each for each in ASKED}[name]
        if wanted.memory_mb < left[0] and wanted.vcpus <= left[1] and (name != "cells" or cell_mb):
            left = [left[0] - wanted.memory_mb, left[1] - wanted.vcpus]
            cloud.put(f"i{number}", "like", wanted, numa_topology=one_cell() if name == "cells" else None)
    cloud.flavors |= {each.name: each for each in ASKED}
    return cloud


def fitting(cloud, wanted):
    planned = cloud.planned()
    try:
        return sum(fit.count for fit in fits(planned, of_flavor(planned.snapshot, wanted.name)).values())
    except BerthError:
        return 0


@examples(12)
@given(
    st.sampled_from([4096, 8192]),
    st.booleans(),
    st.sampled_from([0, 6500]),
    st.integers(1, 3),
    st.lists(st.sampled_from(["small", "large", "odd", "cells"]), max_size=3),
)
def test_further_hosts_bring_what_a_cloud_with_them_has(ram, is_fast, cell_mb, more, instances):
    without = made(ram, is_fast, cell_mb, 0, instances)
    cloud = made(ram, is_fast, cell_mb, more, instances)
    found = purchase(without.planned(), 0, more, ASKED, no_changes, NOW)
    for one, wanted in zip(found["flavors"], ASKED, strict=True):
        assert one["instances"] == fitting(without, wanted)
        assert one["instances"] + one["more"] == fitting(cloud, wanted)
        if one["more"]:
            used = {"MEMORY_MB": wanted.memory_mb, "VCPU": wanted.vcpus}
            for name, total in (("MEMORY_MB", ram), ("VCPU", 8)):
                assert one["stranded"][name] == more * total - one["more"] * used[name]


def test_the_plan_says_until_when_and_what_runs_out_first():
    wanted = flavor("m1", ram=4096)
    cloud = MadeCloud(node("h1")).put("i", "h1", wanted)

    def changes(_flavor):
        return [(NOW - timedelta(days=day, hours=13), 1) for day in range(30)]

    found = purchase(cloud.planned(), 0, 20, [wanted], changes, NOW)
    (one,) = found["flavors"]
    # one more fits now, at one a day it is full tomorrow; forty more last for forty-one days
    assert (one["instances"], one["more"], one["limit"]) == (1, 40, "MEMORY_MB")
    assert (one["week"], one["week_then"]) == ("2026-11-23", "2026-12-28")
    lines = list(lines_of(shown(found | {"all_placed": True}).head))
    assert lines == ["20 more hosts like h1; each flavor alone"]


def test_a_full_host_cannot_be_the_model():
    """The mirror has no nodes without free memory, so nothing is known of what Placement has of them."""
    wanted = flavor("m1", ram=8192)
    cloud = MadeCloud(node("h1")).put("i", "h1", wanted)
    with pytest.raises(NotOffered, match="Placement offers no memory of h1; name another host of its kind"):
        purchase(cloud.planned(), 0, 20, [wanted], no_changes, NOW)


def test_devices_that_are_not_counted_are_named():
    request = objects.InstancePCIRequest(count=1, spec=[{}], alias_name="gpu", request_id="r", is_new=False)
    wanted = flavor("gpu")
    cloud = MadeCloud(node("h1")).put(
        "i", "h1", wanted, pci_requests=objects.InstancePCIRequests(requests=[request])
    )
    plan = purchase(cloud.planned(), 0, 1, [wanted], no_changes, NOW)
    lines = list(lines_of(shown(plan | {"all_placed": True}).head))
    assert lines[1] == "devices of 1 instance on h1 are not counted: name a host without instances"
