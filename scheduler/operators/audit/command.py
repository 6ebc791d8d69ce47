"""berth-status audit: compares Placement with nova's databases.

Exit status: 0 no findings, 1 findings, 2 some parts could not be compared and there are no findings in the
rest, 3 both, 255 it could not be run.
"""

import argparse
from collections.abc import Iterator
from datetime import timedelta
import logging
import time

from oslo_config import cfg

from scheduler import conf as options
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.operators.audit.findings import Finding, Gap, Report
from scheduler.operators.audit.nova_reader import NovaReader
from scheduler.operators.audit.placement_reader import PlacementReader
from scheduler.operators.audit.run import Audit, Settings
from scheduler.operators.command.arguments import add_number, seconds
from scheduler.operators.shown.command import ShownCommand
from scheduler.operators.shown.shown import BAD, GOOD, Head, Shown, Table
from scheduler.operators.shown.tables import records
from scheduler.placement.client import PlacementClient

LOG = logging.getLogger(f"nova.{__name__}")

FOUND = 1
NOT_ALL_COMPARED = 2

COLUMNS = ("Kind", "Subject", "Host", "Detail", "Next step")
NOT_COMPARED = "not-compared"
LOOK_AGAIN = "Make it readable, then run the audit again: it was not compared."


class AuditCommand(ShownCommand):
    """Compare Placement with nova's databases. Nothing is changed.

    Exit status: 0 no findings, 1 findings, 2 some parts could not be compared, 3 both, 255 it could not run.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        default = Settings()
        grace, words = (
            default.grace.total_seconds(),
            "age in seconds below which a record counts as in progress",
        )
        add_number(parser, "--grace", grace, words, seconds)
        words = "seconds until a finding is read again, and reported if it is still there"
        add_number(parser, "--recheck-after", default.recheck_after, words, seconds)
        add_number(parser, "--at-once", 4, "concurrent requests to Placement")
        words = "maximum number of findings that are shown; the others are counted"
        add_number(parser, "--limit", default.limit, words)
        return parser

    def show(self, args: argparse.Namespace) -> Shown:
        options.require_databases(self.conf)
        started = time.monotonic()
        report = audit(self.conf, args)
        LOG.info("%s The audit took %.0f seconds.", summary(report), time.monotonic() - started)
        return shown(report)


def shown(report: Report) -> Shown:
    """Return what is shown of an audit."""
    found = status(report)
    found_rows = list(rows(report))
    table = Table(COLUMNS, found_rows, "Findings", summary(report), commands=True, searched=bool(found_rows))
    head = Head("Placement compared with nova", look=BAD if found else GOOD)
    return Shown(records(table), head, [table], status=found)


def rows(report: Report) -> Iterator[tuple[str, ...]]:
    yield from map(_finding_row, report.findings)
    yield from map(_gap_row, report.gaps)


def audit(conf: cfg.ConfigOpts, args: argparse.Namespace) -> Report:
    """Run an audit with the connections that the options name.

    Raises:
        BerthError: the options cannot work.
    """
    client = PlacementClient.from_conf(conf)
    engines = Engines(conf)
    placement = PlacementReader(client, args.at_once)
    try:
        nova = NovaReader(engines, CellCalls(lambda: conf.berth.cell_timeout), conf.database.connection)
        settings = Settings(timedelta(seconds=args.grace), args.recheck_after, limit=args.limit)
        return Audit(placement, nova, settings).run()
    finally:
        placement.close()
        engines.dispose()


def status(report: Report) -> int:
    return (FOUND if report.findings else 0) | (NOT_ALL_COMPARED if report.gaps else 0)


def summary(report: Report) -> str:
    counts = ", ".join(f"{number} {name}" for name, number in report.counts.items())
    total = len(report.findings) + report.left_out
    more = f" ({report.left_out} of them not shown)" if report.left_out else ""
    gaps = "; not all could be compared" if report.gaps else ""
    return f"Compared {counts or 'nothing'}. Findings: {total}{more}{gaps}."


def _finding_row(one: Finding) -> tuple[str, ...]:
    return one.kind.value, one.subject, one.host, one.detail, one.next_step


def _gap_row(one: Gap) -> tuple[str, ...]:
    what = f"{one.count} {one.what}" if one.count > 1 else one.what
    return NOT_COMPARED, what, "", f"Could not be read: {one.reason}", LOOK_AGAIN
