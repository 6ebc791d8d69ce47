"""What fits, against filling the cloud one instance after the other."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.decisions.failure_cause import cause_of
from scheduler.errors import BerthError
from scheduler.operators.plan.capacity import capacities, capacity, metrics
from scheduler.operators.plan.drain import drain
from scheduler.operators.plan.dry_run import dry_run
from scheduler.operators.plan.fits import fits
from scheduler.operators.plan.survive import by_hosts, survive
from scheduler.operators.shown.files import metrics_text
from tests.support.campaigns import examples
from tests.unit.operators.plan.clouds import MadeCloud, flavor, new_uuid, node
from tests.unit.operators.plan.test_drain import host_cells, pinned_spec


def request(cloud, wanted, **fields):
    made = cloud.snapshot()
    probe = MadeCloud(node("x")).put("probe", "x", wanted, **fields)
    snapshot = probe.snapshot()
    snapshot.load_requests([0])
    spec = snapshot.request(0)
    spec.instance_uuid = new_uuid()
    return made, spec


def filled(planned, spec, wanted):
    """Fill a cloud with decisions until one fails; return how many hosts were given, by name."""
    found = {}
    while True:
        again = spec.obj_clone()
        again.instance_uuid = new_uuid()
        try:
            chosen = planned.decide(again, [again.instance_uuid]).chosen
        except BerthError:
            return found
        if not chosen:
            return found
        planned.put(None, chosen[0], wanted)
        name = planned.host(chosen[0].row)
        found[name] = found.get(name, 0) + 1


def counted(planned, spec):
    return {planned.host(row): fit.count for row, fit in fits(planned, spec.obj_clone()).items() if fit.count}


@examples(12)
@given(
    st.lists(
        st.tuples(st.sampled_from([2048, 4096, 10000]), st.sampled_from([2, 4, 16])), min_size=1, max_size=4
    ),
    st.sampled_from([512, 1000, 2048]),
    st.sampled_from([1, 2]),
    st.integers(0, 3),
)
def test_as_many_fit_as_can_be_placed(hosts, ram, vcpus, there):
    wanted = flavor("m1", ram=ram, vcpus=vcpus)
    cloud = MadeCloud(
        *(node(f"h{number}", ram=memory, vcpus=cpus) for number, (memory, cpus) in enumerate(hosts)),
        max_instances_per_host=6,
    )
    for number in range(there):
        cloud.put(f"i{number}", "h0", flavor("tiny", ram=256, vcpus=1) if hosts[0][1] > number else wanted)
    planned = cloud.planned()
    _, spec = request(cloud, wanted)
    assert counted(planned, spec) == filled(planned, spec, wanted)


def test_pinned_guests_are_counted_as_they_can_be_placed():
    wanted = flavor("pinned", vcpus=2, ram=512)
    hosts = (node("h1").numa(host_cells(5)), node("h2").numa(host_cells(2)), node("h3"))
    cloud = MadeCloud(*hosts)
    planned = cloud.planned()
    _, spec = request(cloud, wanted, numa_topology=pinned_spec())
    expected = counted(planned, spec)
    assert expected == {"h1": 2, "h2": 1}
    assert filled(planned, spec, wanted) == expected


def test_what_runs_out_first_and_what_is_stranded_is_told_by_place():
    wanted = flavor("m1", ram=3000)
    cloud = MadeCloud(node("h1").az("a"), node("h2", vcpus=1).az("b"))
    _, spec = request(cloud, wanted)
    found = capacity(cloud.planned(), spec)
    assert found.instances == 3
    first, second = found.places
    assert (first.zone, first.instances, next(iter(first.limits))) == ("a", 2, "MEMORY_MB")
    assert first.stranded == {"DISK_GB": 98, "MEMORY_MB": 2192, "VCPU": 6}
    assert (second.zone, second.instances, next(iter(second.limits))) == ("b", 1, "VCPU")


def test_a_host_that_gets_no_instances_has_no_room():
    wanted = flavor("m1", ram=4096)
    cloud = MadeCloud(node("h1"), node("h2"), node("empty", ram=65536)).put("i", "h1", wanted)
    cloud.unmapped = {"empty"}
    _, spec = request(cloud, wanted)
    planned = cloud.planned()
    assert counted(planned, spec) == {"h1": 1, "h2": 2} == filled(planned, spec, wanted)
    (found,) = capacities(cloud.planned(), [wanted]).flavors
    assert (found.headroom, found.worst_loss) == (1, "h1")  # as that of h2
    assert not survive(planned := cloud.planned(), by_hosts(planned.snapshot)).answers[0].without_place


def test_a_request_that_fits_nowhere_is_explained():
    cloud = MadeCloud(node("h1"))
    _, spec = request(cloud, flavor("huge", ram=99999))
    found = capacity(cloud.planned(), spec)
    assert found.instances == 0
    assert "1 host lacks only 99999 MEMORY_MB: MEMORY_MB capacity 8192" in found.reason


def test_metrics_tell_flavor_zone_and_what_is_left_after_the_loss_of_a_host():
    cloud = MadeCloud(node("h1").az("a"), node("h2").az("a")).put("i", "h1", flavor("m1", ram=4096))
    found = capacities(cloud.planned(), list(cloud.flavors.values())).flavors
    # two fit on h2 and one on h1; without h1 its instance takes one of the two on h2
    assert (found[0].zones[0].instances, found[0].headroom) == (3, 1)
    assert found[0].zones[0].headroom == 1
    text = metrics_text(metrics(found))
    assert 'berth_capacity_instances{flavor="m1",zone="a"} 3.0' in text
    assert 'berth_capacity_headroom_instances{flavor="m1"} 1.0' in text
    assert 'berth_capacity_zone_headroom_instances{flavor="m1",zone="a"} 1.0' in text
    assert 'berth_capacity_stranded{flavor="m1",resource_class="VCPU",zone="a"}' in text


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
