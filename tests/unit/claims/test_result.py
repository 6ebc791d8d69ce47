import pytest

from scheduler.placement.allocations import ConsumerAllocations
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite, own_write_in
from tests.unit.claims.builders import OWNER, A, B, candidate


def test_outcomes_fall_into_three_kinds():
    results = [ClaimResult(outcome) for outcome in Outcome]
    assert [result.outcome.name for result in results if result.claimed] == ["CLAIMED"]
    assert [result.outcome.name for result in results if result.try_next] == ["REFUSED", "GONE", "CONTENDED"]


def write(where, generation):
    return OwnWrite(ConsumerAllocations(candidate(where).allocations, generation, OWNER))


@pytest.mark.parametrize(
    ("writes", "where", "generation", "ours"),
    [
        ([write(A, 1)], A, 1, True),
        ([write(A, 1)], A, 2, False),
        ([write(A, 1)], B, 1, False),
        ([write(A, 1), write(A, 1)], A, 2, True),
        ([write(A, 1), write(A, 1)], A, 3, False),
        ([write(A, 1), write(B, 1)], B, 2, True),
        ([write(A, 3), write(A, 3)], A, 2, False),
        ([write(A, 1), write(A, 2)], A, 3, False),
        ([write(A, 1), write(A, 1), write(A, 2)], A, 3, True),
        ([write(A, 1), write(A, 2), write(A, 2), write(A, 2)], A, 4, False),
        ([write(A, 3), write(A, 3)], A, 4, False),
        ([], A, 1, False),
    ],
    ids=[
        "the one write",
        "written once more by another",
        "something else",
        "both of two writes",
        "more than two writes",
        "two writes on different hosts",
        "before our writes",
        "written once more by another after a write and its repetition",
        "two writes that overlapped, and a third one",
        "written once more by another after several tries of a repetition",
        "several tries for a consumer that exists",
        "no write",
    ],
)
def test_a_consumer_holds_ours_if_its_generation_is_within_the_number_of_our_writes(
    writes, where, generation, ours
):
    current = ConsumerAllocations(candidate(where).allocations, generation, OWNER)
    assert (own_write_in(writes, current) is not None) == ours
