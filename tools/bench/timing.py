"""Timing a call: its own CPU time, the best of a few. Whoever else uses the machine matters little then."""

from collections.abc import Callable
import time
from typing import Any, NamedTuple

RUNS = 5


class Measurement(NamedTuple):
    """What was measured: ``name`` in a ``case`` of a ``benchmark``, over so many candidate hosts."""

    benchmark: str
    case: str
    name: str
    hosts: int
    milliseconds: float

    @property
    def subject(self) -> tuple:
        """Everything but the time: equal for the same measurement in another run."""
        return self[:-1]


def best(work: Callable[..., Any], prepare: Callable[[], Any] | None = None, runs: int = RUNS) -> float:
    """Milliseconds of CPU of the fastest of ``runs`` calls in this thread.

    Each call is given what ``prepare``, unmeasured, made for it.
    """
    times = []
    for _ in range(runs):
        arguments = (prepare(),) if prepare else ()
        started = time.thread_time()
        work(*arguments)
        times.append(time.thread_time() - started)
    return min(times) * 1000
