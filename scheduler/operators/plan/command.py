"""What the questions of berth-plan have in common: reading the cloud, progress, and showing a plan."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from dataclasses import replace
import difflib
import logging
import sys
import time
from typing import TextIO

import msgspec

from scheduler import conf as options
from scheduler.decisions.document import time_text
from scheduler.operators.app import Arguments, flag, value, values
from scheduler.operators.shown.command import ShownCommand
from scheduler.operators.shown.shown import BAD, GOOD, Head, Shown, Table
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import WrongArgument

#: The exit status of a plan in which instances have no place.
NO_PLACE = 3

#: What an argument names several hosts by.
SEVERAL = ("aggregate", "zone", "cell")

#: Names of a list that are shown.
NAMED = 5

#: Seconds between two states of the progress line, and the width of its bar.
INTERVAL, WIDTH = 0.1, 30

#: Loggers of decisions: a plan makes thousands of decisions, and shows why one fails.
QUIET = ("nova",)


class Plan(msgspec.Struct, tag_field="plan", kw_only=True):
    """The answer to a question: the document of JSON and YAML, and its words.

    Attributes:
        all_placed: Whether every instance finds a place.
    """

    all_placed: bool

    @property
    def look(self) -> str:
        return GOOD if self.all_placed else BAD

    def words(self) -> tuple[Head, list[Table]]:
        """Return the plan as it is shown: head, pictures and tables."""
        raise NotImplementedError

    def shown(self, time: str | None = None) -> Shown:
        """Return what is shown; ``time`` is that of the snapshot, in ISO format."""
        head, parts = self.words()
        return Shown(self, replace(head, time=time), parts, status=0 if self.all_placed else NO_PLACE)


def amounts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in found.items() if amount) or "nothing"


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

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        raise NotImplementedError

    def show(self, args: argparse.Namespace) -> Shown:
        options.require_databases(self.conf)
        progress = ProgressLine(sys.stderr)
        try:
            with quiet(self.app.options.verbose_level < 2), snapshot.read(self.conf, progress) as read:
                plan = self.plan(PlannedCloud(read), args)
        finally:
            progress.clear()
        return plan.shown(time_text(read.read_at))


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
    """Return the rows of the hosts that arguments name: by host, aggregate, zone and cell together."""
    table, names = cloud.snapshot.table, cloud.snapshot.cell_names()
    cells = {row: cloud.snapshot.place(row)[0] for row in range(len(table))}
    aggregates = {
        one.name: [row for host in one.hosts for row in table.rows_named.get(host, ())]
        for one in table.aggregates
    }
    found: set[int] = set()
    for what, wanted, known in (
        ("host", args.host, table.rows_named),
        ("aggregate", args.aggregate, aggregates),
        ("availability zone", args.zone, cloud.snapshot.rows_by(lambda row: [cloud.snapshot.zone(row)])),
        ("cell", args.cell, cloud.snapshot.rows_by(lambda row: {names[cells[row]], cells[row]})),
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


class RequestPlan(PlanCommand):
    """The base of plans for a request, which a flavor, a file or an existing instance describes."""

    needs_request = True
    arguments: Arguments = (
        value("--image", "UUID", "an image; one of the latest requests must have it"),
        values("--image-property", "KEY=VALUE", "an image property"),
        values("--hint", "KEY=VALUE", "a scheduler hint, such as group=UUID of a server group"),
        values("--ignore-host", "HOST", "a host to leave out"),
        value("--az", "ZONE[:HOST[:NODE]]", "availability zone; with HOST, the host is forced"),
        value("--project", "ID", "project of the request"),
        flag("--boot-from-volume", "the root disk is a volume, not on the host"),
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group(required=self.needs_request)
        what.add_argument("--flavor", metavar="NAME|ID", help="a request for this flavor")
        what.add_argument("--like", metavar="INSTANCE_UUID", help="the stored request of this instance")
        what.add_argument(
            "--spec", metavar="FILE", help="a file with a RequestSpec in JSON, as nova stores it"
        )
        return parser
