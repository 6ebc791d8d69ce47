"""All kinds of failures, against losing each domain with a decision for each instance."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.operators.plan.moves import Mover
from scheduler.operators.plan.survive import (
    FAILURE_DOMAIN,
    ONE_HOST,
    ZONE,
    domains_of_each_kind,
    failures,
    metrics,
)
from scheduler.operators.shown.files import metrics_text
from tests.builders import uuid_of
from tests.support.campaigns import examples
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, group, lines, node
from tests.unit.operators.plan.test_survive import SIZES


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
        name = snapshot.requests.flavor(int(snapshot.instances.specs[each.index])).name
        found[name] = found.get(name, 0) + 1
    return found


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
    assert {each.why.text != "" for each in answer.without_place} == {True}


def test_metrics_have_domains_and_zones_by_name_and_hosts_in_sum():
    planned = sample().planned()
    text = metrics_text(metrics(failures(planned, domains_of_each_kind(planned.snapshot))))
    assert 'berth_survives{domain="rack0",kind="failure domain"} 0.0' in text
    assert 'berth_survives{domain="rack1",kind="failure domain"} 1.0' in text
    assert 'berth_survives{domain="z1",kind="zone"} 1.0' in text
    assert 'domain="h0"' not in text
    assert 'berth_failures{kind="one host"} 2.0' in text
    assert 'berth_failures_survived{kind="one host"} 1.0' in text
