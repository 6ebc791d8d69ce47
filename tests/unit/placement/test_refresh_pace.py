import pytest

from scheduler.placement.refresh_pace import (
    MIN_INTERVAL,
    REFUSED_MOSTLY,
    STORM_CLAIMS,
    ClaimCounts,
    RefreshPace,
)

INTERVAL = 60.0


@pytest.mark.parametrize(
    ("configured", "rounds", "expected"),
    [
        (INTERVAL, ["refused"], INTERVAL / 2),
        (INTERVAL, ["refused", "granted"], INTERVAL),
        (INTERVAL, ["refused", "nothing"], INTERVAL / 2),
        (INTERVAL, ["granted"] * 3, INTERVAL),
        (INTERVAL, ["refused"] * 10, MIN_INTERVAL),
        (2.0, ["refused"] * 10, 2.0),
    ],
)
def test_much_that_is_refused_halves_the_interval_and_little_doubles_it_again(configured, rounds, expected):
    pace = RefreshPace(lambda: configured)
    for claims in rounds:
        if claims != "nothing":
            pace.note_refused() if claims == "refused" else pace.note_granted()
        assert pace.has_claims is (claims != "nothing")
        pace.adapt()
        assert not pace.has_claims
    assert pace.interval() == expected


@pytest.mark.parametrize(
    ("refused", "total", "expected"),
    [
        (STORM_CLAIMS, STORM_CLAIMS, True),
        (STORM_CLAIMS - 1, STORM_CLAIMS - 1, False),
        (REFUSED_MOSTLY * STORM_CLAIMS, STORM_CLAIMS, False),
    ],
    ids=["most of many", "few", "some of many"],
)
def test_most_of_many_claims_refused_is_a_storm(refused, total, expected):
    assert ClaimCounts(refused, total).is_storm is expected
