"""When a cloud will be full, if the growth of the last 30 days continues."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
import math
from typing import Any

import numpy as np

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
    that of the mean itself.

    Args:
        changes: When instances were created (1) and deleted (-1).
        now: The time, as in ``changes``.

    Returns:
        ``per_day`` and ``deviation``; ``week``, the first day of the week in which the cloud is full,
        ``earliest`` and ``latest``, with a probability of 80 %; null beyond ten years.
    """
    days = np.zeros(DAYS)
    for moment, change in changes:
        ago = (now - moment).days
        if 0 <= ago < DAYS:
            days[ago] += change
    mean, deviation = float(days.mean()), float(days.std(ddof=1))
    return {
        "created": sum(change > 0 for _, change in changes),
        "deleted": sum(change < 0 for _, change in changes),
        "per_day": round(mean, 2),
        "deviation": round(deviation, 2),
        "week": _week(now, end(left, mean, deviation, 0.0)),
        "earliest": _week(now, end(left, mean, deviation, QUANTILE)),
        "latest": _week(now, end(left, mean, deviation, -QUANTILE)),
    }


def end(left: int, mean: float, deviation: float, quantile: float) -> float | None:
    """Return the days after which ``left`` instances have come; None if they never do.

    The growth of t days is ``t * mean + quantile * deviation * sqrt(t + t * t / DAYS)``.
    """

    def grown(days: float) -> float:
        return days * mean + quantile * deviation * math.sqrt(days + days * days / DAYS)

    steps = range(HORIZON * STEPS)
    found = bisect_left(steps, float(left), key=lambda step: grown(step / STEPS))
    return found / STEPS if found < len(steps) else None


def _week(now: datetime, days: float | None) -> str | None:
    if days is None:
        return None
    day = (now + timedelta(days=days)).date()
    return (day - timedelta(days=day.weekday())).isoformat()
