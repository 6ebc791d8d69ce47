"""berth-explain report: counts of the latest decisions, and an overview as HTML pages."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
import logging
from pathlib import Path
import time

from scheduler import conf as options
from scheduler.decisions.document import time_text
from scheduler.decisions.memory import MOST_ENTRIES
from scheduler.errors import BerthError
from scheduler.operators.app import latest, value, writing
from scheduler.operators.explain import decision
from scheduler.operators.explain.decision_commands import (
    LOG_FILE,
    MEMORY,
    FoundDecision,
    RecordedQuestion,
    complain,
    read_log,
)
from scheduler.operators.plan.command import quiet
from scheduler.operators.report import directory, overview, site
from scheduler.operators.report.hosts import ReportedHosts, read_hosts
from scheduler.operators.report.overview import Entry, name_of
from scheduler.operators.shown import page
from scheduler.operators.shown.shown import Head, Link, Saying, Shown
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.request_specs import NotFound

LOG = logging.getLogger(f"nova.{__name__}")

#: Hosts in the table of a decision.
MOST_HOSTS = 100


class ReportCommand(RecordedQuestion):
    """Count the latest decisions and the causes of failures, and write an overview as HTML pages.

    JSON and YAML have all counts, CSV has the causes.
    """

    has_page = False

    arguments = (
        latest("24h"),
        value(
            "--html",
            "DIRECTORY",
            "write HTML pages to this directory: index.html and what it links to. They replace the pages "
            "of the previous report",
        ),
        value(
            "--flavor",
            "NAME",
            "with --html: show which hosts have room for this flavor (default: the most requested one)",
        ),
    )

    def show(self, args: argparse.Namespace) -> Shown:
        entries = self.entries(args, failed=False, since=args.since, project=None, at_most=MOST_ENTRIES)
        found = overview.summarize(entries, args.since, time.time())
        sayings = [Saying(site.counts(found))]
        if args.html:
            number = self._write(args, entries, found)
            sayings.append(Saying(f"The report is in {args.html}: {number} pages"))
        head = Head(time=time_text(found.until), sayings=sayings)
        return Shown(found, head, [site.causes(found, {})])

    def _write(self, args: argparse.Namespace, entries: Sequence[Entry], found: overview.Overview) -> int:
        pages = site.Site(found, entries, self._hosts(args, entries))

        def html(shown: Shown) -> str:
            return page.render(shown, self.origin(shown), pages.host_addresses)

        def made() -> Iterator[tuple[str, str]]:
            home = Link("All decisions", directory.INDEX)
            for name, each in self._documents(args, found.linked):
                file = pages.written[name] = directory.decision_file(name)
                yield file, html(decision.shown(each.decision, each.origin, each.document, MOST_HOSTS, home))
            for name, shown in pages.host_pages():
                yield name, html(shown)

        with writing("The report cannot be written"):
            return directory.replace(Path(args.html), lambda: html(pages.index()), made())

    def _hosts(self, args: argparse.Namespace, entries: Sequence[Entry]) -> ReportedHosts | str:
        flavors = [args.flavor] if args.flavor else overview.flavors_by_frequency(entries)
        chosen = Counter(host for entry in entries for host in entry["hosts"])
        try:
            options.require_databases(self.conf)
            with quiet(self.app.options.verbose_level < 2), snapshot.read(self.conf) as read:
                found = read_hosts(PlannedCloud(read), flavors, chosen)
                if args.flavor not in (None, found.flavor):
                    raise NotFound(f"There is no flavor {args.flavor}")
                return found
        except BerthError as error:
            LOG.warning("The report has no hosts: %s", error)
            return f"The hosts could not be read: {error}"

    def _documents(
        self, args: argparse.Namespace, entries: Sequence[Entry]
    ) -> Iterator[tuple[str, FoundDecision]]:
        if args.log:
            found = read_log(args.log, lambda log: log.find(map(name_of, entries)))
            for name, (line, file) in found.items():
                yield name, FoundDecision(line.decode(), LOG_FILE, file)
            return
        schedulers = self.schedulers(args)
        silent: dict[str, str] = {}
        for entry in entries:
            host = entry["scheduler"]
            if host in silent:
                continue
            answers = schedulers.ask("decision", [host], name=name_of(entry))
            silent |= answers.failed
            if document := answers.found.get(host):
                yield name_of(entry), FoundDecision(document, MEMORY, host)
        complain(silent)
