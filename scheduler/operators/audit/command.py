"""berth-status audit: compares Placement with nova's databases."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
import time

from oslo_config import cfg
from oslo_log import log as logging

from scheduler import conf as options
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import chunks, utcnow
from scheduler.operators.app import count, seconds
from scheduler.operators.audit.compare import ConsumerCheck, Topology, inventories, without_service
from scheduler.operators.audit.readers import NovaReader, PlacementReader
from scheduler.operators.audit.values import Audited, AuditFinding, ConsumerRecords, Kind
from scheduler.operators.shown.command import ShownCommand, records
from scheduler.operators.shown.shown import BAD, GOOD, Columns, Head, Shown, table
from scheduler.placement.client import PlacementClient

LOG = logging.getLogger(f"nova.{__name__}")

FOUND = 1


class AuditCommand(ShownCommand):
    """Compare Placement with nova's databases. Nothing is changed.

    Exit status: 0 no findings, 1 findings, 255 it could not be run, such as without one of the databases.
    """

    arguments = (
        count("--grace", 3600, "age in seconds below which a record counts as in progress", seconds),
        count("--recheck-after", 10, "seconds until what is wrong is read again, to be reported", seconds),
        count("--at-once", 4, "concurrent requests to Placement"),
        count("--limit", 10_000, "maximum number of findings that are shown; the others are counted"),
    )

    def show(self, args: argparse.Namespace) -> Shown:
        options.require_databases(self.conf)
        started = time.monotonic()
        report = audit(self.conf, args)
        LOG.info("%s The audit took %.0f seconds.", summary(report), time.monotonic() - started)
        return shown(report)


def shown(report: Audited) -> Shown:
    """Return what is shown of an audit."""
    columns: Columns = {
        "Kind": "kind", "Subject": "subject", "Host": "host", "Detail": "detail", "Next step": "next_step"
    }  # fmt: skip
    is_wrong = bool(report.findings)
    findings = table(
        report.findings, columns, "Findings", note=summary(report), commands=True, searched=is_wrong
    )
    head = Head("Placement compared with nova", look=BAD if is_wrong else GOOD)
    return Shown(records(findings), head, [findings], status=FOUND if is_wrong else 0)


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
        grace = timedelta(seconds=args.grace)
        return Audit(placement, nova, grace=grace, recheck_after=args.recheck_after, limit=args.limit).run()
    finally:
        placement.close()
        engines.dispose()


def summary(report: Audited) -> str:
    counts = ", ".join(f"{number} {name}" for name, number in report.counts.items())
    total = len(report.findings) + report.left_out
    more = f" ({report.left_out} of them not shown)" if report.left_out else ""
    return f"Compared {counts or 'nothing'}. Findings: {total}{more}."


# -- reading and comparing --------------------------------------------------------------------------------

#: Consumers that are looked up in the databases at once.
CONSUMERS = 1000

#: Pages between two lines about the progress.
PROGRESS = 20


class Audit:
    """One audit."""

    def __init__(
        self,
        placement: PlacementReader,
        nova: NovaReader,
        *,
        grace: timedelta = timedelta(hours=1),
        recheck_after: float = 10.0,
        page: int = 100,
        limit: int = 10_000,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = utcnow,
    ) -> None:
        """Read nothing yet.

        Args:
            grace: Age below which a record in nova's databases is regarded as in flight.
            recheck_after: Seconds between the first and the second read of a suspect.
            page: Providers that are read at once.
            limit: Findings that are reported; more are counted.
            now: The time in naive UTC.
        """
        self._placement = placement
        self._nova = nova
        self._grace, self._recheck_after, self._page, self._limit = grace, recheck_after, page, limit
        self._sleep = sleep
        self._now = now
        self._topology = Topology()
        self._report = Audited()

    def run(self) -> Audited:
        """Compare all there is to compare, and return what was found.

        Raises:
            NovaUnreadable: A database cannot be read.
            PlacementError: Placement cannot be read.
        """
        topology = self._topology
        self._nova.load_cells()
        topology.providers = self._placement.providers()
        topology.sharing = self._placement.sharing()
        for nodes in self._nova.nodes():
            topology.add_nodes(nodes)
        # a compute node that lets others use its disk has instances of its own all the same
        topology.sharing -= topology.nodes.keys()
        homes = {
            one.uuid: topology.node_at(one.cell, one.place) for page in self._nova.instances() for one in page
        }
        doubtful, providers = self._read_trees(homes)
        hosts = {node.host for node in topology.nodes.values() if not node.has_service}
        if doubtful or providers or hosts:
            self._sleep(self._recheck_after)
        for consumers in chunks(doubtful, CONSUMERS):
            self._look_at(consumers)
        self._recheck_providers(providers)
        for node in self._nova.nodes_at(hosts) if hosts else ():
            if not node.has_service:
                self._settle(without_service(node, topology.label(node.uuid)))
        return self._report

    def _read_trees(self, homes: Mapping[str, str | None]) -> tuple[list[str], dict[str, frozenset[Kind]]]:
        """Read all providers, and count what there is.

        Args:
            homes: The root provider of the host of each instance, by consumer.

        Returns:
            The consumers that are not just instances on their own host; and the providers with wrong numbers.
        """
        sharing, kinds = self._topology.sharing, dict[str, frozenset[Kind]]()
        at_home, elsewhere, seen, read = set[str](), dict[str, None](), set[str](), 0
        providers = sorted(self._topology.providers.values(), key=lambda one: one.root_provider_uuid)
        for number, page in enumerate(chunks(providers, self._page), 1):
            for provider, state in zip(page, self._placement.states(page), strict=True):
                if state is None:
                    continue  # it was removed during the audit: nobody holds anything there
                read += 1
                if wrong := frozenset(one.kind for one in inventories(state, "")):
                    kinds[provider.uuid] = wrong
                if provider.root_provider_uuid not in sharing:
                    seen |= state.allocations.keys()
                for consumer in state.allocations:
                    if homes.get(consumer) == provider.root_provider_uuid:
                        at_home.add(consumer)
                    elif provider.root_provider_uuid not in sharing or consumer not in homes:
                        elsewhere[consumer] = None
            if number % PROGRESS == 0:
                LOG.info("Read %d of %d resource providers", number * self._page, len(providers))
        trees = self._topology.nodes.keys() | {one.root_provider_uuid for one in providers}
        self._report.counts = {
            "resource providers": read,
            "consumers": len(seen),
            "instances": len(homes),
            "provider trees": len(trees),
        }
        absent = (uuid for uuid, home in homes.items() if home and uuid not in at_home)
        return list(elsewhere | dict.fromkeys(absent)), kinds

    # -- the second read

    def _look_at(self, consumers: list[str]) -> None:
        holdings = self._placement.holdings(consumers)
        # providers may have been made after the list of providers was read
        named = {uuid for holding in holdings for uuid in holding.allocations}
        for uuid in named - self._topology.providers.keys():
            if provider := self._placement.provider(uuid):
                self._topology.providers[uuid] = provider
        found = self._nova.records(consumers)
        self._topology.add_nodes(self._nova.nodes_at(_hosts(found.values())))
        check = ConsumerCheck(self._topology, self._now(), self._grace)
        for uuid, holding in zip(consumers, holdings, strict=True):
            amounts = {provider: held["resources"] for provider, held in holding.allocations.items()}
            self._settle(check.consumer(amounts, found[uuid]))

    def _recheck_providers(self, suspects: dict[str, frozenset[Kind]]) -> None:
        providers = [self._topology.providers[uuid] for uuid in suspects]
        for provider, state in zip(providers, self._placement.states(providers), strict=True):
            if state:
                for one in inventories(state, self._topology.label(provider.root_provider_uuid)):
                    if one.kind in suspects[provider.uuid]:
                        self._settle(one)

    def _settle(self, verdict: AuditFinding | None) -> None:
        if verdict:
            if len(self._report.findings) < self._limit:
                self._report.findings.append(verdict)
            else:
                self._report.left_out += 1


def _hosts(found: Iterable[ConsumerRecords]) -> set[str]:
    """Service hosts that the records name."""
    hosts: set[str | None] = set()
    for one in found:
        hosts |= {instance.host for instance in one.instances}
        hosts |= {host for move in one.migrations for host in (move.source[0], move.dest[0])}
    return {host for host in hosts if host}
