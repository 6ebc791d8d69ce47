"""Measure the CPU time of calls; print measurements, store them as JSON lines, compare them with another run.

The best of a few runs counts, on which other programs have little effect.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
import time
from typing import Any, NamedTuple

import orjson

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


Measurements = Iterable[Measurement]


def write(path: Path, found: Measurements) -> None:
    """Write one JSON object per line."""
    path.write_bytes(b"".join(orjson.dumps(one._asdict()) + b"\n" for one in found))


def read(path: Path) -> list[Measurement]:
    """Read a file that ``write`` wrote."""
    return [Measurement(**orjson.loads(line)) for line in path.read_bytes().splitlines()]


def show(found: Measurements) -> None:
    """Print a table for each case: one line per name, one column per number of hosts."""
    _tables(found, "milliseconds", "{:.3f}")


def compare(found: Measurements, earlier: Measurements) -> None:
    """Print the same tables with the ratio to an earlier run: less than 1 is faster now."""
    before = {one.subject: one.milliseconds for one in earlier}
    ratios = [
        one._replace(milliseconds=one.milliseconds / before[one.subject])
        for one in found
        if before.get(one.subject)
    ]
    _tables(ratios, "time now / time then", "{:.2f}")


def _tables(found: Measurements, unit: str, form: str) -> None:
    cases: dict[tuple[str, str], list[Measurement]] = {}
    for one in found:
        cases.setdefault((one.benchmark, one.case), []).append(one)
    for (benchmark, case), members in cases.items():
        print(f"\n{benchmark}: {case} ({unit})" if case else f"\n{benchmark} ({unit})")
        _table(members, form)


def _table(members: list[Measurement], form: str) -> None:
    cells = {(one.name, one.hosts): form.format(one.milliseconds) for one in members}
    sizes = sorted({one.hosts for one in members})
    names = list(dict.fromkeys(one.name for one in members))
    width = max(map(len, names))
    if sizes != [0]:
        print(" " * width, *(f"{size:>10}" for size in sizes))
    for name in names:
        print(name.ljust(width), *(f"{cells.get((name, size), ''):>10}" for size in sizes))
