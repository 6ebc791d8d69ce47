"""The weighers that nova does not have: clouds counted by hand, and what holds for all of them."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler import objects
from scheduler.filters.affinity_filter import FailureDomainFilter
from scheduler.filters.builtin import ADDED as ADDED_FILTERS
from scheduler.filters.chain import FilterChain
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import load_filters, load_weighers
from scheduler.selection.ranking import Ranking
from scheduler.weights import builtin
from scheduler.weights.added import (
    FailureDomainWeigher,
    FreeShareWeigher,
    KeepRoomWeigher,
    LeavingHostWeigher,
    SameHostWeigher,
)
from scheduler.weights.scores import PreparedWeighers
from tests.builders import CELL, Instances, make_host, make_view
from tests.support.campaigns import examples
from tests.support.options import make_conf
from tests.unit.weights.weighing import make_request, make_spec, scores

GIB = 1024


def weighed(weigher, hosts, request=None, **options):
    """Host name -> what one weigher adds to the total."""
    conf = make_conf(**{f"berth__{name}": value for name, value in options.items()})
    view = make_view(hosts, instances=Instances(hosts))
    found = scores([weigher(conf)], view, request or make_request()).totals().tolist()
    return {row.host: total for row, total in zip(view.rows, found, strict=True)}


def test_the_smallest_free_share_counts():
    hosts = [
        make_host("large")
        .ram(512 * GIB, 2048 * GIB)
        .vcpus(256, 64, 1.0)
        .disk(900 * GIB, 1000),  # memory: 1/4
        make_host("small").ram(32 * GIB, 64 * GIB).vcpus(16, 4, 1.0).disk(900 * GIB, 1000),  # memory: 1/2
        make_host("busy").ram(64 * GIB, 64 * GIB).vcpus(16, 56, 4.0).disk(900 * GIB, 1000),  # vCPUs: 1/8
        make_host("full").ram(-GIB, 64 * GIB).vcpus(16, 0, 1.0).disk(900 * GIB, 1000),
        make_host("no disk").ram(32 * GIB, 64 * GIB).vcpus(16, 0, 1.0).disk(0, 0),  # memory: 1/2
        make_host("overcommit").ram(0, 64 * GIB).vcpus(16, 0, 1.0).disk(0, 0).ratios(1.0, 2.0),  # memory: 1/2
    ]
    assert weighed(FreeShareWeigher, hosts, free_share_weight_multiplier=2.0) == pytest.approx(
        {"large": 1.0, "small": 2.0, "busy": 0.5, "full": 0.0, "no disk": 2.0, "overcommit": 2.0}
    )


def boot(vcpus, ram, disk=0, **fields):
    flavor = objects.Flavor(
        name="m1", vcpus=vcpus, memory_mb=ram, root_gb=disk, ephemeral_gb=0, swap=0, extra_specs={}
    )
    return SchedulingRequest.of(make_spec(flavor=flavor, **fields), ["X"])


def room_hosts():
    """Room for 2, 1, 0 and 1 huge flavors (8 vCPUs, 32 GiB); a boot of 2 vCPUs and 8 GiB costs one on h1."""
    return [
        make_host("h1").ram(64 * GIB).vcpus(16, 0, 1.0).disk(0, 0),
        make_host("h2").ram(56 * GIB).vcpus(16, 0, 1.0).disk(0, 0),
        make_host("h3").ram(24 * GIB).vcpus(16, 0, 1.0).disk(0, 0),
        make_host("h4").ram(96 * GIB).vcpus(10, 0, 1.0).disk(0, 0),
    ]


def test_hosts_whose_use_costs_no_room_for_the_named_flavor_come_first():
    found = weighed(KeepRoomWeigher, room_hosts(), boot(2, 8 * GIB), keep_room_for=["huge=8:32768:0"])
    assert found == {"h1": 0, "h2": 1, "h3": 1, "h4": 1}


def test_the_loss_of_several_instances_and_flavors_adds_up():
    """By 4 vCPUs and 40 GiB: h1 loses 2 - 0 huge and 4 - 1 large, h2 1 and 3 - 1, h3 0 and 1, h4 1 and 2 - 1."""
    kept = ["huge=8:32768:0", "large=4:16384:0"]
    found = weighed(KeepRoomWeigher, room_hosts(), boot(4, 40 * GIB), keep_room_for=kept)
    assert found == pytest.approx({"h1": 0, "h2": 2 / 4, "h3": 1, "h4": 3 / 4})


def test_disk_counts_where_a_host_has_any():
    """100 GiB of disk for the kept flavor: h1 has room for two and loses one, h2 has no disk of its own."""
    hosts = [
        make_host("h1").ram(64 * GIB).vcpus(64, 0, 1.0).disk(200 * GIB, 200),
        make_host("h2").ram(64 * GIB).vcpus(64, 0, 1.0).disk(0, 0),
    ]
    kept = ["disk=1:1024:100"]
    assert weighed(KeepRoomWeigher, hosts, boot(0, 0, 50), keep_room_for=kept) == {"h1": 0, "h2": 1}


def grouped(policy, *members, **fields):
    group = objects.InstanceGroup(
        uuid="g", policy=policy, policies=[policy], members=[*members, "X"], hosts=[]
    )
    return make_request(instance_group=group, **fields)


def racks():
    """h1 and h2 in r1 with members m1 and m2, h3 in r2 with m3, h4 in r3, h5 in none with m5."""
    hosts = [make_host(f"h{number}") for number in range(1, 6)]
    for host, rack in zip(hosts, ("r1", "r1", "r2", "r3"), strict=False):
        host.aggregate(rack, failure_domain=rack)
    for host, member in zip(hosts, ("m1", "m2", "m3", None, "m5"), strict=True):
        host.holding(*([member] if member else []))
    return hosts


@pytest.mark.parametrize("policy", ["anti-affinity", "soft-anti-affinity"])
def test_domains_with_fewer_members_come_first(policy):
    request = grouped(policy, "m1", "m2", "m3", "m5")
    found = weighed(FailureDomainWeigher, racks(), request, failure_domain_weight_multiplier=2.0)
    assert found == {"h1": 0, "h2": 0, "h3": 1, "h4": 2, "h5": 2}


@pytest.mark.parametrize("policy", ["affinity", "soft-affinity"])
def test_domains_do_not_matter_to_groups_that_are_to_be_near(policy):
    found = weighed(
        FailureDomainWeigher, racks(), grouped(policy, "m1"), failure_domain_weight_multiplier=2.0
    )
    assert set(found.values()) == {0}


def moving(**fields):
    return make_request(
        requested_destination=objects.Destination(cell=objects.CellMapping(uuid=CELL)), **fields
    )


def test_an_instance_that_is_resized_stays_if_it_can():
    hosts = [make_host("h1"), make_host("h2").holding("X")]
    found = weighed(SameHostWeigher, hosts, moving(), same_host_weight_multiplier=3.0)
    assert found == {"h1": 0, "h2": 3}


def test_a_new_instance_has_no_host_to_stay_on():
    hosts = [make_host("h1"), make_host("h2").holding("X")]
    assert set(weighed(SameHostWeigher, hosts, same_host_weight_multiplier=3.0).values()) == {0}


def test_leaving_hosts_come_last():
    hosts = [
        make_host("h1").aggregate("a", {"berth:leaving": "true"}),
        make_host("h2").aggregate("b", {"berth:leaving": "no"}),
        make_host("h3"),
        make_host("h4").aggregate("a").aggregate("b"),
    ]
    found = weighed(LeavingHostWeigher, hosts, leaving_host_weight_multiplier=1e7)
    assert found == {"h1": 0, "h2": 1e7, "h3": 1e7, "h4": 0}


# -- what holds for all --------------------------------------------------------------------------------------

ON = {
    "berth__failure_domain_weight_multiplier": 1.0,
    "berth__free_share_weight_multiplier": 1.0,
    "berth__keep_room_for": ["huge=8:8192:10"],
    "berth__same_host_weight_multiplier": 1.0,
    "berth__leaving_host_weight_multiplier": 1.0,
}
OFF = {name: 0.0 for name in ON if name.endswith("multiplier")} | {
    "berth__keep_room_weight_multiplier": 0.0,
    "berth__keep_room_for": ["huge=8:8192:10"],
}


@st.composite
def clouds(draw):
    hosts = []
    for number in range(draw(st.integers(2, 7))):
        host = make_host(f"h{number}").ram(draw(st.integers(-512, 1 << 16)), 1 << 16)
        host.vcpus(16, draw(st.integers(0, 70)), 4.0).disk(draw(st.integers(-1024, 1 << 20)), 1 << 10)
        host.failed_builds(draw(st.sampled_from((0, 0, 2)))).num_instances(draw(st.integers(0, 60)))
        if rack := draw(st.sampled_from(("", "r1", "r2"))):
            host.aggregate(rack, failure_domain=rack)
        if draw(st.booleans()):
            host.aggregate("leaving", {"berth:leaving": "true"})
        host.holding(*draw(st.sets(st.sampled_from(["m1", "m2", "X"]), max_size=2)))
        if draw(st.integers(0, 4)) == 0:
            host.disabled()
        hosts.append(host)
    return hosts


def requests():
    def make(policy, hinted, moved):
        hints = {"different_failure_domain": ["true"]} if hinted else {}
        fields = {"scheduler_hints": hints, "project_id": "p"}
        if moved:
            fields["requested_destination"] = objects.Destination(cell=objects.CellMapping(uuid=CELL))
        return grouped(policy, "m1", "m2", **fields) if policy else make_request(**fields)

    policies = st.sampled_from((None, "anti-affinity", "soft-anti-affinity", "affinity"))
    return st.builds(make, policies, st.booleans(), st.booleans())


def ranked(hosts, request, conf):
    view = make_view(hosts, instances=Instances(hosts))
    chain = FilterChain(load_filters.load(conf)).prepare(request)
    weighers = PreparedWeighers(load_weighers.load(conf), request)
    ranking = Ranking(chain, weighers, view, request, conf.filter_scheduler)
    names = [row.host for row in ranking.hosts.rows]
    order = [names[index] for index in ranking.best_first()]
    return order, dict(zip(names, ranking.totals().tobytes().hex(" ", 8).split(), strict=True))


def conf_with(**options):
    return make_conf(shuffle_best_same_weighed_hosts=False, **options)


@examples(20)
@given(clouds(), requests())
def test_with_multiplier_0_nothing_changes_to_the_last_bit(hosts, request):
    assert ranked(hosts, request, conf_with(**OFF)) == ranked(hosts, request, conf_with())
    paths = [f"{cls.__module__}.{cls.__name__}" for cls in builtin.ADDED]
    listed = conf_with(weight_classes=["nova.scheduler.weights.all_weighers", *paths], **OFF)
    assert ranked(hosts, request, listed) == ranked(hosts, request, conf_with())


@examples(20)
@given(clouds(), requests())
def test_no_weigher_admits_a_host_that_the_filters_reject_nor_leaves_one_out(hosts, request):
    assert set(ranked(hosts, request, conf_with(**ON))[0]) == set(ranked(hosts, request, conf_with())[0])


@examples(20)
@given(clouds(), requests())
def test_the_filter_of_failure_domains_admits_no_host_that_others_reject(hosts, request):
    default = make_conf().filter_scheduler.enabled_filters
    more = conf_with(enabled_filters=[*default, FailureDomainFilter.__name__])
    assert set(ranked(hosts, request, more)[0]) <= set(ranked(hosts, request, conf_with())[0])


def test_by_default_nothing_that_nova_does_not_have_is_loaded():
    conf = make_conf()
    assert not {type(each) for each in load_weighers.load(conf)} & set(builtin.ADDED)
    assert not {type(each) for each in load_filters.load(conf)} & set(ADDED_FILTERS)


def test_a_multiplier_or_a_flavor_loads_a_weigher_after_all_others_and_once():
    conf = make_conf(**ON, weight_classes=["scheduler.weights.added.FreeShareWeigher"])
    names = [each.name for each in load_weighers.load(conf)]
    assert names[0] == "FreeShareWeigher"
    assert sorted(names) == sorted(cls.__name__ for cls in builtin.ADDED)


def test_the_weights_are_finite_numbers():
    hosts = [make_host("h1"), make_host("h2").ram(0, 0).vcpus(0).disk(0, 0)]
    view = make_view(hosts, instances=Instances(hosts))
    for rule in load_weighers.load(make_conf(**ON)):
        assert np.isfinite(scores([rule], view, boot(1, 512)).totals()).all()
