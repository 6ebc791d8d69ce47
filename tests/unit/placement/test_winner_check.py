"""What is read of a chosen host before it is claimed, and when it is refused."""

import orjson
import pytest

from scheduler.placement.errors import MirrorStale, PlacementUnreachable
from scheduler.placement.plain_query import PlainQuery
from scheduler.placement.providers import CLOCKS, STATE, read_provider
from scheduler.placement.reply import Reply
from scheduler.placement.winner_check import MOST_REFUSED
from tests.support.clock import Clock
from tests.support.placement import Placement, make_node
from tests.unit.placement.test_mirror_source import QUERY, Mirror, next_round, query, reads, write

MEMORY = {"MEMORY_MB": 1024}


def node(uuid):
    return f"/resource_providers/{uuid}"


def traits(uuid):
    return f"/resource_providers/{uuid}/traits"


def aggregates(uuid):
    return f"/resource_providers/{uuid}/aggregates"


@pytest.fixture
def client():
    return Placement(
        *(make_node(name, traits={"AVX"}, aggregates={"zone"}, unchanged_for=3600.0) for name in "abc")
    )


@pytest.fixture
def mirror(client):
    mirror = Mirror(client, Clock())
    next_round(mirror)
    client.asked.clear()
    return mirror


def checking(mirror, wanted):
    return mirror.check(mirror.known.find(wanted), None)


def check(mirror, *nodes, **conditions):
    conditions = {name: frozenset(traits) for name, traits in conditions.items()}
    return checking(mirror, PlainQuery(MEMORY, **conditions))(nodes or ["a"])


def test_an_unchanged_host_costs_one_read(mirror, client):
    assert check(mirror) == {}
    assert client.asked == [node("a")]


@pytest.mark.parametrize(
    ("later", "asked"),
    [(None, traits("a")), (CLOCKS - 1.0, traits("a")), (CLOCKS + 1.0, node("a"))],
    ids=["since the reading", "shortly before it", "long before it"],
)
def test_own_claims_are_expected_but_may_hide_that_a_host_was_created_again(mirror, client, later, asked):
    write(mirror, "a")
    client.providers["a"].change(used=MEMORY)
    if later is not None:
        mirror.time.now += later
        client.providers["a"].unchanged_for = later
        mirror.known.correct(read_provider(client, "a", *STATE), mirror.time.now)
    client.asked.clear()
    assert check(mirror) == {}
    assert client.asked == [asked]


@pytest.mark.parametrize(
    ("unchanged_for", "more"),
    [(CLOCKS + 1.5, []), (CLOCKS, ["traits"]), (0.0, ["traits"]), (None, ["traits"])],
    ids=["before the reading", "clocks may differ", "after the reading", "no time is told"],
)
def test_traits_are_read_of_a_host_that_may_have_changed_since_the_mirror_read_it(
    mirror, client, unchanged_for, more
):
    """The mirror read it half a second ago, and the times of Placement are whole seconds."""
    if unchanged_for is None:
        client.failures[node("a")] = Reply(200, orjson.dumps(client.providers["a"].listed))
    else:
        client.providers["a"].unchanged_for = unchanged_for
    assert check(mirror) == {}
    assert client.asked == [node("a"), *(f"{node('a')}/{each}" for each in more)]


def test_a_claim_of_somebody_else_is_not(mirror, client):
    client.providers["a"].change(used=MEMORY)
    assert check(mirror) == {}
    assert client.asked == [node("a"), *reads("a")]


CHANGES = {
    "a trait was taken": ({"traits": set()}, {"required": ["AVX"]}, "trait AVX is missing"),
    "a trait was added": ({"traits": {"HDD"}}, {"forbidden": ["HDD"]}, "it has the forbidden trait HDD"),
    "it is full": ({"used": {"MEMORY_MB": 4000}}, {}, "4000 of 4096 MEMORY_MB are used"),
    "ratio lowered": (
        {"inventories": {"MEMORY_MB": {"total": 4096, "allocation_ratio": 0.1}}},
        {},
        "0 of 409 MEMORY_MB are used",
    ),
    "reserved": ({"inventories": {"MEMORY_MB": {"total": 4096, "reserved": 4000}}}, {}, "0 of 96 MEMORY_MB"),
    "step size": (
        {"inventories": {"MEMORY_MB": {"total": 4096, "step_size": 1000}}},
        {},
        "its unit limits do not admit 1024 of MEMORY_MB",
    ),
}


@pytest.mark.parametrize(("change", "wanted", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_host_that_does_not_suit_any_more_is_refused_and_not_offered_again(
    mirror, client, change, wanted, reason
):
    client.providers["a"].change(**change)
    for _ in range(2):
        refused = check(mirror, **wanted)
        assert refused["a"].startswith(f"changed in Placement since the mirror was read: {reason}")
    assert client.asked[:5] == [node("a"), *reads("a")]
    conditions = {name: frozenset(names) for name, names in wanted.items()}
    answer = mirror.known.find(PlainQuery(MEMORY, **conditions))
    assert "a" not in [answer.uuids[row] for row in answer.rows]


ZONE = PlainQuery(MEMORY, member_of=(frozenset(["zone"]),))
ELSEWHERE = PlainQuery(MEMORY, not_member_of=frozenset(["other"]))


def learn_aggregates(mirror, client):
    mirror.find([query(member_of="in:zone")])
    mirror.find([query(member_of="!in:other")])
    client.asked.clear()


@pytest.mark.parametrize("wanted", [ZONE, ELSEWHERE], ids=["left", "joined"])
def test_a_host_that_left_or_joined_an_aggregate_is_refused(mirror, client, wanted):
    client.providers["a"].change(aggregates={"other"})
    assert checking(mirror, wanted)(["a"]) == {
        "a": "changed in Placement since the mirror was read: its aggregates do not suit"
    }


def test_a_host_whose_aggregates_suit_costs_two_reads(mirror, client):
    learn_aggregates(mirror, client)
    assert checking(mirror, ZONE)(["a"]) == {}
    assert client.asked == [node("a"), aggregates("a")]


@pytest.mark.parametrize("wanted", [ZONE, ELSEWHERE], ids=["left", "joined"])
@pytest.mark.parametrize("nodes", [["a"], ["a", "b", "c"]], ids=["alone", "in a list"])
def test_aggregates_that_were_set_without_a_generation_are_seen(mirror, client, wanted, nodes):
    """As with microversions below 1.19."""
    learn_aggregates(mirror, client)
    client.providers["a"].aggregates = {"other"}
    refused = checking(mirror, wanted)(nodes)
    assert refused == {"a": "changed in Placement since the mirror was read: its aggregates do not suit"}
    assert client.asked[-4:] == reads("a")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"required": ["AVX"]}, "trait AVX is missing"),
        ({"forbidden": ["HDD"]}, "it has the forbidden trait HDD"),
    ],
    ids=["taken", "given"],
)
@pytest.mark.parametrize("nodes", ["a", "abc"], ids=["alone", "in a list"])
def test_a_host_that_was_created_again_at_the_same_generation_is_seen(mirror, client, wanted, reason, nodes):
    client.providers["a"] = make_node("a", traits={"HDD"}, aggregates={"zone"})
    for _ in range(2):
        assert check(mirror, *nodes, **wanted) == {
            "a": f"changed in Placement since the mirror was read: {reason}"
        }
        next_round(mirror)
    conditions = {name: frozenset(names) for name, names in wanted.items()}
    answer = mirror.known.find(PlainQuery(MEMORY, **conditions))
    assert "a" not in [answer.uuids[row] for row in answer.rows]


def test_a_host_is_read_if_its_aggregates_are_not_known(mirror, client):
    assert checking(mirror, ZONE)(["a"]) == {}
    assert client.asked[-4:] == reads("a")


def test_what_the_request_did_not_ask_for_does_not_matter(mirror, client):
    client.providers["a"].change(traits=set(), aggregates=set())
    assert check(mirror) == {}


def test_a_host_that_does_not_exist_any_more_is_refused_and_forgotten(mirror, client):
    del client.providers["a"]
    assert check(mirror) == {"a": "its resource provider does not exist any more"}
    answer = mirror.find([QUERY])
    assert [answer.uuids[row] for row in answer.rows] == ["b", "c"]


def test_a_change_between_the_read_and_the_correction_is_seen_by_the_next_check(mirror, client):
    client.providers["a"].change()
    client.before = lambda path: client.providers["a"].change() if path.endswith("aggregates") else None
    assert check(mirror) == {}
    client.before = lambda path: None
    client.asked.clear()
    check(mirror)
    assert client.asked == [node("a"), *reads("a")]


def test_an_own_write_that_ends_while_the_host_is_read_makes_it_read_anew(mirror, client):
    """The generation that is awaited could be of somebody else's write."""

    def change(path):
        if path == node("a"):
            client.providers["a"].change(traits=set())
            write(mirror, "a")

    client.before = change
    assert check(mirror, required=["AVX"])["a"].endswith("trait AVX is missing")


def test_without_an_answer_it_is_not_known_whether_a_host_may_be_claimed(mirror, client):
    client.failures[node("a")] = PlacementUnreachable("down")
    with pytest.raises(PlacementUnreachable):
        check(mirror)


def test_several_hosts_are_read_by_one_list_where_that_costs_less(mirror, client):
    client.providers["b"].change(traits=set())
    assert check(mirror, *"abc", required=["AVX"], forbidden=["HDD"]).keys() == {"b"}
    assert client.asked == ["/resource_providers?required=AVX%2C%21HDD", *reads("b")]


def test_a_list_tells_which_other_hosts_suit(mirror, client):
    answer = mirror.known.find(PlainQuery(MEMORY, required=frozenset(["AVX"])))
    client.providers["c"].change(traits=set())
    client.providers["d"] = make_node("d", traits={"AVX"})
    next_round(mirror)
    client.providers["b"].change(traits=set())
    assert mirror.check(answer, None)(["a", "c", "d"]).keys() == {"c"}
    assert [bool(answer.candidates(uuid)) for uuid in "abcd"] == [True, False, False, True]


def test_several_hosts_are_read_one_by_one_in_a_large_cloud(client):
    for number in range(400):
        client.providers[f"n{number}"] = make_node(f"n{number}")
    mirror = Mirror(client, Clock())
    next_round(mirror)
    client.asked.clear()
    client.providers["b"].change(used={"MEMORY_MB": 4096})
    assert check(mirror, "a", "b").keys() == {"b"}
    assert sorted(client.asked) == sorted([node("a"), node("b"), *reads("b")])


def test_a_request_does_not_go_through_all_hosts_of_a_mirror_that_is_stale(client):
    client.providers = {f"n{number:02}": make_node(f"n{number:02}") for number in range(MOST_REFUSED + 1)}
    mirror = Mirror(client, Clock())
    next_round(mirror)
    for provider in client.providers.values():
        provider.change(used={"MEMORY_MB": 4096})
    one_by_one = checking(mirror, PlainQuery(MEMORY))
    for uuid in list(client.providers)[:-1]:
        assert one_by_one([uuid])
    with pytest.raises(MirrorStale, match="9 hosts have changed"):
        one_by_one(list(client.providers)[-1:])
