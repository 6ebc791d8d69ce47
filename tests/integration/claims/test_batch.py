from concurrent.futures import ThreadPoolExecutor
import uuid

import pytest

from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.outcomes import Outcome
from tests.integration.placement_fixtures import request_for

POST = ("POST", "/allocations")


@pytest.fixture
def claim(claimer):
    def claim(*candidates):
        plan = {str(uuid.uuid4()): candidate for candidate in candidates}
        return plan, claimer.claim([request_for(uuid_, candidate) for uuid_, candidate in plan.items()])

    return claim


def holds_its_own(cloud, plan, results):
    for one, result in results.items():
        expected = plan[one].allocations if result.done else {}
        assert cloud.held(one).allocations == expected
    return [result.outcome for result in results.values()]


def test_the_one_too_many_is_left_out(claim, candidates, cloud, proxy):
    first, second = candidates
    plan, results = claim(first, first, first, second)
    assert sorted(outcome.name for outcome in holds_its_own(cloud, plan, results)) == ["DONE"] * 3 + [
        "REFUSED"
    ]
    assert proxy.count(*POST) == 2


def test_missing_provider(claim, candidates, cloud, proxy):
    first, second = candidates
    cloud.delete(first.root)
    plan, results = claim(first, second, second)
    assert sorted(outcome.name for outcome in holds_its_own(cloud, plan, results)) == [
        "DONE",
        "DONE",
        "GONE",
    ]
    assert proxy.count(*POST) == 2


def test_two_requests_for_the_same_hosts(claim, candidates, cloud):
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: claim(*candidates, *candidates), range(2)))
    assert sum(result.done for _, results in both for result in results.values()) == 4
    for plan, results in both:
        holds_its_own(cloud, plan, results)
    assert [cloud.used(candidate.root)["VCPU"] for candidate in candidates] == [4, 4]


def test_a_refusal_that_names_no_provider(claim, candidates, cloud):
    ghost = AllocationCandidate.of("x", ("x",), {str(uuid.uuid4()): {"resources": {"CUSTOM_NO_SUCH": 1}}}, {})
    plan, results = claim(ghost, candidates[0])
    assert holds_its_own(cloud, plan, results).count(Outcome.DONE) == 1
