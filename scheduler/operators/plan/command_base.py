"""What the commands of berth-plan have in common: reading the cloud, progress, and showing a plan."""

import argparse
from collections.abc import Callable, Iterator, Sequence
import contextlib
import difflib
import logging
import sys
import time
from typing import Any, TextIO

from scheduler import conf as options
from scheduler.decisions.document import time_text
from scheduler.errors import BerthError
from scheduler.operators.plan.shown import shown as plan_shown
from scheduler.operators.shown.command import ShownCommand
from scheduler.operators.shown.shown import Shown
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

#: Seconds between two states of the progress line, and the width of its bar.
INTERVAL, WIDTH = 0.1, 30

#: Loggers of decisions: a plan makes thousands of decisions, and shows why one fails.
QUIET = ("nova",)


class WrongArgument(BerthError):
    """An argument names something that does not exist, or contradicts another argument."""


class ProgressLine:
    """A progress bar on a terminal; nothing is shown elsewhere."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream if stream.isatty() else None
        self._clock = clock
        self._shown_at = float("-inf")

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._stream is None or self._clock() < self._shown_at + INTERVAL:
            return
        self._shown_at = self._clock()
        full = WIDTH * done // max(total, 1)
        bar = "█" * min(full, WIDTH) + "░" * max(WIDTH - full, 0)
        self._stream.write(f"\r\x1b[K{bar} {what} {done} of {total}")
        self._stream.flush()

    def clear(self) -> None:
        if self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class PlanCommand(ShownCommand):
    """The base of the commands. JSON and YAML have the whole plan, CSV has its last table."""

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> dict[str, Any]:
        """Return the plan; its ``all_placed`` is whether every instance finds a place."""
        raise NotImplementedError

    def show(self, args: argparse.Namespace) -> Shown:
        options.require_databases(self.conf)
        progress = ProgressLine(sys.stderr)
        try:
            with quiet(self.app.options.verbose_level < 2), snapshot.read(self.conf, progress) as read:
                plan = self.plan(PlannedCloud(read), args)
        finally:
            progress.clear()
        return plan_shown(plan, time_text(read.read_at))


@contextlib.contextmanager
def quiet(wanted: bool) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in QUIET if wanted]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def rows_of_hosts(cloud: PlannedCloud, args: argparse.Namespace) -> list[int]:
    """Return the rows of the hosts that arguments name: by host, aggregate, zone and cell together.

    Raises:
        WrongArgument: There is no such host, aggregate, zone or cell, or none is named.
    """
    table, names = cloud.snapshot.table, cloud.snapshot.cell_names()
    everywhere = range(len(table))
    zones: dict[str, list[int]] = {}
    cells: dict[str, list[int]] = {}
    for row in everywhere:
        zones.setdefault(cloud.snapshot.zone(row), []).append(row)
        for name in {names[table.rows[row].cell_uuid], table.rows[row].cell_uuid}:
            cells.setdefault(name, []).append(row)
    aggregates = {
        one.name: [row for host in one.hosts for row in table.rows_named.get(host, ())]
        for one in table.aggregates
    }
    found: set[int] = set()
    for what, wanted, known in (
        ("host", args.host, table.rows_named),
        ("aggregate", args.aggregate, aggregates),
        ("availability zone", args.zone, zones),
        ("cell", args.cell, cells),
    ):
        for name in wanted:
            if name not in known:
                raise WrongArgument(unknown(what, name, list(known)))
            found.update(map(int, known[name]))
    if not found:
        raise WrongArgument("No host is named: give hosts, or --aggregate, --zone or --cell with hosts")
    return sorted(found)


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """Return an error text with the most similar name."""
    near = difflib.get_close_matches(name, known, 1)
    return f"There is no {what} {name}" + (f"; did you mean {near[0]}?" if near else "")
