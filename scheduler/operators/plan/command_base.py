"""What the commands of berth-plan have in common: reading the cloud, progress, and showing a plan."""

import argparse
from collections.abc import Callable, Iterator, Sequence
import contextlib
from datetime import UTC, datetime
import difflib
import logging
import sys
import time
from typing import Any, TextIO

from cliff.lister import Lister

from scheduler import conf as options
from scheduler.errors import BerthError
from scheduler.operators.command.arguments import add_html, writing
from scheduler.operators.explain.decision_commands import Question
from scheduler.operators.pages import files
from scheduler.operators.plan import page
from scheduler.operators.plan import text as plan_text
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

NO_PLACE = 3

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


class PlanCommand(Question):
    """The base of the commands. JSON and YAML have the whole plan, CSV has its last table."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = Lister.get_parser(self, prog_name)
        add_html(parser)
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> dict[str, Any]:
        """Return the plan; its ``all_placed`` is whether every instance finds a place."""
        raise NotImplementedError

    def run(self, parsed_args: argparse.Namespace) -> int:
        options.require_databases(self.conf)
        progress = ProgressLine(sys.stderr)
        try:
            with quiet(self.app.options.verbose_level < 2), snapshot.read(self.conf, progress) as read:
                made_at = datetime.fromtimestamp(read.read_at, UTC).isoformat(timespec="seconds")
                plan = self.plan(PlannedCloud(read), parsed_args) | {"made_at": made_at}
        finally:
            progress.clear()
        shown = plan_text.shown(plan)
        if parsed_args.html:
            with writing(f"Cannot write {parsed_args.html}"):
                files.write(parsed_args.html, page.render(plan, shown.head, shown.tables))
        self._print(shown, parsed_args)
        return 0 if plan["all_placed"] else NO_PLACE


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
