from concurrent.futures import ThreadPoolExecutor
import contextvars
import logging
import threading
from urllib.parse import urlencode

import pytest

from scheduler.bounds import deadline
from scheduler.placement.answer import SHARING
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.mirror import WIDE_QUERY
from scheduler.placement.mirror_reader import (
    MOVED_WIDE_INTERVAL,
    READ_FULL,
    READ_SINGLY,
    READ_TIME,
    WIDE_INTERVAL,
)
from scheduler.placement.mirror_source import (
    INCOMPLETE_INTERVAL,
    LIST_PART,
    LONGEST_INTERVAL,
    TOO_OLD,
    CandidateMirror,
)
from scheduler.placement.reply import Reply
from scheduler.request.query import Query
from tests.support.placement import Placement, make_node
from tests.support.waiting import eventually
from tests.unit.placement.test_mirror import allocation

INTERVAL = 8.0
EVERYTHING = "/resource_providers"
SHARERS = f"/resource_providers?required={SHARING}"
WIDE = f"/allocation_candidates?{WIDE_QUERY}"
FREE = f"/resource_providers?{urlencode({'resources': 'MEMORY_MB:1'})}"
STATE = ("inventories", "usages", "traits", "aggregates")


def query(**conditions):
    return Query((("resources", "MEMORY_MB:1024"), *conditions.items()), "", None)


QUERY = query()


def reads(*nodes):
    """The paths of reading nodes alone."""
    return [f"/resource_providers/{node}/{what}" for node in nodes for what in STATE]


@pytest.fixture
def client():
    return Placement(make_node("a"), make_node("b", used={"MEMORY_MB": 3072}))


class Mirror(CandidateMirror):
    """A mirror with the Placement that it reads, and the clock by which it does so."""

    def __init__(self, placement, clock, **options):
        self.placement, self.time = placement, clock
        super().__init__(placement, lambda: INTERVAL, clock, **options)


@pytest.fixture
def mirror(client, clock):
    mirror = Mirror(client, clock)
    next_round(mirror)
    mirror.find([QUERY])  # a mirror that is asked does not rest
    return mirror


def next_round(mirror, later=1.0):
    """Run a round so many seconds later; return the seconds to wait, and what it asked."""
    mirror.time.now += later
    mirror.placement.asked.clear()
    wait = mirror.run_round()
    mirror.time.now += 0.5
    return wait, list(mirror.placement.asked)


def found(mirror, wanted=QUERY):
    answer = mirror.find([wanted])
    return None if answer is None else [answer.uuids[row] for row in answer.rows]


def refuse(mirror, provider="a", name="MEMORY_MB"):
    mirror.refused(provider, name)


def write(mirror, provider):
    begun = mirror.time.now
    mirror.time.now += 0.1
    body = {"allocations": allocation(provider, MEMORY_MB=1024), "consumer_generation": None}
    mirror.known.written([body], begun, done=True)


# -- answers -------------------------------------------------------------------------------------------------


def test_before_the_first_round_placement_is_asked(client, clock):
    assert found(Mirror(client, clock)) is None


@pytest.mark.parametrize("answers", [True, False], ids=["complete", "failed"])
def test_a_start_waits_for_the_first_round_and_no_longer_if_it_fails(client, clock, answers):
    may_answer = threading.Event()
    client.before = lambda path: may_answer.wait(60)
    if not answers:
        client.failures[WIDE] = PlacementUnreachable("down")
    mirror = Mirror(client, clock)
    mirror.start()
    mirror.wait_until_tried(0.01)
    may_answer.set()
    mirror.wait_until_tried(10)
    mirror.stop()
    assert (found(mirror) is not None) is answers


def test_a_mirror_that_is_not_started_is_not_waited_for(client, clock):
    Mirror(client, clock).wait_until_tried(float("inf"))


def test_queries_are_answered_without_a_get(mirror, client):
    client.asked.clear()
    assert found(mirror) == ["a", "b"]
    assert client.asked == []


def test_other_queries_go_to_placement(mirror):
    assert mirror.find([QUERY, QUERY]) is None
    assert found(mirror, query(in_tree="a")) is None


def test_members_of_an_aggregate_are_read_when_a_query_first_names_it(mirror, client):
    client.providers["b"].aggregates = {"zone"}
    client.asked.clear()
    for _ in range(2):
        assert found(mirror, query(member_of="in:zone")) == ["b"]
    assert client.asked == ["/resource_providers?member_of=in%3Azone"]


def test_a_query_for_an_aggregate_that_cannot_be_read_goes_to_placement(mirror, client):
    client.failures["/resource_providers?member_of=in%3Azone"] = PlacementUnreachable("down")
    assert found(mirror, query(member_of="in:zone")) is None
    client.failures.clear()
    assert found(mirror, query(member_of="in:zone")) == []


def test_a_query_that_forbids_a_trait_which_does_not_exist_goes_to_placement(mirror, client):
    """Placement rejects it, so that nova finds no host."""
    wanted = query(required="!CUSTOM_NOISY")
    client.asked.clear()
    assert found(mirror, wanted) is None
    assert client.asked == ["/traits?name=in%3ACUSTOM_NOISY"]
    client.custom_traits = {"CUSTOM_NOISY"}
    client.asked.clear()
    assert [found(mirror, wanted) for _ in range(2)] == [["a", "b"], ["a", "b"]]
    assert client.asked == ["/traits?name=in%3ACUSTOM_NOISY"]
    client.custom_traits = set()
    next_round(mirror, WIDE_INTERVAL)
    assert found(mirror, wanted) is None


def test_the_names_of_a_query_are_waited_for_until_its_deadline(mirror, client):
    may_answer, waits = threading.Event(), threading.Event()

    def hang(path):
        waits.set()
        assert may_answer.wait(30)

    client.before = hang
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(found, mirror, query(member_of="in:zone"))
        assert waits.wait(30)
        with deadline.limit_to(deadline.Deadline.after(0.05)):
            second = pool.submit(contextvars.copy_context().run, found, mirror, query(member_of="in:zone"))
        try:
            assert second.result(60) is None
        finally:
            may_answer.set()
        assert first.result(30) == []


def test_the_mirror_of_a_partition_is_of_the_nodes_in_its_aggregates(client, clock):
    client.providers["a"].aggregates = {"x"}
    mirror = Mirror(client, clock, aggregates=lambda: frozenset({"y", "x"}))
    asked = next_round(mirror)[1]
    assert asked == [
        "/resource_providers?member_of=in%3Ax%2Cy",
        f"/allocation_candidates?member_of=in%3Ax%2Cy&{WIDE_QUERY}",
        SHARERS,
    ]
    assert found(mirror) == ["a"]


@pytest.mark.parametrize(("age", "answers"), [(TOO_OLD - 1, True), (TOO_OLD + 1, False)], ids=str)
def test_a_mirror_that_could_not_be_refreshed_for_long_answers_nothing(mirror, client, clock, age, answers):
    client.failures[EVERYTHING] = PlacementUnreachable("down")
    mirror.run_round()
    clock.now += age - 0.5
    assert (found(mirror) is not None) is answers


def test_after_a_rest_a_query_waits_for_a_round(client):
    mirror = CandidateMirror(client, lambda: INTERVAL)
    mirror.start()
    mirror.wait_until_tried(10)
    rested = mirror.age
    mirror.age = lambda: rested() + (0 if len(client.asked) > 3 else TOO_OLD)
    mirror._wanted, mirror._idle_rounds = False, 5
    client.providers["a"].used["MEMORY_MB"] = 4096
    client.providers["a"].change()
    assert found(mirror) == ["b"]
    mirror.stop()


def test_the_first_query_after_others_claimed_for_long_waits_for_no_reading(client, clock):
    """Of another scheduler, which stops then: this one had no query since its start."""
    mirror = Mirror(client, clock)
    next_round(mirror)
    begun = clock.now
    while clock.now < begun + 900:
        mirror.heard(allocation("b", MEMORY_MB=1), 0.0, 1)
        wait, _ = next_round(mirror, later=INTERVAL)
        assert wait <= INTERVAL
    client.asked.clear()
    assert (found(mirror), client.asked) == (["a", "b"], [])


def test_a_claim_of_another_scheduler_ends_a_rest(client):
    mirror = CandidateMirror(client, lambda: LONGEST_INTERVAL)
    mirror.start()
    mirror.wait_until_tried(10)
    client.asked.clear()
    mirror.heard(allocation("b", MEMORY_MB=1), 0.0, 1)
    assert eventually(lambda: client.asked)
    mirror.stop()


# -- rounds --------------------------------------------------------------------------------------------------


def test_the_first_round_asks_the_wide_question_and_the_next_ones_compare_generations(client, clock):
    mirror = Mirror(client, clock)
    assert next_round(mirror)[1] == [EVERYTHING, WIDE, SHARERS]
    assert next_round(mirror)[1] == [EVERYTHING, SHARERS]


@pytest.mark.parametrize(
    ("claim", "release"),
    [
        (
            lambda mirror: write(mirror, "b"),
            lambda mirror: mirror.released("i", allocation("b", MEMORY_MB=1024)),
        ),
        (
            lambda mirror: mirror.heard(allocation("b", MEMORY_MB=1024), 0.0, 1),
            lambda mirror: mirror.heard(allocation("b", MEMORY_MB=1024), 0.0, -1),
        ),
    ],
    ids=["own", "announced by others"],
)
def test_writes_that_are_known_count_and_are_no_reason_to_read_a_node(mirror, client, claim, release):
    claim(mirror)
    client.providers["b"].change()
    assert next_round(mirror)[1] == [EVERYTHING, SHARERS]
    assert found(mirror) == ["a"]
    release(mirror)
    assert found(mirror) == ["a", "b"]


def test_a_node_that_others_changed_is_read_again(mirror, client):
    client.providers["a"].change(traits={"AVX"}, used={"MEMORY_MB": 1}, aggregates={"z"})
    assert next_round(mirror)[1] == [EVERYTHING, *reads("a"), SHARERS]
    assert found(mirror, query(required="AVX", member_of="in:z")) == ["a"]


def test_new_nodes_are_read_and_deleted_ones_are_not_offered(mirror, client):
    del client.providers["a"]
    client.providers["c"] = make_node("c")
    assert next_round(mirror)[1] == [EVERYTHING, *reads("c"), SHARERS]
    assert found(mirror) == ["b", "c"]


def test_a_node_that_is_deleted_while_it_is_read_is_not_offered(mirror, client):
    client.providers["c"] = make_node("c")
    client.before = lambda path: client.providers.pop("c", None) if path in reads("c") else None
    next_round(mirror)
    assert found(mirror) == ["a", "b"]


def many_change(client, number=READ_SINGLY + 1):
    for count in range(number):
        client.providers[f"n{count:03}"] = make_node(f"n{count:03}")


def test_many_changes_are_read_by_one_wide_question(mirror, client):
    many_change(client)
    assert next_round(mirror, MOVED_WIDE_INTERVAL)[1] == [EVERYTHING, WIDE, SHARERS]
    assert len(found(mirror)) == READ_SINGLY + 3


def test_soon_after_a_wide_question_some_are_read_one_by_one(mirror, client):
    many_change(client, READ_SINGLY + 5)
    assert len(next_round(mirror)[1]) == READ_SINGLY * len(STATE) + 2
    assert len(found(mirror)) == READ_SINGLY + 2
    next_round(mirror)
    assert len(found(mirror)) == READ_SINGLY + 7


def test_now_and_then_the_wide_question_is_asked_in_any_case(mirror, client):
    client.providers["b"].used = {}  # deleted by DELETE, which raises no generation
    next_round(mirror)
    assert found(mirror, query(resources="MEMORY_MB:4096")) == ["a"]
    assert WIDE in next_round(mirror, WIDE_INTERVAL)[1]
    assert found(mirror, query(resources="MEMORY_MB:4096")) == ["a", "b"]


def test_members_of_aggregates_are_read_with_a_wide_answer(mirror, client):
    client.providers["b"].aggregates = {"zone"}
    found(mirror, query(member_of="in:zone"))
    client.providers["a"].change(aggregates={"zone"})
    next_round(mirror, WIDE_INTERVAL)
    assert found(mirror, query(member_of="in:zone")) == ["a", "b"]


def test_the_interval_grows_while_no_query_comes(mirror):
    waits = [next_round(mirror)[0] for _ in range(12)]
    assert waits[:3] == [INTERVAL, 4 * INTERVAL, 16 * INTERVAL]
    assert waits[-1] == LONGEST_INTERVAL
    found(mirror)
    assert next_round(mirror)[0] == INTERVAL


def test_a_list_that_takes_long_is_read_more_rarely_and_counts_for_longer(mirror, client, clock):
    """The list of a very large cloud would keep Placement busy else."""

    def slow(path):
        clock.now += 4 if path == EVERYTHING else 0

    client.before = slow
    assert next_round(mirror)[0] == LIST_PART * 4 - 4
    clock.now += 2 * LIST_PART * 4
    assert found(mirror)
    clock.now += LIST_PART * 4
    assert found(mirror) is None


# -- nodes that the wide answer lacks ------------------------------------------------------------------------


def test_full_nodes_are_read_a_few_in_each_round(client, clock):
    for number in range(READ_FULL + 2):
        client.providers[f"f{number:02}"] = make_node(f"f{number:02}", used={"MEMORY_MB": 4096})
    mirror = Mirror(client, clock)
    assert next_round(mirror)[1] == [EVERYTHING, WIDE, FREE, FREE.replace("%3A1", "%3A1024"), SHARERS]
    assert found(mirror) == ["a", "b"]
    lengths = [len(next_round(mirror)[1]) for _ in range(3)]
    assert lengths == [READ_FULL * len(STATE) + 2, 2 * len(STATE) + 2, 2]


def test_nodes_whose_limits_refuse_one_mib_are_not_full_and_are_read_before_those_that_are(client, clock):
    for number in range(READ_FULL):
        full_node(client, number)
    steps = {"MEMORY_MB": {"total": 4096, "step_size": 512}}
    client.providers["z"] = make_node("z", inventories=steps)
    mirror = Mirror(client, clock)
    next_round(mirror)
    assert ("z" in mirror.reader.full_nodes, list(mirror.reader.unread_nodes)) == (False, ["z"])
    next_round(mirror)
    assert (list(mirror.reader.unread_nodes), "z" in mirror.known) == ([], True)
    alone = CandidateMirror(client, lambda: 5.0, clock)
    alone.read()
    assert "z" in alone.known


def full_node(client, number):
    client.providers[f"f{number:02}"] = make_node(f"f{number:02}", used={"MEMORY_MB": 4096})


@pytest.mark.parametrize("told", ["by its generation", "by nova"])
def test_a_full_node_that_is_freed_is_read_at_once(client, clock, told):
    for number in range(READ_FULL + 1):
        full_node(client, number)
    mirror = Mirror(client, clock)
    next_round(mirror)
    last = client.providers[f"f{READ_FULL:02}"]
    if told == "by nova":
        last.used = {}
        mirror.nodes_changed([last.uuid])
    else:
        last.change(used={})
    assert found(mirror) == ["a", "b"]
    next_round(mirror)
    assert found(mirror) == ["a", "b", last.uuid]


def test_nodes_with_unit_limits_are_known_after_some_rounds(mirror, client):
    client.providers["c"] = make_node("c", inventories={"MEMORY_MB": {"total": 8192, "min_unit": 1024}})
    next_round(mirror, WIDE_INTERVAL)
    next_round(mirror)
    assert found(mirror) == ["a", "b", "c"]
    assert found(mirror, query(resources="MEMORY_MB:512")) == ["a", "b"]


def test_unit_limits_are_known_until_the_node_has_changed(mirror, client):
    """A wide answer does not say them."""
    client.providers["a"].change(inventories={"MEMORY_MB": {"total": 4096, "max_unit": 512}})
    next_round(mirror)
    for later in (1.0, WIDE_INTERVAL):
        next_round(mirror, later)
        assert found(mirror) == ["b"]
    client.providers["a"].change(inventories={"MEMORY_MB": {"total": 4096}})
    next_round(mirror, WIDE_INTERVAL)
    assert found(mirror) == ["a", "b"]


def test_an_answer_that_placement_cuts_is_completed_before_queries_are_answered(client, clock, caplog):
    many_change(client, 2 * READ_SINGLY)
    client.max_candidates = 10
    mirror = Mirror(client, clock)
    with caplog.at_level(logging.WARNING):
        assert next_round(mirror)[0] == INCOMPLETE_INTERVAL
    total = 2 * READ_SINGLY + 2
    assert f"Placement names 10 of {total} compute nodes with free memory in one answer" in caplog.text
    assert "max_allocation_candidates" in caplog.text
    assert found(mirror) is None
    assert next_round(mirror)[0] == INCOMPLETE_INTERVAL
    assert next_round(mirror)[0] == INTERVAL
    assert len(found(mirror)) == total
    caplog.clear()
    next_round(mirror, WIDE_INTERVAL)
    assert (len(found(mirror)), caplog.text) == (total, "")


def test_a_node_that_was_freed_amid_the_wide_question_is_no_sign_of_a_cut(client, clock, caplog):
    full_node(client, 1)
    node = client.providers["f01"]
    client.before = lambda path: node.change(used={}) if path == FREE else None
    mirror = Mirror(client, clock)
    next_round(mirror)
    assert (found(mirror), caplog.text) == (None, "")
    next_round(mirror)
    assert found(mirror) == ["a", "b", "f01"]


# -- other providers with mirrored classes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "classes", "answers"),
    [
        ("sharing", {"DISK_GB": {"total": 9}}, False),
        ("sharing", {"IPV4_ADDRESS": {"total": 9}}, True),
        ("child", {"VCPU": {"total": 9}}, False),
        ("child", {"VGPU": {"total": 9}}, True),
    ],
)
def test_providers_that_are_no_compute_nodes(mirror, client, kind, classes, answers):
    place = {"traits": {SHARING}} if kind == "sharing" else {"root": "a"}
    client.providers["s"] = make_node("s", inventories=classes, **place)
    for later in (1.0, WIDE_INTERVAL):
        next_round(mirror, later)
        assert (found(mirror) is not None) is answers
    assert next_round(mirror)[1] == [EVERYTHING, SHARERS]  # it is not read again and again
    client.providers["s"].change(inventories={})
    next_round(mirror)
    assert "a" in found(mirror)
    del client.providers["s"]
    next_round(mirror)
    assert found(mirror) == ["a", "b"]


def test_a_sharing_provider_that_was_created_again_at_the_same_generation(mirror, client):
    for name, answers in (("IPV4_ADDRESS", True), ("DISK_GB", False)):
        client.providers["s"] = make_node("s", inventories={name: {"total": 9}}, traits={SHARING})
        next_round(mirror, WIDE_INTERVAL)
        assert (found(mirror) is not None) is answers


# -- claims --------------------------------------------------------------------------------------------------


def test_a_node_that_refused_a_claim_is_read_before_the_next_one(mirror):
    refuse(mirror)
    assert next_round(mirror)[1] == [EVERYTHING, *reads("a"), SHARERS]


@pytest.mark.parametrize(
    ("provider", "offered"), [("a", ["b"]), ("", ["a", "b"])], ids=["missing", "not named"]
)
def test_only_a_missing_provider_is_not_offered_again(mirror, provider, offered):
    refuse(mirror, provider, name="")
    assert found(mirror) == offered


def test_a_round_does_not_read_nodes_for_long(mirror, client, clock):
    def slow(path):
        clock.now += READ_TIME

    for name in "cde":
        client.providers[name] = make_node(name)
    client.before = slow
    assert next_round(mirror)[1] == [EVERYTHING, *reads("c"), SHARERS]
    client.before = lambda path: None
    assert next_round(mirror)[1] == [EVERYTHING, *reads("d", "e"), SHARERS]
    assert found(mirror) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("path", [EVERYTHING, WIDE, SHARERS])
@pytest.mark.parametrize(
    "failure", [PlacementUnreachable("away"), Reply(200, b"{"), Reply(503, b"")], ids=["away", "text", "503"]
)
def test_a_round_that_failed_keeps_what_is_known_and_is_repeated(mirror, client, caplog, path, failure):
    client.failures[path] = failure
    with caplog.at_level(logging.ERROR):
        assert next_round(mirror, WIDE_INTERVAL)[0] == INTERVAL
    assert "Cannot refresh the mirror of Placement" in caplog.text
    client.failures.clear()
    next_round(mirror)
    assert found(mirror) == ["a", "b"]
