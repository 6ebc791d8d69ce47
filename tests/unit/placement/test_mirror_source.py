import logging
import math
import threading
from types import SimpleNamespace

import orjson
import pytest

from scheduler.placement.answer import SHARING
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.mirror import WIDE_QUERY
from scheduler.placement.mirror_source import (
    MOST_REREAD,
    RESTING_INTERVALS,
    CandidateMirror,
    NoMirror,
    make_mirror,
)
from scheduler.placement.questions import Questions
from scheduler.placement.refresh_pace import MIN_INTERVAL, STORM_CLAIMS
from scheduler.placement.reply import Reply
from scheduler.request.query import Query
from scheduler.shared_answers import SharedAnswers
from tests.support.clock import Clock
from tests.unit.placement.test_mirror import allocation, provider
from tests.unit.selection.requests import make_candidate

QUERY = Query((("resources", "MEMORY_MB:1024"),), "", None)
SHARERS = f"/resource_providers?required={SHARING}"
WIDE = f"/allocation_candidates?{WIDE_QUERY}"
INTERVAL = 60.0
NODES = {
    "a": provider("a", [], MEMORY_MB=(4096, 0)),
    "b": provider("b", [], MEMORY_MB=(4096, 3072)),
}


class FakeClient:
    """Answers GETs by path."""

    def __init__(self):
        self.asked = []
        self.bodies = {
            SHARERS: {"resource_providers": []},
            WIDE: {"allocation_requests": [], "provider_summaries": NODES},
        }

    def get(self, path, version, context=None, *, search=False):
        self.asked.append(path)
        body = self.bodies.get(path)
        if isinstance(body, Exception):
            raise body
        return Reply(404, b"") if body is None else Reply(200, orjson.dumps(body))


@pytest.fixture
def client():
    return FakeClient()


@pytest.fixture
def clock():
    return Clock()


def alone(client, clock):
    """The questions of a worker that shares no answers."""
    return Questions(client, SharedAnswers(clock=clock))


@pytest.fixture
def mirror(client, clock):
    mirror = CandidateMirror(alone(client, clock), lambda: INTERVAL, clock)
    mirror.refresh()
    mirror.find([QUERY])  # a mirror that is asked does not rest
    client.asked.clear()
    return mirror


def test_the_mirror_of_a_partition_is_of_the_nodes_in_its_aggregates(client, clock):
    question = f"/allocation_candidates?member_of=in%3Ax%2Cy&{WIDE_QUERY}"
    client.bodies[question] = {"allocation_requests": [], "provider_summaries": {"a": NODES["a"]}}
    mirror = CandidateMirror(alone(client, clock), lambda: INTERVAL, clock, lambda: frozenset({"y", "x"}))
    mirror.refresh()
    assert client.asked == [SHARERS, question]
    assert found(mirror) == ["a"]


def found(mirror):
    answer = mirror.find([QUERY])
    return None if answer is None else [answer.snapshot.uuids[row] for row in answer.rows]


def refuse(mirror, provider="a", name="MEMORY_MB", **amounts):
    refusal = SimpleNamespace(refused_provider=provider, refused_class=name)
    mirror.refused(refusal, make_candidate("a", **(amounts or {"MEMORY_MB": 1024})))


def test_before_the_first_refresh_placement_is_asked(client, clock):
    assert found(CandidateMirror(alone(client, clock), lambda: INTERVAL, clock)) is None


@pytest.mark.parametrize("answers", [True, False], ids=["complete", "failed"])
def test_a_start_waits_for_the_first_refresh_and_no_longer_if_it_fails(client, clock, answers):
    get, may_answer = client.get, threading.Event()
    client.get = lambda *asked, **how: may_answer.wait(10) and get(*asked, **how)
    if not answers:
        client.bodies[WIDE] = PlacementUnreachable("down")
    mirror = CandidateMirror(alone(client, clock), lambda: INTERVAL, clock)
    mirror.start()
    mirror.wait_until_tried(0.01)
    assert found(mirror) is None
    may_answer.set()
    mirror.wait_until_tried(10)
    mirror.stop()
    assert (found(mirror) is not None) is answers


def test_who_does_not_refresh_waits_for_nothing(client, clock):
    CandidateMirror(alone(client, clock), lambda: INTERVAL, clock).wait_until_tried(math.inf)


def test_queries_are_answered_without_a_get(mirror, client):
    assert found(mirror) == ["a", "b"]
    assert client.asked == []


def test_two_queries_of_one_request_go_to_placement(mirror):
    assert mirror.find([QUERY, QUERY]) is None


@pytest.mark.parametrize(("age", "answers"), [(3 * INTERVAL, True), (3 * INTERVAL + 1, False)], ids=str)
def test_a_mirror_that_could_not_be_refreshed_for_long_answers_nothing(mirror, clock, age, answers):
    clock.now += age
    assert (found(mirror) is not None) is answers


def test_a_round_refreshes_when_the_interval_is_over(mirror, client, clock):
    clock.now += INTERVAL
    assert mirror.run_round() == INTERVAL
    assert client.asked == [SHARERS, WIDE]


def test_a_round_before_that_asks_nothing(mirror, client, clock):
    clock.now += 20
    assert mirror.run_round() == INTERVAL - 20
    assert client.asked == []


def test_a_mirror_that_nobody_asks_rests_and_the_next_query_goes_to_placement(mirror, client, clock):
    for _ in range(RESTING_INTERVALS - 1):
        clock.now += INTERVAL
        assert mirror.run_round() == INTERVAL
        assert client.asked == [SHARERS, WIDE]
        client.asked.clear()
    clock.now += INTERVAL
    assert mirror.run_round() == (RESTING_INTERVALS - 1) * INTERVAL
    mirror.nodes_changed(["a"])
    mirror.run_round()
    assert client.asked == []
    assert [found(mirror), found(mirror)] == [None, None]
    client.bodies[WIDE] = PlacementUnreachable("down")
    mirror.run_round()
    assert found(mirror) is None
    client.bodies[WIDE] = {"allocation_requests": [], "provider_summaries": NODES}
    assert mirror.run_round() == INTERVAL
    assert found(mirror) == ["a", "b"]


def test_a_mirror_that_rests_is_refreshed_now_and_then(mirror, client, clock):
    for _ in range(RESTING_INTERVALS):
        clock.now += INTERVAL
        mirror.run_round()
    client.asked.clear()
    for _ in range(RESTING_INTERVALS - 1):
        clock.now += INTERVAL
        mirror.run_round()
    assert client.asked == [SHARERS, WIDE]
    assert found(mirror) == ["a", "b"]


def test_nodes_that_lost_instances_are_read_again(mirror, client):
    mirror.claimed(allocation("b", MEMORY_MB=1024))
    assert found(mirror) == ["a"]
    client.bodies["/resource_providers/b/usages"] = {"usages": {"MEMORY_MB": 0}}
    mirror.nodes_changed(["b"])
    mirror.run_round()
    assert client.asked == ["/resource_providers/b/usages"]
    assert found(mirror) == ["a", "b"]


def test_many_changed_nodes_are_read_at_once(mirror, client, clock):
    mirror.nodes_changed([str(number) for number in range(101)])
    clock.now += 0.1
    mirror.run_round()
    assert client.asked == [SHARERS, WIDE]


def test_a_refused_claim_is_not_offered_again_and_its_node_is_read(mirror, client):
    client.bodies["/resource_providers/a/usages"] = {"usages": {"MEMORY_MB": 4096}}
    refuse(mirror)
    assert found(mirror) == ["b"]
    mirror.run_round()
    assert client.asked == ["/resource_providers/a/usages"]


def test_a_missing_provider_is_not_offered_again(mirror, client):
    refuse(mirror, name="")
    mirror.run_round()
    assert found(mirror) == ["b"]
    assert client.asked == []


def test_a_refusal_that_names_no_provider_only_counts(mirror):
    refuse(mirror, provider="", name="")
    assert found(mirror) == ["a", "b"]


def test_claims_and_releases_count(mirror):
    mirror.claimed(allocation("b", MEMORY_MB=1024))
    assert found(mirror) == ["a"]
    mirror.released(allocation("b", MEMORY_MB=1024))
    assert found(mirror) == ["a", "b"]


def test_many_refusals_halve_the_interval_and_few_double_it_again(mirror, clock):
    mirror.claimed({})
    refuse(mirror, provider="")
    clock.now += INTERVAL
    assert mirror.run_round() == INTERVAL / 2
    mirror.claimed({})
    clock.now += INTERVAL / 2
    assert mirror.run_round() == INTERVAL


def test_a_storm_of_refusals_sends_queries_to_placement_until_the_next_refresh(mirror, clock, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(STORM_CLAIMS):
            refuse(mirror, provider="")
    assert found(mirror) is None
    assert f"Placement refused {STORM_CLAIMS} of the last {STORM_CLAIMS} claims" in caplog.text
    clock.now += INTERVAL
    mirror.run_round()
    assert found(mirror) == ["a", "b"]


def test_after_a_storm_of_refusals_the_mirror_is_refreshed_at_once(mirror, client, clock):
    clock.now += 1
    for _ in range(STORM_CLAIMS):
        refuse(mirror, provider="")
    clock.now += 1
    mirror.run_round()
    assert client.asked == [SHARERS, WIDE]
    assert found(mirror) == ["a", "b"]


def test_a_refresh_amid_a_storm_of_refusals_is_followed_by_another_one(mirror, client, clock):
    get, storms = client.get, iter([STORM_CLAIMS])

    def get_amid_storm(path, *asked, **how):
        for _ in range(next(storms, 0) if path == WIDE else 0):
            clock.now += 0.01
            refuse(mirror, provider="")
        return get(path, *asked, **how)

    client.get = get_amid_storm
    clock.now += INTERVAL
    mirror.run_round()
    assert found(mirror) is None
    mirror.run_round()
    assert found(mirror) == ["a", "b"]


AMOUNTS = {"total": 9, "reserved": 1, "allocation_ratio": 1.0}


def test_a_provider_that_shares_a_mirrored_class_sends_queries_to_placement(mirror, client, caplog):
    client.bodies[SHARERS] = {"resource_providers": [{"uuid": "s", "root_provider_uuid": "s"}]}
    client.bodies["/resource_providers/s/inventories"] = {"inventories": {"DISK_GB": AMOUNTS}}
    with caplog.at_level(logging.WARNING):
        mirror.refresh()
        mirror.refresh()
    assert found(mirror) is None
    assert caplog.text.count("shares a mirrored resource class") == 1


def test_a_provider_that_shares_other_classes_does_not_matter(mirror, client):
    client.bodies[SHARERS] = {"resource_providers": [{"uuid": "s", "root_provider_uuid": "s"}]}
    client.bodies["/resource_providers/s/inventories"] = {"inventories": {"IPV4_ADDRESS": AMOUNTS}}
    mirror.refresh()
    assert found(mirror) == ["a", "b"]


@pytest.mark.parametrize(
    "body", [PlacementUnreachable("away"), {"provider_summaries": {"a": {}}}], ids=["away", "unreadable"]
)
def test_a_failed_refresh_keeps_the_last_snapshot_and_is_tried_again_soon(
    mirror, client, clock, caplog, body
):
    client.bodies[WIDE] = body
    clock.now += INTERVAL
    with caplog.at_level(logging.ERROR):
        assert mirror.run_round() == MIN_INTERVAL
    assert found(mirror) == ["a", "b"]
    assert "The mirror of Placement cannot be refreshed" in caplog.text


@pytest.mark.parametrize(("mode", "kind"), [("fresh", NoMirror), ("mirror", CandidateMirror)], ids=str)
def test_the_option_selects_the_mirror(client, mode, kind):
    conf = SimpleNamespace(
        berth=SimpleNamespace(candidates=mode, mirror_interval=INTERVAL),
        scheduler=SimpleNamespace(driver="filter_scheduler"),
    )
    assert type(make_mirror(conf, client, SharedAnswers())) is kind


def test_without_a_mirror_placement_is_asked():
    assert NoMirror().find([QUERY]) is None


# -- workers that share answers ------------------------------------------------------------------------------


@pytest.fixture
def workers(client, clock, tmp_path):
    """Two that share what Placement answers; the first has refreshed its mirror."""
    both = [
        CandidateMirror(Questions(client, SharedAnswers(tmp_path, clock)), lambda: INTERVAL, clock)
        for _ in range(2)
    ]
    both[0].run_round()
    assert client.asked == [SHARERS, WIDE]
    client.asked.clear()
    return both


@pytest.mark.parametrize(("later", "questions"), [(INTERVAL / 2, []), (INTERVAL / 2 + 1, [SHARERS, WIDE])])
def test_a_worker_takes_an_answer_that_is_not_too_old(workers, client, clock, later, questions):
    clock.now += later
    wait = workers[1].run_round()
    assert client.asked == questions
    assert found(workers[1]) == ["a", "b"]
    assert workers[1].age() == (0 if questions else later)
    assert wait == INTERVAL - workers[1].age()


def test_workers_come_into_step_and_ask_once_in_an_interval_for_all(workers, client, clock):
    due = [clock.now + INTERVAL, clock.now + 50]
    for _ in range(40):
        clock.now = min(due)
        turn = due.index(clock.now)
        workers[turn].find([QUERY])
        due[turn] = clock.now + workers[turn].run_round()
        assert workers[turn].age() <= INTERVAL / 2
    assert due[0] == due[1]
    assert client.asked.count(WIDE) <= 22


def test_what_was_learnt_since_another_workers_question_is_added_to_its_answer(workers, client, clock):
    worker = workers[1]
    clock.now += 10
    worker.claimed(allocation("b", MEMORY_MB=1024))
    refuse(worker, name="MEMORY_MB", MEMORY_MB=512)
    client.bodies["/resource_providers/a/usages"] = {"usages": {"MEMORY_MB": 4096}}
    worker.run_round()
    assert client.asked == ["/resource_providers/a/usages"]  # which is younger than the answer
    assert found(worker) == []
    assert worker.age() == 10


def test_after_a_storm_of_refusals_an_older_answer_is_not_used(workers, client, clock):
    clock.now += 1
    for _ in range(STORM_CLAIMS):
        refuse(workers[1], provider="")
    clock.now += 1
    workers[1].run_round()
    assert client.asked == [SHARERS, WIDE]


def test_nodes_that_many_workers_find_changed_are_read_at_once_by_one_of_them(workers, client, clock):
    workers[1].run_round()
    clock.now += 1
    for worker in workers:
        worker.nodes_changed([str(number) for number in range(101)])
    clock.now += 1
    for worker in workers:
        worker.run_round()
    assert client.asked == [SHARERS, WIDE]


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "all at once"])
def test_nodes_that_could_not_be_read_again_are_read_in_the_next_round(mirror, client, clock, many):
    nodes = [f"n{number}" for number in range(MOST_REREAD + 1)] if many else ["b"]
    clock.now += 1
    body, client.bodies[WIDE] = client.bodies[WIDE], PlacementUnreachable("down")
    client.bodies["/resource_providers/b/usages"] = PlacementUnreachable("down")
    mirror.nodes_changed(nodes)
    mirror.run_round()
    nodes_now = NODES | {"b": provider("b", [], MEMORY_MB=(4096, 4096))}
    client.bodies[WIDE] = body | {"provider_summaries": nodes_now}
    client.bodies["/resource_providers/b/usages"] = {"usages": {"MEMORY_MB": 4096}}
    clock.now += 1
    mirror.run_round()
    assert found(mirror) == ["a"]
