import pytest

from scheduler.errors import ConfigError
from scheduler.operators.plan.policy import policy
from tests.builders import uuid_of
from tests.support.options import make_conf
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, group, node
from tests.unit.operators.plan.test_drain import pinned_spec


def cloud():
    made = MadeCloud(node("h1", ram=16384), node("h2"), node("h3"))
    for number in range(4):
        made.put(f"i{number}", "h1", flavor("m1", ram=2048))
    return made


def same_options():
    return make_conf(enabled_filters=FILTERS)


def names(count):
    return [uuid_of(f"i{number}") for number in range(count)]


def test_the_same_options_change_nothing():
    found = policy(cloud().snapshot(), {"ram_weight_multiplier": "1.0"}, names(4), same_options())
    assert (found.instances, found.differing) == (4, 0)
    assert found.now == found.changed


def test_who_would_go_elsewhere_is_told_with_the_spread():
    snapshot = cloud().snapshot()
    before = snapshot.table.numbers["free_ram_mb"].copy()
    settings = {"ram_weight_multiplier": "-1.0", "cpu_weight_multiplier": "0", "disk_weight_multiplier": "0"}
    found = policy(snapshot, settings, names(4), same_options())
    assert [one.is_on for one in found.choices] == ["h1"] * 4
    assert next(one.now for one in found.choices) == "h1"
    assert {one.changed for one in found.choices} == {"h2"}
    assert found.differing >= 1
    assert found.changed.hosts == 1
    assert (snapshot.table.numbers["free_ram_mb"] == before).all()
    assert found.options[0].changed == -1.0


def test_instances_that_would_be_refused_are_counted_and_the_largest_flavor_is_told():
    made = cloud()
    made.flavors["large"] = flavor("large", ram=12000)
    found = policy(made.snapshot(), {"max_instances_per_host": "1"}, names(4), same_options())
    assert (found.now.refused, found.changed.refused) == (0, 1)
    assert found.now.largest_flavor in ("large", "m1")
    assert found.changed.largest_flavor is None


def test_what_cannot_be_decided_again_is_counted():
    made = cloud()
    made.put("pinned", "h2", flavor("pinned"), numa_topology=pinned_spec())
    made.put("forced", "h2", force_hosts=["h2"]).put("unread", "h2")
    made.requests[uuid_of("unread")] = "{"
    wanted = [*names(1), uuid_of("pinned"), uuid_of("forced"), uuid_of("unread"), uuid_of("deleted")]
    found = policy(made.snapshot(), {"ram_weight_multiplier": "-1"}, wanted, same_options())
    assert found.instances == 1
    assert sorted(found.left_out.values()) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "settings", [{"nothing": "1"}, {"DEFAULT.transport_url": "x"}, {"ram_weight_multiplier": "much"}], ids=str
)
def test_options_that_cannot_be_changed_are_refused(settings):
    with pytest.raises(ConfigError):
        policy(cloud().snapshot(), settings, names(1), same_options())


def test_other_options_may_come_from_another_file():
    made = cloud()
    other = make_conf(enabled_filters=["ComputeFilter", "NumInstancesFilter"], max_instances_per_host=1)
    found = policy(made.snapshot(), {}, names(4), other)
    assert found.changed.refused == 1


def test_the_most_members_of_a_group_in_one_failure_domain_are_told():
    hosts = [node(f"h{number}", ram=8192 - 64 * number) for number in range(6)]
    for number, host in enumerate(hosts):
        host.aggregate(f"rack{number // 2}", failure_domain=f"rack{number // 2}")
    made, spread = MadeCloud(*hosts), group("g", "anti-affinity", ["i0", "i1", "i2"])
    for number in range(3):
        made.put(f"i{number}", f"h{number}", in_group=spread)
    snapshot = made.snapshot()
    snapshot.instances.group_of = dict.fromkeys(names(3), spread.uuid)
    settings = {"berth.failure_domain_weight_multiplier": "10"}
    found = policy(snapshot, settings, names(3), same_options())
    assert [side.members_in_one_domain for side in (found.now, found.changed)] == [2, 1]
