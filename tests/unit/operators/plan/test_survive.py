"""What would be survived, against brute force on random small clouds."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.operators.plan.losing import Losses
from scheduler.operators.plan.moves import Mover
from scheduler.operators.plan.survive import (
    FAILURE_DOMAIN,
    MOST_COUNTED,
    MOST_REPORTED,
    ONE_HOST,
    ZONE,
    by_hosts,
    domains_of,
    domains_of_each_kind,
    failures,
    metrics,
    survive,
)
from scheduler.operators.shown.files import metrics_text
from scheduler.operators.snapshot.requests import WrongArgument
from tests.builders import uuid_of
from tests.support.campaigns import examples
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, group, lines, node
from tests.unit.operators.plan.test_loss import left_after

SIZES = {"small": 1024, "middle": 2048, "large": 4096}

HOSTS = st.lists(st.sampled_from([4096, 8192]), min_size=2, max_size=5)
INSTANCES = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(sorted(SIZES)), st.sampled_from([None, "apart", "soft"])),
    max_size=12,
)


def made(rams, instances):
    """A cloud in which each host has room for its instances."""
    free = list(rams)
    groups = {"apart": group("apart", "anti-affinity"), "soft": group("soft", "soft-anti-affinity")}
    hosts = [node(f"h{number}", ram=ram) for number, ram in enumerate(rams)]
    cloud = MadeCloud(*hosts, enabled_filters=[name for name in FILTERS if name != "NumInstancesFilter"])
    for number, (at, size, name) in enumerate(instances):
        host = at % len(rams)
        if free[host] < SIZES[size]:
            continue
        free[host] -= SIZES[size]
        cloud.put(f"i{number}", f"h{host}", flavor(size, ram=SIZES[size]), in_group=groups.get(name))
        if name:
            groups[name].members = [*groups[name].members, cloud.snapshot().instances.uuids[-1]]
    return cloud


def decided_one_by_one(cloud, row):
    """Evacuate a host with a decision for each instance; return the instances without a place."""
    planned = cloud.planned()
    snapshot = planned.snapshot
    indices = snapshot.instances.on([row]).tolist()
    snapshot.load_requests(indices)
    planned.closed[row] = True
    mover, stuck = Mover(planned), set()
    left = mover.order(indices)
    while left:
        failed = []
        for index in left:
            spec = mover.request([index])
            decision = planned.decide(spec, [snapshot.instances.uuids[index]])
            if decision.chosen:
                planned.put(index, decision.chosen[0], spec.flavor)
            else:
                failed.append(index)
        again = [at for at in failed if snapshot.instances.uuids[at] in snapshot.instances.group_of]
        if len(failed) == len(left):
            again = []
        stuck |= {snapshot.instances.uuids[at] for at in failed if at not in again}
        left = again
    return stuck


@examples(20)
@given(HOSTS, INSTANCES)
def test_the_answer_is_that_of_brute_force(rams, instances):
    cloud = made(rams, instances)
    planned = cloud.planned()
    planned.snapshot.load_requests(range(len(planned.snapshot.instances)))
    losses = Losses(planned)
    before = planned.snapshot.table.numbers["free_ram_mb"].copy()
    for domain in by_hosts(planned.snapshot):
        stuck = losses.stuck(domain)
        names = {planned.snapshot.instances.uuids[each.index] for each in stuck}
        assert bool(names) == bool(decided_one_by_one(cloud, domain.rows[0]))
    assert (planned.snapshot.table.numbers["free_ram_mb"] == before).all()
    assert (planned.places.rows == planned.snapshot.instances.rows).all()


@examples(20)
@given(HOSTS, INSTANCES)
def test_what_is_answered_without_a_decision_is_what_decisions_say(rams, instances):
    planned = made(rams, instances).planned()
    planned.snapshot.load_requests(range(len(planned.snapshot.instances)))
    losses = Losses(planned)
    for domain in by_hosts(planned.snapshot):
        if losses.stuck(domain) == []:
            with losses.evacuated(domain, losses.movable(domain)) as (_, stuck):
                assert stuck == []


def test_the_worst_failures_come_first_with_what_is_missing():
    cloud = MadeCloud(node("h1", ram=16384), node("h2", ram=8192), node("h3", ram=4096))
    for number in range(12):
        cloud.put(f"a{number}", "h1", flavor("m1", ram=1024))
    cloud.put("b", "h3", flavor("m1", ram=1024))
    planned = cloud.planned()
    found = survive(planned, by_hosts(planned.snapshot))
    assert (found.domains, found.survived) == (2, 1)
    worst, other = found.answers
    # h2 has memory for eight and CPUs for eight, h3 memory for three more
    assert (worst.domain, worst.instances, worst.placed) == ("h1", 12, 11)
    assert worst.missing == {"DISK_GB": 1, "MEMORY_MB": 1024, "VCPU": 1} == found.missing
    assert (other.domain, other.placed) == ("h3", 1)
    assert found.may_be_added == 0


def test_what_may_be_added_is_what_fits_after_the_failure():
    cloud = MadeCloud(node("h1"), node("h2"), node("h3"))
    cloud.put("a", "h1", flavor("m1", ram=2048))
    planned = cloud.planned()
    found = survive(planned, by_hosts(planned.snapshot))
    assert (found.survived, found.flavor) == (1, "m1")
    # two hosts are left with four places each, of which the evacuated instance takes one
    assert found.may_be_added == 7
    for number in range(7):
        cloud.put(f"more{number}", f"h{2 + number % 2}", flavor("m1", ram=2048))
    full = cloud.planned()
    assert survive(full, by_hosts(full.snapshot)).answers[0].missing == {}
    cloud.put("last", "h3", flavor("m1", ram=2048))
    over = cloud.planned()
    assert survive(over, by_hosts(over.snapshot)).missing


def test_domains_are_hosts_aggregates_and_zones():
    hosts = [node(f"h{number}").aggregate(f"rack{number % 2}").az(f"z{number // 2}") for number in range(4)]
    cloud = MadeCloud(*hosts)
    for number in range(4):
        cloud.put(f"i{number}", f"h{number}")
    snapshot = cloud.snapshot()
    assert [each.rows for each in domains_of(snapshot, None)] == [(0,), (1,), (2,), (3,)]
    assert [each.rows for each in domains_of(snapshot, "aggregate:rack*")] == [(0, 2), (1, 3)]
    assert [each.name for each in domains_of(snapshot, "zone")] == ["z0", "z1"]
    for wrong in ("aggregate:none*", "rack", "aggregate:"):
        with pytest.raises(WrongArgument):
            domains_of(snapshot, wrong)


def test_slots_answer_where_there_are_fewer_hosts_than_instances(monkeypatch):
    filters = [name for name in FILTERS if name != "NumInstancesFilter"]
    cloud = MadeCloud(
        *(node(f"h{number}", ram=16384, vcpus=64) for number in range(3)), enabled_filters=filters
    )
    for number in range(6):
        cloud.put(f"a{number}", "h0", flavor("small", ram=1024))
    cloud.put("b", "h0", flavor("large", ram=4096))
    planned = cloud.planned()
    (domain,) = by_hosts(planned.snapshot)
    planned.snapshot.load_requests(range(7))
    losses = Losses(planned)
    monkeypatch.setattr(losses, "evacuated", None)
    assert losses.stuck(domain) == []


@examples(12)
@given(HOSTS, INSTANCES)
def test_what_may_be_added_fits_after_each_of_the_largest_failures(rams, instances):
    cloud = made(rams, instances)
    planned = cloud.planned()
    domains = by_hosts(planned.snapshot)
    found = survive(planned, domains)
    if found.flavor and not found.missing and not any(one.without_place for one in found.answers):
        answers = sorted(found.answers, key=lambda one: one.instances, reverse=True)
        named = {one.name: one for one in domains}
        largest = [named[one.domain] for one in answers[:MOST_COUNTED]]
        left = [sum(left_after(cloud, one.rows, found.flavor).values()) for one in largest]
        assert found.may_be_added == min(left)


def test_the_largest_failures_are_those_of_most_instances():
    small = [node(f"s{number}", ram=8192, vcpus=64) for number in range(MOST_COUNTED)]
    cloud = MadeCloud(node("big", ram=65536, vcpus=64), *small, node("spare", ram=65536, vcpus=64))
    for number in range(40):
        cloud.put(f"b{number}", "big")
    for number in range(MOST_COUNTED):  # they are told first, since an operator has to reset them
        cloud.put(f"p{number}", f"s{number}", state="paused")
    planned = cloud.planned()
    assert survive(planned, by_hosts(planned.snapshot), "m1").may_be_added == 31


def test_nothing_is_said_of_additions_to_a_cloud_without_instances():
    cloud = MadeCloud(node("a"), node("b"))
    cloud.flavors["m1"] = flavor("m1")
    planned = cloud.planned()
    assert lines(survive(planned, [], "m1")) == ["0 of 0 failures would be survived"]


def test_failures_beyond_those_that_are_reported_are_counted():
    cloud = MadeCloud(*(node(f"h{number}") for number in range(MOST_REPORTED + 1)))
    for number in range(MOST_REPORTED + 1):
        cloud.put(f"i{number}", f"h{number}")
    planned = cloud.planned()
    _, parts = survive(planned, by_hosts(planned.snapshot)).words()
    assert [part.left_out for part in parts] == [0, 1]


def racked(rams, instances):
    """Hosts in two racks and two zones, each with room for its instances; some are in an affinity group."""
    hosts = [
        node(f"h{number}", ram=ram).aggregate(f"rack{number % 2}", {"failure_domain": f"rack{number % 2}"})
        .az(f"z{number // 2}")
        for number, ram in enumerate(rams)
    ]  # fmt: skip
    cloud = MadeCloud(*hosts, enabled_filters=[name for name in FILTERS if name != "NumInstancesFilter"])
    together, free = group("together", "affinity"), list(rams)
    for number, (at, size, grouped) in enumerate(instances):
        host = 0 if grouped else at % len(rams)
        if free[host] >= SIZES[size]:
            free[host] -= SIZES[size]
            wanted = flavor(size, ram=SIZES[size])
            cloud.put(f"i{number}", f"h{host}", wanted, in_group=together if grouped else None)
            if grouped:
                together.members = [*together.members, uuid_of(f"i{number}")]
    return cloud


def lost(cloud, rows):
    """Decide for each instance of some hosts; return how many instances of each flavor have no place."""
    planned = cloud.planned()
    snapshot = planned.snapshot
    indices = snapshot.instances.on(rows).tolist()
    snapshot.load_requests(indices)
    planned.closed[list(rows)] = True
    mover = Mover(planned)
    _, stuck = mover.move_all(mover.order(indices))
    found = {}
    for each in stuck:
        name = snapshot.flavor(each.index).name
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.slow
@examples(12)
@given(
    st.lists(st.sampled_from([4096, 8192]), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(sorted(SIZES)), st.booleans()), max_size=10),
)
def test_what_is_lost_of_each_flavor_is_what_brute_force_loses(rams, instances):
    cloud = racked(rams, instances)
    planned = cloud.planned()
    kinds = domains_of_each_kind(planned.snapshot)
    plan = failures(planned, kinds)
    for one in plan.flavors:
        for kind, domains in kinds.items():
            worst = [lost(cloud, domain.rows).get(one.flavor, 0) for domain in domains]
            assert one.without_place.get(kind, 0) == max(worst, default=0)
    for one in plan.kinds:
        survived = sum(not lost(cloud, domain.rows) for domain in kinds[one.kind])
        assert one.survived + one.survived_by_hand == survived
    assert (planned.places.rows == planned.snapshot.instances.rows).all()


def sample():
    """The members of a group that stays together have no place without h0."""
    return racked([8192, 8192, 8192, 8192], [(0, "small", True), (0, "small", True), (1, "middle", False)])


def test_kinds_and_flavors_at_risk():
    planned = sample().planned()
    plan = failures(planned, domains_of_each_kind(planned.snapshot))
    assert [one.kind for one in plan.kinds] == [ONE_HOST, FAILURE_DOMAIN, ZONE]
    counts = {one.kind: (one.survived, one.domains, one.worst) for one in plan.kinds}
    assert counts[ONE_HOST] == (1, 2, "h0")
    assert counts[FAILURE_DOMAIN] == (1, 2, "rack0")
    assert counts[ZONE] == (1, 2, "z0")
    small, middle = plan.flavors
    assert (small.flavor, small.instances, small.without_place[ONE_HOST]) == ("small", 2, 2)
    assert set(middle.without_place.values()) == {0}
    head = lines(plan)
    assert (
        head[0]
        == "loss of one host: 1 of 2 failures would be survived; worst: h0, 2 instances without a place"
    )


def test_the_reasons_are_those_of_the_worst_failures():
    planned = sample().planned()
    plan = failures(planned, domains_of_each_kind(planned.snapshot))
    (answer,) = plan.kinds[0].answers
    assert {each.why != "" for each in answer.without_place} == {True}


def test_metrics_have_domains_and_zones_by_name_and_hosts_in_sum():
    planned = sample().planned()
    text = metrics_text(metrics(failures(planned, domains_of_each_kind(planned.snapshot))))
    assert 'berth_survives{domain="rack0",kind="failure domain"} 0.0' in text
    assert 'berth_survives{domain="rack1",kind="failure domain"} 1.0' in text
    assert 'berth_survives{domain="z1",kind="zone"} 1.0' in text
    assert 'domain="h0"' not in text
    assert 'berth_failures{kind="one host"} 2.0' in text
    assert 'berth_failures_survived{kind="one host"} 1.0' in text
