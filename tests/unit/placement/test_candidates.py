"""nova's own question: when it is sent, and who shares its answer."""

from concurrent.futures import ThreadPoolExecutor
import threading

import pytest

from scheduler.placement.candidates import CandidateSource
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable
from scheduler.request.query import Query
from tests.support.placement import Placement, Provider
from tests.support.waiting import eventually

QUERY = Query((("resources", "VCPU:1"),), "resources=VCPU%3A1", None)
PATH = f"/allocation_candidates?{QUERY.querystring}"


@pytest.fixture
def may_answer():
    """Placement answers once this is set."""
    return threading.Event()


@pytest.fixture
def placement(may_answer):
    placement = Placement(Provider("a", {"VCPU": {"total": 1}, "PCPU": {"total": 1}}))
    placement.before = lambda _path: may_answer.wait(30)
    return placement


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_equal_queries_that_wait_share_one_question(placement, may_answer, pool):
    began = []
    source = CandidateSource(placement, lambda: began.append(len(placement.asked)))
    calls = source._calls
    first = pool.submit(source.fetch, [QUERY], None)
    assert eventually(lambda: placement.asked)
    others = [pool.submit(source.fetch, [QUERY], None) for _ in range(3)]
    assert eventually(lambda: calls.waiting(QUERY.querystring) == 3)
    may_answer.set()
    assert (list(first.result(30).by_root), first.result(30).requests) == (["a"], 1)
    assert [other.result(30).requests for other in others] == [3, 3, 3]
    assert placement.asked == [PATH] * 2
    assert began == [0, 1]


@pytest.mark.parametrize("error", [PlacementUnreachable("down"), PlacementUnanswered("reset")])
def test_without_an_answer_the_hosts_are_unknown(placement, may_answer, error):
    may_answer.set()
    placement.failures[PATH] = error
    found = CandidateSource(placement).fetch([QUERY], None)
    assert (found.failed, found.reason) == (True, f"Placement does not respond: {error}")


def test_the_candidates_of_a_fallback_query_come_last(placement, may_answer):
    may_answer.set()
    source = CandidateSource(placement, clock=lambda: 7.0)
    pinned = Query((("resources", "PCPU:1"),), "resources=PCPU%3A1", None)
    found = source.fetch([pinned, QUERY], None)
    taken = [candidate.allocations["a"]["resources"] for candidate in found.by_root["a"]]
    assert (taken, found.sent_at) == ([{"PCPU": 1}, {"VCPU": 1}], 7.0)
