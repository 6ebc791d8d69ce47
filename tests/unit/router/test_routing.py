from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.conf.partitions import Partition
from scheduler.router.routing import RoutingFacts, in_order, why
from tests.unit.selection.requests import make_spec

NAMES = ("a", "b", "c", "d")
ZONES = ("az1", "az2")
FLAVORS = ("m1", "g1")
SPECS = (("gpu", "yes"), ("gpu", "no"))


def make_partition(name, **values):
    return Partition(name, f"scheduler.{name}", aggregates=(name,), **values)


def order(facts, partitions):
    return [each.name for each in in_order(facts, partitions)]


def facts_of(spec):
    return RoutingFacts.of(spec.obj_to_primitive(), ["i1", "i2"])


def test_the_facts_of_a_request():
    flavor = objects.Flavor(name="g1", flavorid="42", memory_mb=100, extra_specs={"gpu": "yes"})
    spec = make_spec(flavor=flavor, availability_zone="az1")
    assert facts_of(spec) == RoutingFacts("i1", "az1", frozenset({"g1", "42"}), {"gpu": "yes"})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("affinity", "g"), ("anti-affinity", "g"), ("soft-affinity", None), ("soft-anti-affinity", None)],
)
@pytest.mark.parametrize("form", ["policy", "policies"])
def test_the_group_of_a_request_counts_if_its_policy_is_hard(form, policy, expected):
    group = objects.InstanceGroup(uuid="g", **{form: policy if form == "policy" else [policy]})
    assert facts_of(make_spec(instance_group=group)).group == expected


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "spec",
        {},
        {"nova_object.data": None},
        {"nova_object.data": {"flavor": 1, "availability_zone": {}, "instance_group": []}},
        {"nova_object.data": {"flavor": {"nova_object.data": {"name": ["x"], "extra_specs": "y"}}}},
        {"nova_object.data": {"instance_group": {"nova_object.data": {"policy": "x", "policies": 1}}}},
    ],
)
@pytest.mark.parametrize("uuids", [None, "i1", [], [1], {}])
def test_a_request_that_makes_no_sense_has_no_facts(spec, uuids):
    assert RoutingFacts.of(spec, uuids) == RoutingFacts()


ZONE, FLAVOR = frozenset({"az1"}), frozenset({"g1"})


@pytest.mark.parametrize(
    ("facts", "partitions", "expected"),
    [
        pytest.param(
            RoutingFacts(zone="az1"),
            [
                make_partition("a", zones=frozenset({"az2"})),
                make_partition("b"),
                make_partition("c", zones=ZONE),
            ],
            "cba",
            id="a zone: where it is named, then where none is, then others",
        ),
        pytest.param(
            RoutingFacts(flavor=FLAVOR),
            [
                make_partition("a", flavors=frozenset({"m1"})),
                make_partition("b"),
                make_partition("c", default=True),
                make_partition("d", flavors=FLAVOR),
            ],
            "dcba",
            id="a flavor: where it is named, the default, where none is, others",
        ),
        pytest.param(
            RoutingFacts(zone="az1", flavor=FLAVOR),
            [make_partition("a", flavors=FLAVOR), make_partition("b", zones=ZONE)],
            "ba",
            id="the zone comes before the flavor",
        ),
        pytest.param(
            RoutingFacts(zone="az1", flavor=FLAVOR),
            [make_partition("a", zones=ZONE), make_partition("b", zones=ZONE, flavors=FLAVOR)],
            "ba",
            id="of those of the zone the one for the flavor",
        ),
        pytest.param(
            RoutingFacts(extra_specs={"gpu": "yes"}),
            [
                make_partition("a", extra_specs=(("gpu", "no"),)),
                make_partition("b", default=True),
                make_partition("c", extra_specs=(("cpu", None), ("gpu", "yes"))),
            ],
            "cba",
            id="extra specs",
        ),
        pytest.param(
            RoutingFacts(extra_specs={"gpu": "yes"}),
            [make_partition("a", default=True), make_partition("b", extra_specs=(("gpu", None),))],
            "ba",
            id="extra specs with any value",
        ),
    ],
)
def test_order(facts, partitions, expected):
    assert "".join(order(facts, partitions)) == expected


facts_of_requests = st.builds(
    RoutingFacts,
    key=st.text(max_size=3),
    zone=st.sampled_from([None, *ZONES]),
    flavor=st.frozensets(st.sampled_from(FLAVORS)),
    extra_specs=st.dictionaries(st.sampled_from(["gpu"]), st.sampled_from(["yes", "no"])),
    group=st.sampled_from([None, "g1", "g2"]),
)
described = st.fixed_dictionaries(
    {
        "zones": st.frozensets(st.sampled_from(ZONES)),
        "flavors": st.frozensets(st.sampled_from(FLAVORS)),
        "extra_specs": st.lists(st.sampled_from(SPECS), max_size=1).map(tuple),
        "default": st.booleans(),
    }
)
clouds = st.lists(described, max_size=len(NAMES)).map(
    lambda found: [make_partition(name, **values) for name, values in zip(NAMES, found, strict=False)]
)


@given(facts_of_requests, clouds, st.randoms())
def test_each_is_tried_once_whatever_the_order_in_which_they_are_listed(facts, partitions, randomness):
    shuffled = list(partitions)
    randomness.shuffle(shuffled)
    assert order(facts, shuffled) == order(facts, partitions)
    assert sorted(order(facts, partitions)) == [each.name for each in partitions]


@given(facts_of_requests, facts_of_requests, clouds)
def test_members_of_a_group_are_tried_in_the_same_order_whatever_they_are(one, other, partitions):
    if one.group is not None and one.group == other.group:
        assert order(one, partitions) == order(other, partitions)


@given(facts_of_requests, clouds)
def test_a_partition_for_zone_and_flavor_is_tried_before_one_for_neither(facts, partitions):
    if facts.group is not None:
        return

    def named(partition):
        zone = facts.zone is None or facts.zone in partition.zones
        specs = [facts.extra_specs.get(key) == value for key, value in partition.extra_specs]
        return zone and (bool(partition.flavors & facts.flavor) or any(specs))

    fits = [named(each) for each in in_order(facts, partitions)]
    assert fits == sorted(fits, reverse=True)


def test_requests_and_groups_are_spread_over_partitions_that_are_alike():
    partitions = [make_partition(name) for name in "ab"]
    for facts in (
        [RoutingFacts(key=f"i{number}") for number in range(200)],
        [RoutingFacts(group=f"g{number}") for number in range(200)],
    ):
        first = [order(each, partitions)[0] for each in facts]
        assert 70 < first.count("a") < 130


@pytest.mark.parametrize(
    ("facts", "partition", "expected"),
    [
        (RoutingFacts(zone="az1"), make_partition("a", zones=ZONE), "by zone"),
        (
            RoutingFacts(zone="az1", flavor=FLAVOR),
            make_partition("a", zones=ZONE, flavors=FLAVOR, default=True),
            "by zone, by flavor",
        ),
        (RoutingFacts(), make_partition("a", default=True), "the default"),
        (RoutingFacts(), make_partition("a"), "by instance"),
        (RoutingFacts(flavor=FLAVOR, group="g"), make_partition("a", flavors=FLAVOR), "by server group g"),
    ],
)
def test_why(facts, partition, expected):
    assert why(facts, partition) == expected
