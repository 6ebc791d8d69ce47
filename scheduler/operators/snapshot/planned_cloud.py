"""A cloud that plans change: the decision core runs on a snapshot and charges its decisions to it.

One decision is that of ``workflow.request_run`` without its I/O: pre-filters and query, the mirror's hosts or
Placement's candidates, the server group as it is by now, and the driver. Each charge can be undone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from oslo_config import cfg

from scheduler import objects
from scheduler.claims.result import ClaimResult
from scheduler.errors import BerthError, NoValidHost
from scheduler.hosts.coordinates import TableRow, TableRows, ViewIndex
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import HostKey
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.operators.plan.reasons import Watcher, Why
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.parts import make_driver
from scheduler.placement.answer import AllocationCandidate, Candidates, Usage
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.mirror import Allocations
from scheduler.placement.outcomes import Outcome
from scheduler.request.query import Query, without_limit
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules.drivers import Rules
from scheduler.selection.consume import consumed_amounts
from scheduler.selection.headroom import Usages
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.ranking import Ranking, rank
from scheduler.selection.server_groups import ServerGroups
from scheduler.weights.scores import prepare_weighers

#: The query that all hosts with free memory meet.
ANY = Query((("resources", "MEMORY_MB:1"),), "resources=MEMORY_MB%3A1", None)


class Chosen(NamedTuple):
    """A host that an instance gets.

    Attributes:
        row: The row of its node.
        candidate: What it takes of Placement.
        topology: The host's ``numa_topology`` and ``pci_stats`` with it; None if these do not change.
    """

    row: int
    candidate: AllocationCandidate
    topology: tuple[Any, Any] | None = None


@dataclass
class Decision:
    """What was decided for one request.

    Attributes:
        chosen: The hosts of its first instances, in their order; the others find none.
        why: What each step left; None if all have hosts and no explanation was requested.
        queries: The queries for Placement; empty if a pre-filter refused the request.
    """

    chosen: list[Chosen] = field(default_factory=list)
    why: Why | None = None
    queries: Sequence[Query] = ()


class Asked(NamedTuple):
    """The hosts that a request may have, before any filter.

    Attributes:
        hosts: The hosts that it offers and the plan does not close.
        usages: What is used of their providers.
    """

    request: SchedulingRequest
    queries: Sequence[Query]
    hosts: HostView
    usages: Usages


class _Planned:
    """Grants each claim and remembers it, as ``host_claiming.Claims``."""

    def __init__(self) -> None:
        self.granted: dict[str, AllocationCandidate] = {}

    def claim(self, instance_uuid: str, candidate: AllocationCandidate) -> ClaimResult:
        self.granted[instance_uuid] = candidate
        return ClaimResult(Outcome.DONE)

    def claim_many(self, candidates: Mapping[str, AllocationCandidate]) -> Mapping[str, ClaimResult]:
        return {uuid: self.claim(uuid, candidate) for uuid, candidate in candidates.items()}


class Places:
    """Where instances are in the plan, for rules and for server groups."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.rows = snapshot.instances.rows.copy()

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[HostKey]]:
        known = self._snapshot.instances.index_of
        found = ((uuid, known[uuid]) for uuid in uuids if uuid in known)
        return {uuid: [self._snapshot.place(self.rows[at])] for uuid, at in found if self.rows[at] >= 0}

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, Any]:
        """Return the instances of a host as the databases have them, for classes of operators."""
        return self._snapshot.hosts.instances.on_host(cell_uuid, host)

    def image_properties(self, places: Iterable[HostKey]) -> Mapping[HostKey, Sequence[Mapping[str, str]]]:
        """Return the image properties of the instances on some hosts, as the databases have them."""
        return self._snapshot.hosts.instances.image_properties(places)

    def members_of(self, group_uuid: str) -> Sequence[str]:
        group = self._snapshot.groups.get(group_uuid)
        return () if group is None else group.members

    def hosts_of_instances(self, instance_uuids: Sequence[str]) -> tuple[set[str], bool]:
        """Return the service hosts of instances that users still see."""
        instances, rows = self._snapshot.instances, self._snapshot.table.rows
        known = (instances.index_of.get(uuid, -1) for uuid in instance_uuids)
        seen = [at for at in known if at >= 0 and instances.visible[at] and self.rows[at] >= 0]
        return {rows[self.rows[at]].host for at in seen}, True


class Offers:
    """Placement's answers to queries that the mirror cannot answer, less what the plan takes."""

    def __init__(self, source: CandidateSource) -> None:
        self._source = source
        self._found: dict[tuple[Query, ...], Candidates] = {}
        self._taken: Counter[tuple[str, str]] = Counter()

    def take(self, allocations: Allocations, sign: int) -> None:
        for provider, entry in allocations.items():
            for resource, amount in entry["resources"].items():
                self._taken[provider, resource] += sign * amount

    def find(self, queries: Sequence[Query]) -> Candidates:
        """Return the answer, which is the same for equal queries.

        Raises:
            NoValidHost: Placement refuses the query.
            PlacementUnavailable: Placement does not answer.
        """
        key = tuple(map(without_limit, queries))
        if key not in self._found:
            self._found[key] = self._source.fetch(key, None)
        offer = self._found[key]
        if offer.rejection:
            raise NoValidHost(f"Placement rejected the request: {offer.rejection}", final=True)
        if offer.failed:
            raise NoValidHost(f"Placement gives no usable answer: {offer.reason}")
        return offer

    def usage(self, offer: Candidates, provider: str) -> Mapping[str, Usage]:
        """Return capacity and usage of a provider in an answer, with what the plan takes."""
        return {
            name: Usage(one.capacity, one.used + self._taken[provider, name])
            for name, one in offer.usage(provider).items()
        }

    def fitting(self, offer: Candidates) -> Mapping[str, Sequence[AllocationCandidate]]:
        """Return the candidates of each root that still fit."""
        touched = {provider for provider, _ in self._taken}
        return {
            root: [each for each in some if touched.isdisjoint(each.stored) or self._fits(offer, each)]
            for root, some in offer.by_root.items()
        }

    def _fits(self, offer: Candidates, candidate: AllocationCandidate) -> bool:
        usages = {provider: self.usage(offer, provider) for provider in candidate.allocations}
        return all(
            usages[provider][name].used + amount <= usages[provider][name].capacity
            for provider, entry in candidate.allocations.items()
            for name, amount in entry["resources"].items()
            if name in usages[provider]
        )


class PlannedCloud:
    """Decides requests on a snapshot, one after the other.

    Attributes:
        snapshot: What it was made of; its table is charged.
        closed: Hosts that are not considered; bool, shape (hosts,).
        places: Where instances are by now.
    """

    def __init__(
        self, snapshot: Snapshot, conf: cfg.ConfigOpts | None = None, rules: Rules | None = None
    ) -> None:
        """Begin with the snapshot as it is.

        Args:
            snapshot: The cloud; one planned cloud at a time uses it.
            conf: Other options than those of the snapshot.

        Raises:
            HostFilterNotFound: An enabled filter does not exist.
            ClassNotFound: A configured class does not exist.
        """
        conf = snapshot.conf if conf is None else conf
        self.snapshot = snapshot
        self.closed = np.zeros(len(snapshot.table), bool)
        self.places = Places(snapshot)
        self.conf = conf
        self.rules, self._driver = make_driver(conf, snapshot.hosts.mapped, rules=rules)
        self._pending = PendingPlacements()
        self._mirrored = MirroredHosts(snapshot.mirror, self.places, self._pending)
        self._groups = ServerGroups()
        self._offers = Offers(snapshot.candidates)
        self._undo: list[Callable[[], None]] = []

    # -- decisions -------------------------------------------------------------------------------------------

    def decide(
        self,
        spec: objects.RequestSpec,
        uuids: Sequence[str],
        *,
        explain: bool = False,
        alternates: bool = False,
    ) -> Decision:
        """Decide for instances of one request; nothing is charged.

        Args:
            explain: Note what each step left, also if all have hosts.
            alternates: Choose alternates too, for ``Decision.why``.

        Raises:
            PlacementUnavailable: Placement does not answer a query that the mirror cannot answer.
        """
        request = SchedulingRequest.of(spec, uuids, with_alternates=alternates)
        decision, claims = Decision(), _Planned()
        self.snapshot.keep_time()
        watcher = Watcher(request, self.snapshot.table, partial(self._chosen, claims))
        try:
            decision.queries = self.snapshot.candidate_hosts.queries(request)
            watcher.asked(decision.queries, self.snapshot.mirror)
            with self._groups.serialized(request, self.places) as current:
                hosts, usages = self._hosts(decision.queries, current)
                hosts = watcher.offered(hosts, self.closed)
                watcher.selections = self._driver.select(
                    hosts, current, claims, usages=usages, observer=watcher
                )
        except BerthError as error:
            if not isinstance(error, NoValidHost) and not decision.queries:
                raise
            watcher.failed(error)
            explain = True
        finally:
            self._pending.remove(uuids)
        decision.chosen = watcher.chosen
        decision.why = watcher.why() if explain else None
        return decision

    def ask(self, spec: objects.RequestSpec, uuid: str | None = None) -> Asked:
        """Return the hosts that a request may have, before any filter.

        Args:
            uuid: The instance; None: a new one.

        Raises:
            BerthError: A pre-filter or Placement refuses the request.
        """
        request = SchedulingRequest.of(spec, None if uuid is None else [uuid])
        self.snapshot.keep_time()
        queries = self.snapshot.candidate_hosts.queries(request)
        with self._groups.serialized(request, self.places) as current:
            hosts, usages = self._hosts(queries, current)
            return Asked(current, queries, hosts.where(~self.closed[hosts.table_rows]), usages)

    def rank(self, spec: objects.RequestSpec, uuid: str) -> Ranking:
        """Return the hosts that an instance may have now, with their weights; raises as ``ask``."""
        asked = self.ask(spec, uuid)
        chain = self.rules.chain.prepare(asked.request)
        weighers = prepare_weighers(self.rules.weighers, asked.request)
        return rank(chain, weighers, asked.hosts, asked.request, self.conf.filter_scheduler)

    def _chosen(
        self, claims: _Planned, uuid: str, hosts: HostView, index: ViewIndex, *, fitted: bool
    ) -> Chosen:
        candidate = claims.granted.get(uuid) or hosts.candidates(index)[0]
        topology = (hosts.coded("numa_topology")[index], hosts.coded("pci_stats")[index]) if fitted else None
        return Chosen(int(hosts.table_rows[index]), candidate, topology)

    def _hosts(self, queries: Sequence[Query], request: SchedulingRequest) -> tuple[HostView, Usages]:
        """Return the hosts that may have the request, and what is used of them.

        Raises:
            NoValidHost: Placement refuses the query.
            PlacementUnavailable: Placement does not answer.
        """
        table = self.snapshot.table
        found = self._mirrored.find(queries, lambda: table, request.cell_uuid)
        if found is not None:
            return found[0], found[1].usage
        offer = self._offers.find(queries)
        fitting = self._offers.fitting(offer)
        rows = table.find(offer.by_root, request.cell_uuid)
        rows = TableRows(np.array([row for row in rows.tolist() if fitting[table.rows[row].uuid]], np.int64))
        candidates = CandidateLists(lambda position: fitting[table.rows[int(rows[position])].uuid])
        view = HostView.of(table, rows, candidates, self.places, self._pending)
        return view, partial(self._offers.usage, offer)

    def free(self, resource_class: str) -> np.ndarray:
        """Return what Placement has left of a mirrored class on each host, 0 for nothing; int64, (hosts,)."""
        answer = self.snapshot.mirror.find([ANY])
        left = np.zeros(len(self.snapshot.table), np.int64)
        if answer is not None:
            usage, row_of = answer.usage, self.snapshot.table.row_of_uuid
            for uuid in answer.uuids:
                one = usage(uuid).get(resource_class)
                if uuid in row_of and one is not None:
                    left[row_of[uuid]] = max(0, one.capacity - one.used)
        return left

    # -- changes ---------------------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """Where ``rewind`` goes back to."""
        return len(self._undo)

    def rewind(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    def put(self, index: int | None, chosen: Chosen, flavor: objects.Flavor) -> None:
        """Charge an instance to the host that it gets; its build has ended.

        Args:
            index: The instance; None: a new one.
        """
        self._charge(chosen.row, flavor, chosen.candidate.allocations, 1)
        if chosen.topology is not None:
            for name, value in zip(("numa_topology", "pci_stats"), chosen.topology, strict=True):
                self._replace(name, chosen.row, value)
        if index is not None:
            self._locate(index, chosen.row)

    def remove(self, index: int, allocations: Allocations | None) -> None:
        """Take an instance off its host. Its CPUs and devices stay taken: only the compute knows them.

        Args:
            allocations: What it holds in Placement; None: unknown, so it stays taken.
        """
        flavor = self.snapshot.requests.flavor(int(self.snapshot.instances.specs[index]))
        self._charge(int(self.places.rows[index]), flavor, allocations or {}, -1)
        self._locate(index, -1)

    def _charge(self, row: int, flavor: objects.Flavor, allocations: Allocations, sign: int) -> None:
        self._add(row, flavor, allocations, sign)
        self._undo.append(partial(self._add, row, flavor, allocations, -sign))

    def _add(self, row: int, flavor: objects.Flavor, allocations: Allocations, sign: int) -> None:
        for name, amount in consumed_amounts(flavor).items():
            if name != "num_io_ops":
                self.snapshot.table.numbers[name][row] += sign * amount
        self.snapshot.mirror.known.heard(allocations, 0.0, sign)
        self._offers.take(allocations, sign)

    def _replace(self, name: str, row: int, value: Any) -> None:
        coded = self.snapshot.table.coded
        before = coded[name]
        coded[name] = before.patched(np.array([row]), [value])
        self._undo.append(partial(coded.__setitem__, name, before))

    def _locate(self, index: int, row: int) -> None:
        before = int(self.places.rows[index])
        self.places.rows[index] = row
        self._undo.append(partial(self.places.rows.__setitem__, index, before))

    def host(self, row: int) -> str:
        return self.snapshot.table.rows[TableRow(row)].host
