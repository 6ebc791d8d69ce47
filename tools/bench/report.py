"""Print measurements as tables, store them as JSON lines, and compare them with another run."""

from collections.abc import Iterable
from pathlib import Path

import orjson

from tools.bench.timing import Measurement

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
