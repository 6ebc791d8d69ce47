from datetime import datetime, timedelta
import math

import pytest

from scheduler.operators.plan.forecast import DAYS, end, forecast

NOW = datetime(2026, 11, 23, 12)


def steady(per_day):
    return [(NOW - timedelta(days=day, hours=13), 1) for day in range(DAYS) for _ in range(per_day)]


def test_steady_growth_ends_when_what_is_left_is_used_up():
    found = forecast(steady(2), 60, NOW)
    assert (found["per_day"], found["deviation"], found["created"]) == (2.0, 0.0, 60)
    assert found["week"] == found["earliest"] == found["latest"] == "2026-12-21"


def test_deletions_count():
    changes = [*steady(2), *((moment, -1) for moment, _ in steady(1))]
    found = forecast(changes, 60, NOW)
    assert (found["per_day"], found["created"], found["deleted"]) == (1.0, 60, 30)
    assert found["week"] == "2027-01-18"


def test_a_shrinking_cloud_has_no_end_but_perhaps():
    found = forecast([(moment, -1) for moment, _ in steady(1)], 10, NOW)
    assert (found["week"], found["latest"]) == (None, None)


def test_what_is_full_is_full_now():
    assert forecast([], 0, NOW)["week"] == "2026-11-23"


@pytest.mark.parametrize("quantile", [-1.0, 0.0, 1.0])
def test_the_end_is_where_growth_reaches_what_is_left(quantile):
    days = end(500, 3.0, 5.0, quantile)
    grown = 3.0 * days + quantile * 5.0 * math.sqrt(days + days * days / DAYS)
    assert grown == pytest.approx(500, abs=0.1)


def test_uneven_growth_has_a_wide_interval():
    changes = [(NOW - timedelta(days=day, hours=13), 1) for day in range(0, DAYS, 5) for _ in range(10)]
    found = forecast(changes, 100, NOW)
    assert found["earliest"] < found["week"]
    assert found["latest"] is None or found["latest"] > found["week"]


def test_the_answer_is_the_same_all_day():
    """Bursts at noon are in one day or another if days are counted back from the minute of the command."""
    changes = [
        (NOW - timedelta(days=day, hours=day % 24), 1) for day in range(1, DAYS) for _ in range(day % 7)
    ]
    midnight = NOW.replace(hour=0)
    found = [forecast(changes, 100, midnight + timedelta(hours=hour)) for hour in range(24)]
    assert all(one == found[0] for one in found)
    assert forecast([*changes, (NOW - timedelta(hours=1), 1)], 100, NOW) == found[0]


@pytest.mark.parametrize(
    ("left", "mean", "quantile", "expected"),
    [
        (0, 3.0, -1.0, 0.0),  # nothing is left, though fewer may come at first
        (5, -2.0, 1.3, 1.4),  # more may come in the first days before fewer are there
        (900, -2.0, 1.3, None),
    ],
)
def test_the_end_is_the_first_time_that_growth_reaches_what_is_left(left, mean, quantile, expected):
    days = end(left, mean, 5.0, quantile)
    assert days == (expected if expected is None else pytest.approx(expected, abs=0.2))
