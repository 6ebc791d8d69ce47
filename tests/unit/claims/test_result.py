from scheduler.claims.result import ClaimResult, Outcome


def test_outcomes_fall_into_three_kinds():
    results = [ClaimResult(outcome) for outcome in Outcome]
    assert [result.outcome.name for result in results if result.claimed] == ["CLAIMED"]
    assert [result.outcome.name for result in results if result.try_next] == ["REFUSED", "GONE", "CONTENDED"]
