"""When a cloud will be full, if the growth of the last 30 days continues."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

DAY = timedelta(days=1)

#: Days over which growth is measured.
DAYS = 30

#: The reported interval has a probability of 80 %.
QUANTILE = 1.2816

#: Days beyond which the end is not reported, and parts of a day that are distinguished.
HORIZON = 3650
STEPS = 100


def forecast(changes: Sequence[tuple[datetime, int]], left: int, now: datetime) -> dict[str, Any]:
    """Return when ``left`` more instances will have been created, if each day is like one of the last 30.

    The growth of a day has their mean and deviation. The interval covers the variance of the days to come and
    that of the mean itself. Days are whole days in UTC before today, so the answer is the same all day.

    Args:
        changes: When instances were created (1) and deleted (-1).
        now: The time, as in ``changes``.

    Returns:
        ``per_day`` and ``deviation``; ``week``, the first day of the week in which the cloud is full,
        ``earliest`` and ``latest``, with a probability of 80 %; null beyond ten years.
    """
    today, days = now.replace(hour=0, minute=0, second=0, microsecond=0), np.zeros(DAYS)
    counted = [(int((today - moment) / DAY), change) for moment, change in changes if moment < today]
    counted = [(ago, change) for ago, change in counted if ago < DAYS]
    for ago, change in counted:
        days[ago] += change
    mean, deviation = float(days.mean()), float(days.std(ddof=1))
    return {
        "created": sum(change > 0 for _, change in counted),
        "deleted": sum(change < 0 for _, change in counted),
        "per_day": round(mean, 2),
        "deviation": round(deviation, 2),
        "week": _week(today, end(left, mean, deviation, 0.0)),
        "earliest": _week(today, end(left, mean, deviation, QUANTILE)),
        "latest": _week(today, end(left, mean, deviation, -QUANTILE)),
    }


def end(left: int, mean: float, deviation: float, quantile: float) -> float | None:
    """Return the days after which ``left`` instances have come for the first time; None if they never do.

    The growth of t days is ``t * mean + quantile * deviation * sqrt(t + t * t / DAYS)``.
    """
    days = np.arange(HORIZON * STEPS) / STEPS
    grown = days * mean + quantile * deviation * np.sqrt(days + days * days / DAYS)
    reached = np.flatnonzero(grown >= left)
    return float(days[reached[0]]) if len(reached) else None


def _week(now: datetime, days: float | None) -> str | None:
    if days is None:
        return None
    day = (now + timedelta(days=days)).date()
    return (day - timedelta(days=day.weekday())).isoformat()
