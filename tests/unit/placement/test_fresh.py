"""Which questions are sent for which queries; that their answers are right is tested against a real Placement."""

from concurrent.futures import ThreadPoolExecutor
import random
import threading
import time
from urllib.parse import urlencode

import orjson
import pytest

from scheduler.placement.answer import Candidates
from scheduler.placement.candidates import FetchCandidates
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.fresh import FreshCandidates
from scheduler.placement.provider_trees import EXAMINED_AT_ONCE, RETRY
from scheduler.placement.questions import Questions
from scheduler.placement.reply import Reply
from scheduler.request.query import Query
from scheduler.shared_answers import SharedAnswers

AMOUNTS = "MEMORY_MB:1024,VCPU:1"
EVERYTHING = "/resource_providers"
SHARING = "/resource_providers?required=MISC_SHARES_VIA_AGGREGATE"
NODES = ("a", "b", "c")


def query(*pairs, limit=None):
    pairs = (("resources", AMOUNTS), *pairs)
    return Query(pairs, urlencode(pairs), limit)


def list_path(*pairs):
    return f"/resource_providers?{urlencode(sorted((*pairs, ('resources', AMOUNTS))))}"


class Placement:
    """Flat compute nodes, some of them in zones; notes what is asked for."""

    def __init__(self):
        self.asked = []
        self.answers = {}
        self.zones = {}
        self.nodes = NODES
        self.wait_for = None
        self.delay = 0

    def get(self, path, version, context=None, *, search=False):
        self.asked.append(path)
        if self.wait_for and "resources=" in path:
            assert self.wait_for.wait(30)
        found = self.answers.get(path)
        if isinstance(found, Exception):
            raise found
        answer = candidates(self.nodes) if path.startswith("/allocation") else self.listed(path)
        time.sleep(self.delay)
        return found or Reply(200, answer)

    def listed(self, path):
        found = () if path == SHARING else self.nodes
        for zone, members in self.zones.items():
            if f"in%3A{zone}" in path:
                found = [node for node in found if node in members]
        return body(*((node, node, 0) for node in found))

    def in_full(self, query, context, not_before, sending):
        sending(time.monotonic())
        self.asked.append(f"full {query.querystring}")
        return Candidates({"full": ()})


def body(*providers):
    names = ("uuid", "root_provider_uuid", "generation")
    return orjson.dumps({"resource_providers": [dict(zip(names, each, strict=True)) for each in providers]})


def candidates(nodes):
    requests = [
        {"allocations": {node: {"resources": {"VCPU": 1}}}, "mappings": {"": [node]}} for node in nodes
    ]
    summaries = {node: {"resources": {}, "traits": [], "root_provider_uuid": node} for node in nodes}
    return orjson.dumps({"allocation_requests": requests, "provider_summaries": summaries})


@pytest.fixture
def placement():
    return Placement()


@pytest.fixture
def source(placement):
    return FreshCandidates(Questions(placement, SharedAnswers()), placement.in_full, at_once=1)


def full(query):
    return f"full {query.querystring}"


def test_a_plain_query_is_answered_by_a_list_that_no_limit_cuts(placement, source):
    pairs = ("root_required", "HW_B,!HW_C"), ("required", "HW_A"), ("member_of", "in:z"), ("limit", "1")
    found = source(query(*pairs, limit=1), None)
    assert (list(found.by_root), found.truncated) == (["a", "b", "c"], False)
    (candidate,) = found.by_root["b"]
    assert candidate.allocations == {"b": {"resources": {"MEMORY_MB": 1024, "VCPU": 1}}}
    assert (candidate.roots, candidate.mappings) == (("b",), {"": ["b"]})
    expected = list_path(("required", "HW_A,HW_B,!HW_C"), ("member_of", "in:z"))
    assert placement.asked == [EVERYTHING, SHARING, expected]


@pytest.mark.parametrize("pair", [("limit", "1"), ("in_tree", "a")], ids=["list", "candidates"])
def test_a_batch_of_queries_is_announced_before_its_questions_are_sent(placement, pair):
    announced = []
    source = FreshCandidates(
        Questions(placement, SharedAnswers()),
        placement.in_full,
        before_question=lambda: announced.append(len(placement.asked)),
    )
    source(query(pair), None)
    assert announced == [len(placement.asked) - 1]


NOT_PLAIN = {
    "one tree": ("in_tree", "a"),
    "a device": ("resources1", "VGPU:1"),
    "another class": ("resources", "MEMORY_MB:1,CUSTOM_X:1"),
}


@pytest.mark.parametrize("pair", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_other_queries_ask_for_allocation_candidates(placement, source, pair):
    asked = query(pair)
    assert list(source(asked, None).by_root) == ["full"]
    assert placement.asked == [full(asked)]


def test_an_empty_list_is_followed_by_the_question_for_allocation_candidates(placement, source):
    placement.nodes = ()
    asked = query()
    assert list(source(asked, None).by_root) == ["full"]
    assert placement.asked[-2:] == [list_path(), full(asked)]


def test_a_refused_list_is_followed_by_the_question_for_allocation_candidates(placement, source):
    placement.answers[list_path()] = Reply(400, b"{}")
    assert list(source(query(), None).by_root) == ["full"]


def test_no_response_is_a_failure_that_is_not_asked_for_again(placement, source):
    placement.answers[list_path()] = PlacementUnreachable("gone")
    found = source(query(), None)
    assert (found.failed, dict(found.by_root)) == (True, {})
    assert "gone" in found.reason
    assert placement.asked[-1] == list_path()


INVENTORIES = "/resource_providers/{}/inventories"
DISK = Reply(200, b'{"inventories": {"DISK_GB": {"total": 9, "reserved": 1, "allocation_ratio": 1.0}}}')


@pytest.mark.parametrize(("resource", "in_full"), [("DISK_GB", True), ("VCPU", False)])
@pytest.mark.parametrize("kind", ["child", "sharing provider"])
def test_classes_that_others_provide_too_are_asked_for_in_full(placement, source, kind, resource, in_full):
    other = body(("x", "a" if kind == "child" else "x", 1))
    placement.answers[EVERYTHING if kind == "child" else SHARING] = Reply(200, other)
    placement.answers[INVENTORIES.format("x")] = DISK
    pairs = (("resources", f"MEMORY_MB:1,{resource}:1"),)
    found = source(Query(pairs, urlencode(pairs), None), None)
    assert (list(found.by_root) == ["full"]) is in_full


def test_trees_that_cannot_be_examined_are_asked_for_in_full(placement, source, caplog):
    placement.answers[EVERYTHING] = Reply(503, b"busy")
    assert list(source(query(), None).by_root) == ["full"]
    assert "could not be examined" in caplog.text


@pytest.mark.parametrize("path", [EVERYTHING, SHARING])
def test_trees_that_could_not_be_examined_are_examined_again_soon(placement, path):
    now = [0.0]
    questions = Questions(placement, SharedAnswers(clock=lambda: now[0]))
    source = FreshCandidates(questions, placement.in_full, clock=lambda: now[0])
    placement.answers[path] = Reply(503, b"busy")
    assert list(source(query(), None).by_root) == ["full"]
    del placement.answers[path]
    now[0] = RETRY
    assert list(source(query(), None).by_root) == list(NODES)


def test_trees_are_examined_once_a_minute_and_unchanged_children_are_not_read_again(placement):
    now = [0.0]
    questions = Questions(placement, SharedAnswers(clock=lambda: now[0]))
    source = FreshCandidates(questions, placement.in_full, clock=lambda: now[0])
    placement.answers[EVERYTHING] = Reply(200, body(("a", "a", 1), ("x", "a", 1)))
    placement.answers[INVENTORIES.format("x")] = Reply(200, b'{"inventories": {}}')
    for moment, times in ((0.0, 1), (59.0, 1), (61.0, 2)):
        now[0] = moment
        source(query(), None)
        assert placement.asked.count(EVERYTHING) == times, moment
    assert placement.asked.count(INVENTORIES.format("x")) == 1


def test_an_examination_that_takes_long_is_continued_later(placement):
    """The children of full compute nodes are read one by one."""
    now = [0.0]

    class SlowPlacement(Placement):
        def get(self, path, *asked, **how):
            now[0] += 0.1
            return super().get(path, *asked, **how)

    placement = SlowPlacement()
    children = [f"x{number}" for number in range(200)]
    placement.answers[EVERYTHING] = Reply(200, body(*((each, "a", 1) for each in children)))
    placement.answers |= {INVENTORIES.format(each): Reply(200, b'{"inventories": {}}') for each in children}
    questions = Questions(placement, SharedAnswers(clock=lambda: now[0]))
    source = FreshCandidates(questions, placement.in_full, clock=lambda: now[0])
    answers = []
    while answers[-1:] != [list(NODES)]:
        begun = now[0]
        answers.append(list(source(query(), None).by_root))
        assert now[0] - begun < EXAMINED_AT_ONCE + 1.0
        now[0] += RETRY
    assert answers[:-1] == [["full"]] * 3
    assert [placement.asked.count(INVENTORIES.format(each)) for each in children] == [1] * 200


def ask_together(placement, source, queries):
    """Ask all at once while another question is in flight; return the hosts of the answers in order."""
    return [list(answer.by_root) for answer in answers_together(placement, source, queries)]


def answers_together(placement, source, queries):
    """Ask all at once while another question is in flight; return the answers in order."""
    source(query(), None)
    placement.wait_for = threading.Event()
    with ThreadPoolExecutor(len(queries) + 1) as pool:
        first = pool.submit(source, query(("required", "HW_FIRST")), None)
        wait_until(lambda: any("HW_FIRST" in path for path in placement.asked))
        del placement.asked[:]
        answers = [pool.submit(source, each, None) for each in queries]
        time.sleep(0.2)
        placement.wait_for.set()
        first.result(30)
        return [answer.result(30) for answer in answers]


def wait_until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def zone(name):
    return query(("member_of", f"in:{name}"))


def test_queries_that_wait_share_one_list_that_is_cut_by_zone(placement, source):
    placement.nodes = tuple(f"n{number}" for number in range(40))
    placement.zones = {"y": placement.nodes[:2], "z": placement.nodes[1:3]}
    asked = [zone("y"), query(), zone("z"), zone("y"), query(("member_of", "!in:z"))]
    answers = ask_together(placement, source, asked)
    everywhere = list(placement.nodes)
    outside = [node for node in everywhere if node not in placement.zones["z"]]
    assert answers == [["n0", "n1"], everywhere, ["n1", "n2"], ["n0", "n1"], outside]
    members = [f"/resource_providers?member_of=in%3A{name}" for name in "yz"]
    assert sorted(placement.asked) == sorted([list_path(), *members])


def test_an_answer_tells_how_many_requests_it_is_for(placement, source):
    assert [each.requests for each in answers_together(placement, source, [query()] * 3)] == [3, 3, 3]
    assert source(query(), None).requests == 1


def test_one_zone_alone_is_part_of_the_question(placement, source):
    placement.zones = {"y": ("b",)}
    assert ask_together(placement, source, [zone("y")] * 3) == [["b"]] * 3
    assert placement.asked == [list_path(("member_of", "in:y"))]


def test_usage_is_read_when_it_is_needed_and_once(placement, source):
    placement.answers[INVENTORIES.format("a")] = DISK
    placement.answers["/resource_providers/a/usages"] = Reply(200, b'{"usages": {"DISK_GB": 3}}')
    found = source(query(), None)
    before = len(placement.asked)
    for _ in range(2):
        assert (found.usage("a")["DISK_GB"].capacity, found.usage("a")["DISK_GB"].used) == (8, 3)
    assert placement.asked[before:] == [INVENTORIES.format("a"), "/resource_providers/a/usages"]


def test_usage_that_cannot_be_read_is_unknown(placement, source):
    placement.answers[INVENTORIES.format("a")] = PlacementUnreachable("gone")
    assert source(query(), None).usage("a") == {}


# -- workers that share answers ------------------------------------------------------------------------------


@pytest.fixture
def workers(placement, tmp_path):
    """Two that share what Placement answers."""
    both = [Questions(placement, SharedAnswers(tmp_path), 2) for _ in range(2)]
    return [FreshCandidates(questions, FetchCandidates(questions), 2) for questions in both]


@pytest.mark.parametrize("pair", [("limit", "1"), ("in_tree", "a")], ids=["list", "candidates"])
def test_what_one_worker_asks_is_for_all_who_came_before_in_whatever_worker(placement, workers, pair):
    for each in workers:
        each(query(), None)
    asked = query(pair)
    placement.wait_for = threading.Event()
    del placement.asked[:]
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(workers[0], asked, None)
        wait_until(lambda: placement.asked)
        del placement.asked[:]
        others = [pool.submit(workers[number % 2], asked, None) for number in range(10)]
        time.sleep(0.1)
        placement.wait_for.set()
        sent = {other.result(30).sent_at for other in others}
        assert max(sent) > first.result(30).sent_at
    # one question for all of them, or two if a request came late
    assert len(placement.asked) <= 2
    assert len(set(placement.asked)) == 1


def test_no_request_gets_an_answer_to_a_question_that_was_sent_before_it_came(placement, workers):
    """Hosts go, one with each request; with several conditions, so that lists are shared in all ways."""
    placement.nodes = tuple(f"n{number}" for number in range(200))
    placement.zones = dict.fromkeys("xyz", placement.nodes)
    placement.delay = 0.003
    queries = [query(), *(zone(name) for name in "xyz"), query(("in_tree", "a"))]
    lock = threading.Lock()

    def ask_often(seed):
        rng, found = random.Random(seed), []
        for _ in range(12):
            with lock:
                gone, placement.nodes = placement.nodes[0], placement.nodes[1:]
            answer = workers[seed % 2](rng.choice(queries), None)
            found.append(gone in answer.by_root)
            time.sleep(rng.random() / 300)
        return found

    with ThreadPoolExecutor(8) as pool:
        outdated = [each for found in pool.map(ask_often, range(8)) for each in found]
    assert len(outdated) == 96
    assert not any(outdated)
    assert len(placement.asked) < 96


def test_trees_are_examined_by_one_worker_for_all(placement, workers):
    for each in workers:
        each(query(), None)
    assert [placement.asked.count(path) for path in (EVERYTHING, SHARING)] == [1, 1]


@pytest.mark.parametrize("failure", [PlacementUnreachable("gone"), Reply(503, b"busy")])
def test_a_failure_is_not_shared(placement, workers, failure):
    for each in workers:
        each(query(), None)
    in_full = f"/allocation_candidates?{query().querystring}"
    placement.answers = {list_path(): failure, in_full: failure}
    assert workers[0](query(), None).failed
    placement.answers = {}
    assert list(workers[1](query(), None).by_root) == list(NODES)
