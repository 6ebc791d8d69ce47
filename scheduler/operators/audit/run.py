"""An audit, page by page.

What is held for the whole audit is small and grows with the number of hosts: one record a provider and a
compute node. Allocations and instances are held for one page of provider trees at a time.

What looks wrong is read a second time, some seconds later, before it is reported: the first read of Placement
and of the databases is not of one moment.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
import time

from oslo_log import log as logging

from scheduler.logs import brief
from scheduler.nova_db.schema import chunks, utcnow
from scheduler.operators.audit.compare import ConsumerCheck, Topology, inventories
from scheduler.operators.audit.findings import Finding, Gap, Kind, Report
from scheduler.operators.audit.nova_reader import API, NovaReader
from scheduler.operators.audit.placement_reader import PlacementReader
from scheduler.operators.audit.values import Amounts, ConsumerRecords, InstanceRecord, Provider, ProviderState
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.errors import PlacementSilent

LOG = logging.getLogger(f"nova.{__name__}")

#: Consumers that are looked up in the databases at once.
CONSUMERS = 1000

#: Suspects that wait for their second read; beyond these it comes before further pages.
SUSPECTS = 2000

#: Maximum number of different reasons for gaps.
REASONS = 20

#: Pages between two lines about the progress.
PROGRESS = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """How an audit is done.

    Attributes:
        grace: age below which a record in nova's databases is regarded as in flight.
        recheck_after: seconds between the first and the second read of a suspect.
        page: provider trees that are read at once.
        limit: findings that are reported; more are counted.
    """

    grace: timedelta = timedelta(hours=1)
    recheck_after: float = 10.0
    page: int = 100
    limit: int = 10_000


@dataclass(slots=True)
class _Page:
    """What was read of one page of trees.

    Attributes:
        holdings: consumer -> provider -> amounts, within this page.
        partial: roots of trees that could not be read as a whole.
    """

    holdings: dict[str, dict[str, Amounts]] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)


class Audit:
    """One audit.

    Args:
        now: the time in naive UTC.
    """

    def __init__(
        self,
        placement: PlacementReader,
        nova: NovaReader,
        settings: Settings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = utcnow,
    ) -> None:
        self._placement = placement
        self._nova = nova
        self._settings = settings
        self._sleep = sleep
        self._now = now
        self._topology = Topology()
        self._report = Report()
        self._gaps: Counter[tuple[str, str]] = Counter()
        self._counts: Counter[str] = Counter()
        self._reported: set[str] = set()
        # subject -> kinds that the first read showed, None for a consumer
        self._suspects: dict[str, frozenset[Kind] | None] = {}

    def run(self) -> Report:
        """Compare all there is to compare, and return what was found; a service that is away is a gap."""
        self._nova.load_cells()
        try:
            self._topology.providers = self._placement.providers()
            self._topology.sharing = self._placement.sharing()
        except PlacementSilent as error:
            self._gap("Placement", brief(error))
            return self._finished()
        for nodes in self._nova.nodes():
            self._topology.add_nodes(nodes)
        # a compute node that lets others use its disk has instances of its own all the same
        self._topology.sharing -= self._topology.nodes.keys()
        self._compare_trees()
        self._recheck()
        return self._finished()

    def _compare_trees(self) -> None:
        trees: dict[str, list[Provider]] = {uuid: [] for uuid in self._topology.nodes}
        for provider in self._topology.providers.values():
            trees.setdefault(provider.root, []).append(provider)
        done = 0
        for number, roots in enumerate(chunks(trees, self._settings.page), 1):
            self._compare_page(roots, [provider for root in roots for provider in trees[root]])
            if len(self._suspects) > SUSPECTS:
                self._recheck()
            done += len(roots)
            if number % PROGRESS == 0:
                LOG.info("Compared %d of %d provider trees", done, len(trees))
        self._counts["provider trees"] = done

    # -- the first read

    def _compare_page(self, roots: list[str], providers: list[Provider]) -> None:
        page = _Page()
        for provider, state in zip(providers, self._placement.states(providers), strict=True):
            self._take_state(page, provider, state)
        nodes = [self._topology.nodes[root] for root in roots if root in self._topology.nodes]
        records = self._nova.instances_on(nodes, self._topology.is_only_node)
        self._refresh_away()
        self._counts["consumers"] += sum(not self._only_shared(held) for held in page.holdings.values())
        self._counts["instances"] += len(records)
        for consumers in chunks(self._doubtful(page, records), CONSUMERS):
            self._suspect_consumers(page, consumers)

    def _take_state(
        self, page: _Page, provider: Provider, state: ProviderState | PlacementSilent | None
    ) -> None:
        if state is None:
            return  # it was removed meanwhile, so nobody holds anything there
        if isinstance(state, PlacementSilent):
            page.partial.add(provider.root)
            self._gap("resource providers", brief(state))
            return
        self._counts["resource providers"] += 1
        for consumer, amounts in state.allocations.items():
            page.holdings.setdefault(consumer, {})[provider.uuid] = amounts
        kinds = frozenset(one.kind for one in inventories(state, ""))
        if kinds:
            self._suspect(provider.uuid, kinds)

    def _doubtful(self, page: _Page, records: Iterable[InstanceRecord]) -> list[str]:
        """Return the consumers of a page that are not just instances on their own host."""
        homes = {record.uuid: self._topology.node_at(record.cell, record.place) for record in records}
        absent = [
            uuid for uuid, home in homes.items() if uuid not in page.holdings and home not in page.partial
        ]
        return absent + [
            uuid
            for uuid, holding in page.holdings.items()
            if {self._topology.root_of(provider) for provider in holding} != {homes.get(uuid)}
        ]

    def _suspect_consumers(self, page: _Page, consumers: list[str]) -> None:
        check = self._check()
        found = self._nova.records(consumers)
        self._refresh_away()
        for uuid in consumers:
            holding = page.holdings.get(uuid, {})
            verdict = check.consumer(holding, found[uuid])
            if isinstance(verdict, Finding):
                self._suspect(uuid, None)
            elif verdict and not self._only_shared(holding):
                # on a sharing provider only: counted where the consumer has its other allocations
                self._gap(verdict.what, verdict.reason)

    def _only_shared(self, holding: Iterable[str]) -> bool:
        return {self._topology.root_of(provider) for provider in holding} <= self._topology.sharing

    def _suspect(self, subject: str, kinds: frozenset[Kind] | None) -> None:
        if subject not in self._reported:
            self._suspects.setdefault(subject, kinds)

    # -- the second read

    def _recheck(self) -> None:
        """Wait, then read all suspects again."""
        suspects, self._suspects = self._suspects, {}
        if not suspects:
            return
        self._sleep(self._settings.recheck_after)
        for consumers in chunks([subject for subject, kinds in suspects.items() if kinds is None], CONSUMERS):
            self._recheck_consumers(consumers)
        self._recheck_providers({subject: kinds for subject, kinds in suspects.items() if kinds})

    def _recheck_consumers(self, consumers: list[str]) -> None:
        holdings = self._placement.holdings(consumers)
        self._learn_providers(one for one in holdings if isinstance(one, ConsumerAllocations))
        found = self._nova.records(consumers)
        self._topology.add_nodes(self._nova.nodes_at(_hosts(found.values())))
        self._refresh_away()
        check = self._check()
        for uuid, holding in zip(consumers, holdings, strict=True):
            if isinstance(holding, PlacementSilent):
                self._gap("consumers of allocations", brief(holding))
                continue
            amounts = {provider: held["resources"] for provider, held in holding.allocations.items()}
            self._settle(check.consumer(amounts, found[uuid]))

    def _learn_providers(self, holdings: Iterable[ConsumerAllocations]) -> None:
        """Read providers that were made after the list of providers was read."""
        named = {uuid for holding in holdings for uuid in holding.allocations}
        for uuid in named - self._topology.providers.keys():
            try:
                provider = self._placement.provider(uuid)
            except PlacementSilent as error:
                self._gap("resource providers", brief(error))
                continue
            if provider:
                self._topology.providers[uuid] = provider

    def _recheck_providers(self, suspects: dict[str, frozenset[Kind]]) -> None:
        providers = [self._topology.providers[uuid] for uuid in suspects]
        for provider, state in zip(providers, self._placement.states(providers), strict=True):
            if isinstance(state, PlacementSilent):
                self._gap("resource providers", brief(state))
            elif state:
                for one in inventories(state, self._topology.label(provider.root)):
                    if one.kind in suspects[provider.uuid]:
                        self._settle(one)

    def _settle(self, verdict: Finding | Gap | None) -> None:
        if isinstance(verdict, Gap):
            self._gap(verdict.what, verdict.reason)
        elif verdict:
            self._reported.add(verdict.subject)
            if len(self._report.findings) < self._settings.limit:
                self._report.findings.append(verdict)
            else:
                self._report.left_out += 1

    # -- the end

    def _check(self) -> ConsumerCheck:
        return ConsumerCheck(self._topology, self._now(), self._settings.grace)

    def _refresh_away(self) -> None:
        self._topology.away = {self._nova.name(uuid): reason for uuid, reason in self._nova.away.items()}

    def _gap(self, what: str, reason: str) -> None:
        key = what, reason
        if key not in self._gaps and len(self._gaps) >= REASONS:
            key = what, "other reasons"
        self._gaps[key] += 1

    def _finished(self) -> Report:
        self._refresh_away()
        gaps = [Gap(f"cell {name}", reason) for name, reason in sorted(self._topology.away.items())]
        if self._nova.api_away:
            gaps.insert(0, Gap(API, self._nova.api_away))
        gaps += [Gap(what, reason, count) for (what, reason), count in self._gaps.items()]
        self._report.gaps = gaps
        self._report.counts = dict(self._counts)
        return self._report


def _hosts(found: Iterable[ConsumerRecords]) -> set[str]:
    """Service hosts that the records name."""
    hosts: set[str | None] = set()
    for one in found:
        hosts |= {instance.host for instance in one.instances}
        hosts |= {host for move in one.migrations for host in (move.source[0], move.dest[0])}
    return {host for host in hosts if host}
