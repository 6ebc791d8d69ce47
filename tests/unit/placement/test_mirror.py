"""What the mirror knows of compute nodes, and above all: that it never expects a generation that is too high."""

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.placement.errors import QuestionRefused
from scheduler.placement.mirror import UNKNOWN, Mirror, read_wide
from scheduler.placement.plain_query import PlainQuery
from scheduler.placement.providers import Inventory, ProviderState
from tests.support.clock import Clock

MEMORY = {"MEMORY_MB": 1024}
GENERATIONS = {"a": 5, "b": 7}


def provider(root, traits=(), **resources):
    amounts = {name: {"capacity": capacity, "used": used} for name, (capacity, used) in resources.items()}
    return {
        "root_provider_uuid": root,
        "parent_provider_uuid": None,
        "resources": amounts,
        "traits": list(traits),
    }


def wide(**providers):
    body = {"allocation_requests": [], "provider_summaries": providers}
    return read_wide(json.dumps(body).encode())


def two_nodes():
    return wide(
        a=provider("a", ["AVX"], VCPU=(8, 0), MEMORY_MB=(4096, 0)),
        b=provider("b", [], VCPU=(8, 6), MEMORY_MB=(4096, 3072)),
    ).nodes


def publish(mirror, nodes, generations=None, members=None, reading=None):
    """Let a mirror use nodes that were just read."""
    reading = reading or mirror.begin_reading()
    mirror.clock.now += 1
    listed = GENERATIONS if generations is None else generations
    mirror.publish(nodes, reading, listed, members or {})
    mirror.clock.now += 1


@pytest.fixture
def mirror(clock):
    mirror = Mirror(clock)
    publish(mirror, two_nodes())
    return mirror


def found(mirror, amounts=MEMORY, **conditions):
    conditions = {name: frozenset(traits) for name, traits in conditions.items()}
    answer = mirror.find(PlainQuery(amounts, **conditions))
    return [answer.uuids[row] for row in answer.rows]


def generation(mirror, uuid):
    known = mirror.state(uuid, PlainQuery(MEMORY))
    return UNKNOWN if known is None else known.generation


def allocation(provider, **amounts):
    return {provider: {"resources": amounts}}


def write(mirror, provider="b", amount=1024, *, done=True, seconds=1, generation=None, begun=None):
    """A write of ours for a new instance, which takes some seconds."""
    begun = mirror.clock.now if begun is None else begun
    mirror.clock.now += seconds
    body = {"allocations": allocation(provider, MEMORY_MB=amount), "consumer_generation": generation}
    mirror.written([body], begun, done=done)


def state(uuid="b", generation=8, total=4096, used=0, traits=(), aggregates=(), **limits):
    return ProviderState(
        uuid,
        generation,
        {"MEMORY_MB": Inventory(total=total, **limits)},
        {"MEMORY_MB": used},
        frozenset(traits),
        frozenset(aggregates),
    )


def correct(mirror, read):
    """Let a mirror have what was just read of a node."""
    mirror.clock.now += 1
    begun = mirror.clock.now
    mirror.clock.now += 1
    mirror.correct(read, begun)
    mirror.clock.now += 1


def compare(mirror, listed=GENERATIONS):
    """Compare a mirror with a list that is read now."""
    return mirror.compare(mirror.begin_reading(), listed)


# -- answers ----------------------------------------------------------------------------------------------


def test_a_body_of_another_shape_is_refused():
    with pytest.raises(QuestionRefused):
        read_wide(b'{"provider_summaries": {"a": {}}}')


def test_classes_that_a_node_lacks_cannot_be_had(mirror):
    assert found(mirror, {"MEMORY_MB": 1, "DISK_GB": 1}) == []


def test_nodes_need_room_for_every_class(mirror):
    assert found(mirror, {"MEMORY_MB": 1024, "VCPU": 2}) == ["a", "b"]
    assert found(mirror, {"MEMORY_MB": 1025, "VCPU": 2}) == ["a"]
    assert found(mirror, {"MEMORY_MB": 1024, "VCPU": 3}) == ["a"]


def test_traits_are_required_or_forbidden(mirror):
    assert found(mirror, required=["AVX"]) == ["a"]
    assert found(mirror, forbidden=["AVX"]) == ["b"]
    assert found(mirror, required=["AVX"], forbidden=["AVX"]) == []


def test_aggregates_are_those_of_placement(mirror, clock):
    query = PlainQuery(MEMORY, member_of=(frozenset("xy"), frozenset("z")), not_member_of=frozenset("w"))
    publish(mirror, two_nodes(), members={"x": ["a"], "y": ["b"], "z": ["a", "b", "c"]})
    assert query.aggregates - mirror.known_aggregates == {"w"}
    clock.now += 1
    mirror.learn_members("w", ["a"], clock.now)
    assert query.aggregates == mirror.known_aggregates
    answer = mirror.find(query)
    assert [answer.uuids[row] for row in answer.rows] == ["b"]


def test_members_that_were_listed_before_the_nodes_are_not_learnt(mirror, clock):
    mirror.learn_members("w", ["a"], clock.now - 2)
    assert mirror.known_aggregates == set()


def test_members_that_were_listed_before_a_node_was_read_do_not_concern_it(mirror, clock):
    begun = clock.now
    correct(mirror, state("a", generation=6))
    mirror.learn_members("w", ["a", "b"], begun)
    assert mirror.known_aggregates == {"w"}
    answer = mirror.find(PlainQuery(MEMORY, member_of=(frozenset("w"),)))
    assert [answer.uuids[row] for row in answer.rows] == ["b"]


@pytest.mark.parametrize(
    ("limits", "offered"),
    [({"min_unit": 2048}, False), ({"max_unit": 512}, False), ({"step_size": 1000}, False), ({}, True)],
    ids=["min_unit", "max_unit", "step_size", "none"],
)
def test_unit_limits_are_known_once_a_node_was_read_alone(mirror, limits, offered):
    correct(mirror, state(**limits))
    assert ("b" in found(mirror)) is offered


def test_a_candidate_takes_everything_from_the_node(mirror):
    answer = mirror.find(PlainQuery(MEMORY))
    (candidate,) = answer.candidates("a")
    assert (candidate.root, candidate.roots) == ("a", ("a",))
    assert candidate.allocations == allocation("a", MEMORY_MB=1024)
    assert candidate.mappings == {"": ["a"]}
    assert (answer.usage("b")["VCPU"].used, answer.usage("z")) == (6, {})


def test_what_the_wide_answer_says_of_children():
    answer = wide(
        a=provider("a", MEMORY_MB=(4096, 0)), b=provider("a", VGPU=(2, 0)), c=provider("a", VCPU=(2, 0))
    )
    assert (answer.nodes.uuids, answer.children) == (("a",), {"b": False, "c": True})


@pytest.mark.parametrize("capacity", [2**63, 10**40])
def test_a_capacity_beyond_all_bounds_is_one_that_suffices(mirror, capacity):
    publish(mirror, wide(a=provider("a", MEMORY_MB=(capacity, 0)), b=provider("b", MEMORY_MB=(9, 0))).nodes)
    assert found(mirror) == ["a"]
    write(mirror, "a")
    assert found(mirror) == ["a"]


# -- generations -------------------------------------------------------------------------------------------


def test_the_expected_generation_is_the_one_that_was_read(mirror):
    assert (generation(mirror, "a"), generation(mirror, "b"), generation(mirror, "z")) == (5, 7, UNKNOWN)


def test_own_writes_raise_it_and_take_room(mirror):
    write(mirror)
    assert (generation(mirror, "b"), found(mirror)) == (8, ["a"])


def test_a_write_for_several_instances_raises_it_once(mirror, clock):
    body = {"allocations": allocation("b", MEMORY_MB=1) | allocation("z", VCPU=1), "consumer_generation": 0}
    begun = clock.now
    clock.now += 1
    mirror.written([body, body], begun, done=True)
    assert (generation(mirror, "b"), mirror.find(PlainQuery(MEMORY)).usage("b")["MEMORY_MB"].used) == (
        8,
        3074,
    )


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({"done": False}, 7),
        ({"done": None}, UNKNOWN),
        ({"generation": 3}, UNKNOWN),
    ],
    ids=["not carried out", "of unknown outcome", "replaces what the instance held"],
)
def test_writes_that_tell_less(mirror, case, expected):
    write(mirror, **case)
    assert (generation(mirror, "b"), found(mirror)) == (expected, ["a", "b"])


def test_a_node_of_which_less_is_known_stays_so_until_it_is_read(mirror):
    write(mirror, done=None)
    write(mirror)
    assert generation(mirror, "b") == UNKNOWN
    correct(mirror, state(generation=9))
    assert generation(mirror, "b") == 9


def test_a_reading_beside_a_write_tells_no_generation(mirror, clock):
    """Whichever of the two ends first."""
    begun = clock.now
    write(mirror)
    mirror.correct(state(generation=8), begun)
    assert generation(mirror, "b") == UNKNOWN
    correct(mirror, state(generation=8))
    begun = clock.now
    correct(mirror, state(generation=9))
    write(mirror, begun=begun)
    assert generation(mirror, "b") == UNKNOWN


def test_claims_of_others_take_room_and_do_not_raise_it(mirror):
    mirror.heard(allocation("b", MEMORY_MB=1024), 0.5, 1)
    assert (generation(mirror, "b"), found(mirror)) == (7, ["a"])
    mirror.heard(allocation("b", MEMORY_MB=1024), 0.5, -1)
    assert found(mirror) == ["a", "b"]


def test_what_was_announced_before_a_node_was_read_is_part_of_that(mirror):
    mirror.heard(allocation("b", MEMORY_MB=1024), 2.5, 1)
    assert found(mirror) == ["a", "b"]


def test_a_release_gives_room_back(mirror):
    write(mirror)
    mirror.released(allocation("b", MEMORY_MB=1024) | allocation("z", VCPU=1))
    assert found(mirror) == ["a", "b"]


def test_a_missing_provider_is_not_offered_until_it_is_read(mirror):
    mirror.forget("b")
    mirror.forget("z")
    assert found(mirror) == ["a"]
    correct(mirror, state(generation=1))
    assert found(mirror) == ["a", "b"]


def test_a_node_that_is_doubted_is_read_again(mirror):
    mirror.doubt(["b", "z"])
    assert (generation(mirror, "b"), compare(mirror)) == (UNKNOWN, ["b"])


# -- comparisons ---------------------------------------------------------------------------------------------


def test_nothing_has_moved(mirror):
    assert compare(mirror) == []


def test_own_writes_and_those_of_others_that_were_announced_explain_a_move(mirror):
    write(mirror)
    mirror.heard(allocation("b", MEMORY_MB=1), 0.0, 1)
    assert compare(mirror, {"a": 5, "b": 9}) == []
    assert compare(mirror, {"a": 5, "b": 8}) == ["b"]  # its reading had one of them already
    assert compare(mirror, {"a": 6, "b": 9}) == ["a"]


def test_writes_while_the_list_is_read_explain_a_move_or_none(mirror):
    reading = mirror.begin_reading()
    write(mirror)
    for generation in (7, 8):
        assert mirror.compare(reading, {"a": 5, "b": generation}) == []
    assert mirror.compare(reading, {"a": 5, "b": 9}) == ["b"]


def newcomer(mirror):
    """Add a node by a reading of it alone."""
    memory = {"MEMORY_MB": Inventory(total=4096)}
    mirror.add(["n"])
    begun = mirror.clock.now
    mirror.correct(ProviderState("n", 3, memory, {}, frozenset(), frozenset()), begun)


@pytest.mark.parametrize("answered", [True, False], ids=["in the answer", "not in it"])
def test_a_node_that_is_added_while_all_are_read_is_kept(mirror, answered):
    reading = mirror.begin_reading()
    mirror.clock.now += 1
    newcomer(mirror)
    nodes = two_nodes()
    if answered:
        nodes = wide(a=provider("a", MEMORY_MB=(4096, 4096)), n=provider("n", MEMORY_MB=(9, 0))).nodes
    publish(mirror, nodes, GENERATIONS | ({"n": 2} if answered else {}), reading=reading)
    assert found(mirror) == (["n", "b"] if answered else ["a", "b", "n"])
    assert generation(mirror, "n") == 3


def test_a_node_that_is_added_while_the_list_is_read_is_not_missing_in_it(mirror):
    reading = mirror.begin_reading()
    newcomer(mirror)
    assert mirror.compare(reading, GENERATIONS) == []
    assert found(mirror) == ["a", "b", "n"]
    assert mirror.compare(mirror.begin_reading(), GENERATIONS) == []
    assert found(mirror) == ["a", "b"]


def test_new_nodes_and_missing_ones(mirror):
    assert compare(mirror, {"a": 5, "c": 1}) == []
    assert found(mirror) == ["a"]
    mirror.add(["c", "a"])
    correct(mirror, state("c", generation=1))
    assert found(mirror) == ["a", "c"]
    assert compare(mirror, {"a": 5, "b": 7, "c": 1}) == ["b"]  # it is back


# -- the next wide answer ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "listed", "known", "offered"),
    [
        (write, 7, 8, ["a"]),
        (write, 9, UNKNOWN, ["a", "b"]),
        (lambda mirror: correct(mirror, state(generation=9, used=4096)), 8, 9, ["a"]),
    ],
    ids=["written", "written and changed by others too", "read"],
)
def test_what_became_of_a_node_since_the_list_was_asked_for_is_kept(mirror, change, listed, known, offered):
    reading = mirror.begin_reading()
    change(mirror)
    listed = {"a": 5, "b": listed}
    publish(mirror, two_nodes(), listed, reading=reading)
    assert (generation(mirror, "b"), found(mirror)) == (known, offered)
    assert known != UNKNOWN or compare(mirror, listed) == ["b"]


def test_a_write_that_was_in_flight_meanwhile_makes_the_generation_unknown(mirror, clock):
    begun = clock.now
    publish(mirror, two_nodes())
    write(mirror, begun=begun)
    assert generation(mirror, "b") == UNKNOWN


def test_full_nodes_stay_known_and_deleted_ones_do_not(mirror):
    write(mirror)
    publish(mirror, wide(c=provider("c", MEMORY_MB=(4096, 0))).nodes, {"b": 8, "c": 1})
    assert ("a" in mirror, generation(mirror, "b"), generation(mirror, "c")) == (False, 8, 1)
    assert found(mirror) == ["c"]


class Cloud:
    """One node as Placement has it, and what a mirror knows of it."""

    def __init__(self):
        self.clock = Clock(0.0)
        self.generation, self.used, self.traits = 1, 0, 0
        self.mirror = Mirror(self.clock)
        self.writes, self.readings, self.lists = [], [], []

    def act(self, step):
        self.clock.now += 1
        getattr(self, step)()
        if generation(self.mirror, "a") == self.generation:
            known = self.mirror.state("a", PlainQuery(MEMORY))
            assert known.traits == {f"T{self.traits}"}  # whatever was expected, nothing had changed

    def send(self):
        self.writes.append([self.clock.now, False])

    def carry_out(self):
        for write in self.writes:
            if not write[1]:
                write[1], self.generation, self.used = True, self.generation + 1, self.used + 1
                return

    def answer_write(self):
        if self.writes and self.writes[0][1]:
            begun, _ = self.writes.pop(0)
            body = {"allocations": allocation("a", MEMORY_MB=1), "consumer_generation": None}
            self.mirror.written([body], begun, done=True)

    def others_write(self):
        self.generation, self.used, self.traits = self.generation + 1, self.used + 1, self.traits + 1

    def announce(self):
        self.mirror.heard(allocation("a", MEMORY_MB=1), 0.0, 1)

    def read(self):
        """Placement answers a reading of the node alone."""
        read = state("a", self.generation, 1 << 40, self.used, {f"T{self.traits}"})
        self.readings.append((self.clock.now - 0.5, read))

    def use_reading(self):
        if self.readings:
            begun, read = self.readings.pop(0)
            self.mirror.correct(read, begun)

    def list(self):
        self.lists.append((self.mirror.begin_reading(), self.generation))

    def use_list(self):
        if self.lists:
            reading, generation = self.lists.pop(0)
            self.mirror.compare(reading, {"a": generation})

    def use_wide(self):
        if self.lists:
            reading, generation = self.lists.pop(0)
            self.lists.clear()
            node = provider("a", [f"T{self.traits}"], MEMORY_MB=(1 << 40, self.used))
            self.mirror.publish(wide(a=node).nodes, reading, {"a": generation}, {})


STEPS = [
    *("send", "carry_out", "answer_write", "others_write", "announce", "read", "use_reading"),
    *("list", "use_list", "use_wide"),
]


@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_a_node_whose_generation_is_the_expected_one_has_not_changed(steps):
    """Whatever is written, read and answered meanwhile, by whomever, and in whatever order."""
    cloud = Cloud()
    for step in ("list", "use_wide", *steps):
        cloud.act(step)
