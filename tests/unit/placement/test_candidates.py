"""nova's own question: when it is sent, and who shares its answer."""

from concurrent.futures import ThreadPoolExecutor
import threading

import orjson
import pytest

from scheduler.placement.candidates import CandidateSource, FetchCandidates
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable
from scheduler.placement.reply import Reply
from scheduler.request.query import Query
from tests.support.waiting import eventually

QUERY = Query((("resources", "VCPU:1"),), "resources=VCPU%3A1", None)
ANSWER = {
    "allocation_requests": [{"allocations": {"a": {"resources": {"VCPU": 1}}}, "mappings": {"": ["a"]}}],
    "provider_summaries": {"a": {"resources": {}, "traits": [], "root_provider_uuid": "a"}},
}


class Placement:
    """Answers once it may."""

    def __init__(self):
        self.asked = []
        self.may_answer = threading.Event()
        self.answer = Reply(200, orjson.dumps(ANSWER))

    def get(self, path, version, context=None, *, search=False):
        self.asked.append(path)
        assert self.may_answer.wait(30)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def placement():
    return Placement()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_equal_queries_that_wait_share_one_question(placement, pool):
    began = []
    source = CandidateSource(FetchCandidates(placement), lambda: began.append(len(placement.asked)))
    calls = source._calls
    first = pool.submit(source.fetch, [QUERY], None)
    assert eventually(lambda: placement.asked)
    others = [pool.submit(source.fetch, [QUERY], None) for _ in range(3)]
    assert eventually(lambda: calls.waiting(QUERY.querystring) == 3)
    placement.may_answer.set()
    assert (list(first.result(30).by_root), first.result(30).requests) == (["a"], 1)
    assert [other.result(30).requests for other in others] == [3, 3, 3]
    assert placement.asked == [f"/allocation_candidates?{QUERY.querystring}"] * 2
    assert began == [0, 1]


@pytest.mark.parametrize("error", [PlacementUnreachable("down"), PlacementUnanswered("reset")])
def test_without_an_answer_the_hosts_are_unknown(placement, error):
    placement.may_answer.set()
    placement.answer = error
    found = CandidateSource(FetchCandidates(placement)).fetch([QUERY], None)
    assert (found.failed, found.reason) == (True, f"Placement does not respond: {error}")


def test_the_candidates_of_a_fallback_query_come_last(placement):
    placement.may_answer.set()
    source = CandidateSource(FetchCandidates(placement, lambda: 7.0))
    found = source.fetch([QUERY, QUERY], None)
    assert (len(found.by_root["a"]), found.sent_at) == (1, 7.0)
