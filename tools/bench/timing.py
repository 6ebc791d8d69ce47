"""Measure the CPU time of a call: the best of a few runs, on which other programs have little effect."""

from collections.abc import Callable
import time
from typing import Any, NamedTuple

RUNS = 5


class Measurement(NamedTuple):
    """The time of ``name`` in a ``case`` of a ``benchmark``, with ``hosts`` candidate hosts."""

    benchmark: str
    case: str
    name: str
    hosts: int
    milliseconds: float

    @property
    def subject(self) -> tuple:
        """All fields except the time; they are the same in another run."""
        return self[:-1]


def best(work: Callable[..., Any], prepare: Callable[[], Any] | None = None, runs: int = RUNS) -> float:
    """Return the milliseconds of CPU time of the fastest of ``runs`` calls in this thread.

    Before each call ``prepare``, which is not measured, makes its argument.
    """
    times = []
    for _ in range(runs):
        arguments = (prepare(),) if prepare else ()
        started = time.thread_time()
        work(*arguments)
        times.append(time.thread_time() - started)
    return min(times) * 1000
