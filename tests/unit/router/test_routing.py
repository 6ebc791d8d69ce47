from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.conf.partitions import Partition
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.router.routing import PartitionState, RoutingFacts, eligible, next_partition, why
from tests.unit.selection.requests import make_spec

NAMES = ("a", "b", "c", "d")
ZONES = ("az1", "az2")
FLAVORS = ("m1", "g1")
SPECS = (("gpu", "yes"), ("gpu", "no"))


def make_partition(name, **values):
    return Partition(name, f"scheduler.{name}", aggregates=(name,), **values)


def make_state(name, room=0.5, alive=True, has_target=None, **values):
    return PartitionState(make_partition(name, **values), alive, room, has_target)


def order(facts, states):
    """The names of the partitions in which a request is tried that none has a host for."""
    tried = []
    while (state := next_partition(facts, states, tried)) is not None:
        tried.append(state.partition.name)
        assert len(tried) <= len(states)
    return tried


def test_the_facts_of_a_request():
    flavor = objects.Flavor(name="g1", flavorid="42", memory_mb=100, extra_specs={"gpu": "yes"})
    place = objects.Destination(host="h", node="n", cell=objects.CellMapping(uuid="c"))
    spec = make_spec(flavor=flavor, availability_zone="az1", requested_destination=place)
    assert RoutingFacts.of(SchedulingRequest.of(spec, ["i1", "i2"])) == RoutingFacts(
        "h", "c", "az1", frozenset({"g1", "42"}), {"gpu": "yes"}, 200
    )


def test_a_request_that_lacks_almost_everything_has_no_facts():
    facts = RoutingFacts.of(SchedulingRequest.of(make_spec(), ["i1"]))
    assert (facts.host, facts.cell_uuid, facts.zone, facts.memory_mb) == (None, None, None, 512)


ZONE, FLAVOR = frozenset({"az1"}), frozenset({"g1"})


@pytest.mark.parametrize(
    ("facts", "states", "expected"),
    [
        pytest.param(
            RoutingFacts(),
            [make_state("a", 0.2), make_state("b", 0.6), make_state("c", 0.4)],
            "bca",
            id="room",
        ),
        pytest.param(
            RoutingFacts(), [make_state("b"), make_state("a")], "ab", id="equal room: in order of names"
        ),
        pytest.param(
            RoutingFacts(host="h"),
            [make_state("a", 0.9, has_target=False), make_state("b", has_target=True), make_state("c")],
            "b",
            id="a host: only where it is",
        ),
        pytest.param(
            RoutingFacts(cell_uuid="c"),
            [make_state("a", 0.9, has_target=False), make_state("b", 0.1), make_state("c", 0.2)],
            "cb",
            id="a cell: not where it is known not to be",
        ),
        pytest.param(
            RoutingFacts(host="h"),
            [make_state("a", 0.1, has_target=False), make_state("b", 0.2, has_target=False)],
            "ba",
            id="a host of no partition, as far as is known",
        ),
        pytest.param(
            RoutingFacts(zone="az1"),
            [
                make_state("a", 0.9, zones=frozenset({"az2"})),
                make_state("b", 0.8),
                make_state("c", zones=ZONE),
            ],
            "cba",
            id="a zone: where it is named, then where none is, then others",
        ),
        pytest.param(
            RoutingFacts(),
            [make_state("a", 0.1, zones=ZONE), make_state("b", 0.2)],
            "ba",
            id="no zone: all alike",
        ),
        pytest.param(
            RoutingFacts(flavor=FLAVOR),
            [
                make_state("a", 0.9, flavors=frozenset({"m1"})),
                make_state("b", 0.9),
                make_state("c", 0.1, default=True),
                make_state("d", 0.1, flavors=FLAVOR),
            ],
            "dcba",
            id="a flavor: where it is named, the default, where none is, others",
        ),
        pytest.param(
            RoutingFacts(zone="az1", flavor=FLAVOR),
            [make_state("a", 0.9, flavors=FLAVOR), make_state("b", zones=ZONE)],
            "ba",
            id="the zone comes before the flavor",
        ),
        pytest.param(
            RoutingFacts(zone="az1", flavor=FLAVOR),
            [make_state("a", zones=ZONE), make_state("b", zones=ZONE, flavors=FLAVOR)],
            "ba",
            id="of those of the zone the one for the flavor",
        ),
        pytest.param(
            RoutingFacts(extra_specs={"gpu": "yes"}),
            [
                make_state("a", 0.9, extra_specs=(("gpu", "no"),)),
                make_state("b", 0.2, extra_specs=(("gpu", None),)),
                make_state("c", 0.3, extra_specs=(("cpu", None), ("gpu", "yes"))),
            ],
            "cba",
            id="extra specs with a value and with any",
        ),
        pytest.param(
            RoutingFacts(), [make_state("a", 0.9, alive=False), make_state("b", 0.1)], "b", id="silent"
        ),
        pytest.param(
            RoutingFacts(host="h"),
            [make_state("a", alive=False, has_target=True), make_state("b")],
            "",
            id="the partition of the host is silent",
        ),
    ],
)
def test_order(facts, states, expected):
    assert "".join(order(facts, states)) == expected


facts_of_requests = st.builds(
    RoutingFacts,
    host=st.sampled_from([None, "h"]),
    zone=st.sampled_from([None, *ZONES]),
    flavor=st.frozensets(st.sampled_from(FLAVORS)),
    extra_specs=st.dictionaries(st.sampled_from(["gpu"]), st.sampled_from(["yes", "no"])),
)
partitions = st.fixed_dictionaries(
    {
        "zones": st.frozensets(st.sampled_from(ZONES)),
        "flavors": st.frozensets(st.sampled_from(FLAVORS)),
        "extra_specs": st.lists(st.sampled_from(SPECS), max_size=1).map(tuple),
        "default": st.booleans(),
        "room": st.floats(0, 1),
        "alive": st.booleans(),
        "has_target": st.sampled_from([None, True, False]),
    }
)
clouds = st.lists(partitions, max_size=len(NAMES)).map(
    lambda found: [make_state(name, **values) for name, values in zip(NAMES, found, strict=False)]
)


@given(facts_of_requests, clouds)
def test_each_that_may_have_a_host_is_tried_once(facts, states):
    tried = order(facts, states)
    assert sorted(tried) == sorted(state.partition.name for state in eligible(states) if state.alive)


@given(facts_of_requests, clouds, st.randoms())
def test_the_order_in_which_partitions_are_listed_does_not_matter(facts, states, randomness):
    shuffled = list(states)
    randomness.shuffle(shuffled)
    assert order(facts, shuffled) == order(facts, states)


@given(facts_of_requests, clouds, st.frozensets(st.sampled_from(NAMES)))
def test_who_begins_does_not_change_the_order_of_the_others(facts, states, tried):
    """Schedulers that pass a request on agree on what comes next, whichever of them had it first."""
    found = next_partition(facts, states, tried)
    rest = [name for name in order(facts, states) if name not in tried]
    assert (found.partition.name if found else None) == (rest[0] if rest else None)


@given(facts_of_requests, clouds)
def test_a_request_for_a_known_host_goes_nowhere_else(facts, states):
    known = {state.partition.name for state in states if state.has_target}
    if known:
        assert set(order(facts, states)) <= known


@given(facts_of_requests, clouds)
def test_a_partition_for_zone_and_flavor_is_tried_before_one_for_neither(facts, states):
    def named(state):
        zone = facts.zone is None or facts.zone in state.partition.zones
        specs = [facts.extra_specs.get(key) == value for key, value in state.partition.extra_specs]
        return zone and (bool(state.partition.flavors & facts.flavor) or any(specs))

    tried = order(facts, states)
    fits = [named(next(state for state in states if state.partition.name == name)) for name in tried]
    assert fits == sorted(fits, reverse=True)


@pytest.mark.parametrize(
    ("facts", "state", "expected"),
    [
        (RoutingFacts(host="h"), make_state("a", has_target=True, default=True), "it has host h"),
        (RoutingFacts(cell_uuid="c"), make_state("a", has_target=True), "it has cell c"),
        (
            RoutingFacts(zone="az1"),
            make_state("a", zones=ZONE),
            "it is for zone az1, 50% of its memory is free",
        ),
        (
            RoutingFacts(zone="az1", flavor=FLAVOR),
            make_state("a", zones=ZONE, flavors=FLAVOR, default=True),
            "it is for zone az1, it is for the flavor, 50% of its memory is free",
        ),
        (RoutingFacts(), make_state("a", default=True), "it is the default, 50% of its memory is free"),
        (RoutingFacts(), make_state("a", 0.625), "62% of its memory is free"),
    ],
)
def test_why(facts, state, expected):
    assert why(facts, state) == expected
