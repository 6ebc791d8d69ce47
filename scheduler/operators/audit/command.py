"""berth-status audit: compares Placement with nova's databases.

Exit status: 0 no findings, 1 findings, 255 it could not be run, such as without one of the databases.
"""

import argparse
from datetime import timedelta
import logging
import time

from oslo_config import cfg

from scheduler import conf as options
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.operators.app import add_number, seconds
from scheduler.operators.audit.readers import NovaReader, PlacementReader
from scheduler.operators.audit.run import Audit, Settings
from scheduler.operators.audit.values import Audited, AuditFinding
from scheduler.operators.shown.command import ShownCommand, records
from scheduler.operators.shown.shown import BAD, GOOD, Head, Shown, Table
from scheduler.placement.client import PlacementClient

LOG = logging.getLogger(f"nova.{__name__}")

FOUND = 1

COLUMNS = ("Kind", "Subject", "Host", "Detail", "Next step")


class AuditCommand(ShownCommand):
    """Compare Placement with nova's databases. Nothing is changed.

    Exit status: 0 no findings, 1 findings, 255 it could not be run, such as without one of the databases.
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


def shown(report: Audited) -> Shown:
    """Return what is shown of an audit."""
    found = FOUND if report.findings else 0
    found_rows = [_row(one) for one in report.findings]
    table = Table(COLUMNS, found_rows, "Findings", summary(report), commands=True, searched=bool(found_rows))
    head = Head("Placement compared with nova", look=BAD if found else GOOD)
    return Shown(records(table), head, [table], status=found)


def audit(conf: cfg.ConfigOpts, args: argparse.Namespace) -> Audited:
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


def summary(report: Audited) -> str:
    counts = ", ".join(f"{number} {name}" for name, number in report.counts.items())
    total = len(report.findings) + report.left_out
    more = f" ({report.left_out} of them not shown)" if report.left_out else ""
    return f"Compared {counts or 'nothing'}. Findings: {total}{more}."


def _row(one: AuditFinding) -> tuple[str, ...]:
    return one.kind.value, one.subject, one.host, one.detail, one.next_step
