"""An audit, page by page.

What is held for the whole audit is small and grows with the number of hosts: one record a provider and a
compute node. Allocations and instances are held for one page of provider trees at a time.

What looks wrong is read a second time, some seconds later, before it is reported: the first read of Placement
and of the databases is not of one moment.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
import time

from oslo_log import log as logging

from scheduler.nova_db.schema import chunks, utcnow
from scheduler.operators.audit.compare import ConsumerCheck, Topology, inventories, without_service
from scheduler.operators.audit.findings import Finding, Kind, Report
from scheduler.operators.audit.nova_reader import NovaReader
from scheduler.operators.audit.placement_reader import PlacementReader
from scheduler.operators.audit.values import Amounts, ConsumerRecords, InstanceRecord, Provider, ProviderState
from scheduler.placement.allocations import ConsumerAllocations

LOG = logging.getLogger(f"nova.{__name__}")

#: Consumers that are looked up in the databases at once.
CONSUMERS = 1000

#: Suspects that wait for their second read; beyond these it comes before further pages.
SUSPECTS = 2000

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


#: Consumer -> provider -> amounts, within one page of trees.
Holdings = dict[str, dict[str, Amounts]]


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
        self._counts: Counter[str] = Counter()
        self._reported: set[str] = set()
        # subject -> kinds that the first read showed, None for a consumer
        self._suspects: dict[str, frozenset[Kind] | None] = {}

    def run(self) -> Report:
        """Compare all there is to compare, and return what was found.

        Raises:
            NovaUnreadable: A database cannot be read.
            PlacementSilent: Placement cannot be read.
        """
        self._nova.load_cells()
        self._topology.providers = self._placement.providers()
        self._topology.sharing = self._placement.sharing()
        for nodes in self._nova.nodes():
            self._topology.add_nodes(nodes)
        # a compute node that lets others use its disk has instances of its own all the same
        self._topology.sharing -= self._topology.nodes.keys()
        self._compare_trees()
        self._recheck()
        self._recheck_services()
        self._report.counts = dict(self._counts)
        return self._report

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
        holdings: Holdings = {}
        for provider, state in zip(providers, self._placement.states(providers), strict=True):
            if state is not None:  # otherwise it was removed during the audit: nobody holds anything there
                self._take_state(holdings, provider, state)
        nodes = [self._topology.nodes[root] for root in roots if root in self._topology.nodes]
        records = self._nova.instances_on(nodes, self._topology.is_only_node)
        self._counts["consumers"] += sum(not self._only_shared(held) for held in holdings.values())
        self._counts["instances"] += len(records)
        for consumers in chunks(self._doubtful(holdings, records), CONSUMERS):
            self._suspect_consumers(holdings, consumers)

    def _take_state(self, holdings: Holdings, provider: Provider, state: ProviderState) -> None:
        self._counts["resource providers"] += 1
        for consumer, amounts in state.allocations.items():
            holdings.setdefault(consumer, {})[provider.uuid] = amounts
        kinds = frozenset(one.kind for one in inventories(state, ""))
        if kinds:
            self._suspect(provider.uuid, kinds)

    def _doubtful(self, holdings: Holdings, records: Iterable[InstanceRecord]) -> list[str]:
        """Return the consumers of a page that are not just instances on their own host."""
        homes = {record.uuid: self._topology.node_at(record.cell, record.place) for record in records}
        return [uuid for uuid in homes if uuid not in holdings] + [
            uuid
            for uuid, holding in holdings.items()
            if {self._topology.root_of(provider) for provider in holding} != {homes.get(uuid)}
        ]

    def _suspect_consumers(self, holdings: Holdings, consumers: list[str]) -> None:
        check = self._check()
        found = self._nova.records(consumers)
        for uuid in consumers:
            if check.consumer(holdings.get(uuid, {}), found[uuid]):
                self._suspect(uuid, None)

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
        self._learn_providers(holdings)
        found = self._nova.records(consumers)
        self._topology.add_nodes(self._nova.nodes_at(_hosts(found.values())))
        check = self._check()
        for uuid, holding in zip(consumers, holdings, strict=True):
            amounts = {provider: held["resources"] for provider, held in holding.allocations.items()}
            self._settle(check.consumer(amounts, found[uuid]))

    def _learn_providers(self, holdings: Iterable[ConsumerAllocations]) -> None:
        """Read providers that were made after the list of providers was read."""
        named = {uuid for holding in holdings for uuid in holding.allocations}
        for uuid in named - self._topology.providers.keys():
            if provider := self._placement.provider(uuid):
                self._topology.providers[uuid] = provider

    def _recheck_providers(self, suspects: dict[str, frozenset[Kind]]) -> None:
        providers = [self._topology.providers[uuid] for uuid in suspects]
        for provider, state in zip(providers, self._placement.states(providers), strict=True):
            if state:
                for one in inventories(state, self._topology.label(provider.root)):
                    if one.kind in suspects[provider.uuid]:
                        self._settle(one)

    def _recheck_services(self) -> None:
        hosts = {node.host for node in self._topology.nodes.values() if not node.has_service}
        for node in self._nova.nodes_at(hosts) if hosts else ():
            if not node.has_service:
                self._settle(without_service(node, self._topology.label(node.uuid)))

    def _settle(self, verdict: Finding | None) -> None:
        if verdict:
            self._reported.add(verdict.subject)
            if len(self._report.findings) < self._settings.limit:
                self._report.findings.append(verdict)
            else:
                self._report.left_out += 1

    def _check(self) -> ConsumerCheck:
        return ConsumerCheck(self._topology, self._now(), self._settings.grace)


def _hosts(found: Iterable[ConsumerRecords]) -> set[str]:
    """Service hosts that the records name."""
    hosts: set[str | None] = set()
    for one in found:
        hosts |= {instance.host for instance in one.instances}
        hosts |= {host for move in one.migrations for host in (move.source[0], move.dest[0])}
    return {host for host in hosts if host}
