"""A cloud that plans change: requests are decided on a snapshot, and their hosts are charged to it.

Each charge can be undone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from oslo_config import cfg

from scheduler import objects
from scheduler.claims.session import NothingSent
from scheduler.decisions import document as documents
from scheduler.decisions.explanation import FailureExplainer
from scheduler.decisions.failed_constraints import FailedConstraints
from scheduler.decisions.failure import Failure
from scheduler.decisions.record import Names
from scheduler.decisions.trace import Trace
from scheduler.errors import BerthError, InvalidRequest, NoValidHost
from scheduler.hosts.coordinates import TableRow, TableRows, ViewIndex
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import HostKey, InstanceSource
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.parts import make_driver
from scheduler.placement.answer import AllocationCandidate, Candidates, Usage
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.mirror import Allocations
from scheduler.placement.plain_query import CLASSES
from scheduler.request.query import Query, without_limit
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules.drivers import Rules
from scheduler.selection.alternates import Selections
from scheduler.selection.consume import consumed_amounts
from scheduler.selection.driver import FilterDriver
from scheduler.selection.headroom import Usages
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.ranking import Ranking
from scheduler.selection.server_groups import ServerGroups
from scheduler.workflow.decide import Offer, decide, offered, with_queries

#: The query that all hosts with free memory meet.
ANY = Query((("resources", "MEMORY_MB:1"),), "resources=MEMORY_MB%3A1", None)


class TakenHost(NamedTuple):
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
class PlannedDecision:
    """What was decided for one request.

    Attributes:
        chosen: The hosts of its first instances, in their order; the others find none.
        selections: For each instance the host and its alternates; empty if an instance finds no host.
        document: What led to it; None if all have hosts and no explanation was requested.
        queries: The queries for Placement; empty if a pre-filter refused the request.
    """

    chosen: list[TakenHost] = field(default_factory=list)
    selections: Selections = field(default_factory=list)
    document: documents.Decision | None = None
    queries: Sequence[Query] = ()

    @property
    def why(self) -> str:
        """What left an instance without a host, in one line."""
        return self.document.summary if self.document else ""


class Asked(NamedTuple):
    """The hosts that a request may have, before any filter.

    Attributes:
        hosts: The hosts that it offers and the plan does not close.
        usages: What is used of their providers.
    """

    request: SchedulingRequest
    hosts: HostView
    usages: Usages


class _Taken(Trace):
    """Notes also what instances take of their hosts.

    If they are decided separately, no guest starts from the fit of the one before, and no build runs any more
    when the next one comes.
    """

    def __init__(self, request: SchedulingRequest, names: Callable[[], Names], *, separately: bool) -> None:
        super().__init__(request, names=names)
        self._guest, self._progress, self._separately = request.guest, request.progress, separately
        self._is_fitted = bool(request.guest or request.pci_requests)
        self.chosen: list[TakenHost] = []

    def consumed(self, hosts: HostView, index: ViewIndex, candidate: AllocationCandidate | None) -> None:
        candidate = candidate or next(iter(hosts.candidates(index)), None)
        if candidate is None:  # of a rebuild, which stays where it is
            return
        topology = None
        if self._is_fitted:
            topology = hosts.coded("numa_topology")[index], hosts.coded("pci_stats")[index]
        self.chosen.append(TakenHost(int(hosts.table_rows[index]), candidate, topology))
        if self._separately:
            hosts.consume(int(index), num_io_ops=-1)
            self._progress.guest = self._guest


class _Unnoted(_Taken):
    """Notes nothing of filters and weighers: for decisions without a document."""

    def ranked(self, ranking: Ranking, totals: np.ndarray, order: Iterator[int]) -> None: ...


# -- what decisions read ---------------------------------------------------------------------------------


class Places(InstanceSource):
    """Where instances are in the plan, for rules and for server groups."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.rows = snapshot.instances.rows.copy()

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[HostKey]]:
        known = self._snapshot.instances.index_of
        found = ((uuid, known[uuid]) for uuid in uuids if uuid in known)
        return {uuid: [self._snapshot.place(self.rows[at])] for uuid, at in found if self.rows[at] >= 0}

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, Any]:
        """As the databases have them, for classes of operators."""
        return self._snapshot.hosts.instances.on_host(cell_uuid, host)

    def image_properties(self, places: Iterable[HostKey]) -> Mapping[HostKey, Sequence[Mapping[str, str]]]:
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
        """Return the answer, which is the same for equal queries."""
        key = tuple(map(without_limit, queries))
        if key not in self._found:
            self._found[key] = self._source.fetch(key, None)
        return self._found[key]

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


class PlannedWorld:
    """A ``decide.World``: nothing in it is late, and no other request changes it.

    Attributes:
        closed: Hosts that are not considered; bool, shape (hosts,).
        places: Where instances are by now.
        instances: The same, or the databases if the snapshot has only one host.
        offers: Placement's answers.
        pending: What the current decision reserves.
    """

    def __init__(self, snapshot: Snapshot, driver: FilterDriver) -> None:
        self._snapshot = snapshot
        self.driver = driver
        self.closed = np.zeros(len(snapshot.table), bool)
        self.places = Places(snapshot)
        self.instances: InstanceSource = self.places if snapshot.is_whole else snapshot.hosts.instances
        self.offers = Offers(snapshot.candidates)
        self.pending = PendingPlacements(snapshot.mirror.known.clock)
        self._mirrored = MirroredHosts(snapshot.mirror, self.instances, self.pending)
        self._mapped = np.array([snapshot.hosts.mapped(row.host) for row in snapshot.table.rows], bool)
        self._groups = ServerGroups()

    def queries(self, request: SchedulingRequest) -> tuple[Query, ...]:
        return self._snapshot.candidate_hosts.queries(request)

    def mirrored(self, request: SchedulingRequest) -> Offer | None:
        table = self._snapshot.table
        found = self._mirrored.find(request.queries, lambda: table, request.cell_uuid)
        return None if found is None else Offer(self._open(found[0]), found[1].usage)

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        return self.offers.find(request.queries)

    def offered(self, found: Candidates, request: SchedulingRequest, *, late: bool) -> Offer:
        table = self._snapshot.table
        fitting = self.offers.fitting(found)
        rows = table.find(found.by_root, request.cell_uuid)
        rows = TableRows(np.array([row for row in rows.tolist() if fitting[table.rows[row].uuid]], np.int64))
        candidates = CandidateLists(lambda position: fitting[table.rows[int(rows[position])].uuid])
        view = HostView.of(table, rows, candidates, self.instances, self.pending)
        return Offer(self._open(view), partial(self.offers.usage, found))

    def to_check(self, request: SchedulingRequest) -> HostView:
        table = self._snapshot.table
        rows = table.in_cell(TableRows(np.arange(len(table))), request.cell_uuid)
        return self._open(HostView.of(table, rows, None, self.instances, self.pending))

    def turn(self, request: SchedulingRequest) -> AbstractContextManager[SchedulingRequest]:
        source = self.places if self._snapshot.is_whole else self._snapshot.hosts
        return self._groups.serialized(request, source)

    def now(self) -> float:
        return self.pending.now()

    def _open(self, hosts: HostView) -> HostView:
        if not len(hosts):
            return hosts
        return hosts.where(self._mapped[hosts.table_rows] & ~self.closed[hosts.table_rows])


# -- the plan --------------------------------------------------------------------------------------------


class PlannedCloud:
    """Decides requests on a snapshot, one after the other.

    Attributes:
        snapshot: What it was made of; its table is charged.
        closed: Hosts that are not considered; bool, shape (hosts,).
        places: Where instances are by now.
        explainer: Explains requests that find no valid host.
    """

    def __init__(
        self, snapshot: Snapshot, conf: cfg.ConfigOpts | None = None, rules: Rules | None = None
    ) -> None:
        """Begin with the snapshot as it is.

        Args:
            snapshot: The cloud; one planned cloud at a time uses it.
            conf: Other options than those of the snapshot.
        """
        conf = snapshot.conf if conf is None else conf
        self.snapshot = snapshot
        self.conf = conf
        self.rules, driver = make_driver(conf, snapshot.hosts.mapped, rules=rules)
        self._world = PlannedWorld(snapshot, driver)
        self.closed, self.places = self._world.closed, self._world.places
        self._names = Names(snapshot.cell_names(), conf.default_availability_zone)
        self.explainer = FailureExplainer(
            table=lambda: snapshot.table,
            mirror=snapshot.mirror,
            placement=snapshot.placement,
            chain=lambda: self.rules.chain,
            is_mapped=snapshot.hosts.mapped,
            instances=self._world.instances,
            pending=self._world.pending,
            clock=snapshot.mirror.known.clock,
            closed=lambda: self.closed,
        )
        self._undo: list[Callable[[], None]] = []

    # -- decisions -------------------------------------------------------------------------------------------

    def decide(
        self,
        spec: objects.RequestSpec,
        uuids: Sequence[str],
        *,
        explain: bool | None = None,
        alternates: bool = False,
        separately: bool = False,
    ) -> PlannedDecision:
        """Decide for instances of one request; nothing is charged.

        Args:
            explain: Note what led to it; None: only if an instance finds no host.
            alternates: Choose alternates too.
            separately: Decide as for requests of one instance each, the next one after the build of the last.

        Raises:
            PlacementUnavailable: Placement does not answer a query that the mirror cannot answer.
        """
        request = SchedulingRequest.of(spec, uuids, with_alternates=alternates)
        decision = PlannedDecision()
        self.snapshot.keep_time()
        noted = _Unnoted if explain is False else _Taken
        trace = noted(request, lambda: self._names, separately=separately)
        error: BerthError | None = None
        try:
            if not request.is_rebuild:
                request = with_queries(request, self._world, trace)
            decision.selections = decide(request, self._world, NothingSent, trace).selections
        except BerthError as caught:
            if not isinstance(caught, NoValidHost | InvalidRequest) and not request.queries:
                raise
            error = caught
        finally:
            self._world.pending.remove(uuids)
        decision.chosen, decision.queries = trace.chosen, request.queries
        if explain or (error and explain is None):
            trace.finish(error, self.explainer.explain)
            decision.document = trace.decision
        trace.forget_pass()  # its ranking refers to the trace
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
        with offered(request, self._world, Trace(request)) as (offer, current):
            return Asked(current, offer.hosts, offer.usages)

    def failed(self, spec: objects.RequestSpec) -> FailedConstraints:
        """Return what each host fails of a request for a new instance; raises as ``ask``."""
        request = SchedulingRequest.of(spec, None)
        self.snapshot.keep_time()
        trace, hosts = Trace(request), None
        request = with_queries(request, self._world, trace)
        with suppress(NoValidHost), offered(request, self._world, trace) as (offer, _):
            hosts = offer.hosts
        return self.explainer.failed(Failure(request, request.queries, offered=hosts))

    def rank(self, spec: objects.RequestSpec, uuid: str) -> Ranking:
        """Return the hosts that an instance may have now, with their weights; raises as ``ask``."""
        asked = self.ask(spec, uuid)
        return self._world.driver.rank(asked.hosts, asked.request)

    def slots(self, amounts: Mapping[str, int]) -> np.ndarray:
        """Return how often Placement has amounts of mirrored classes left on each host; int64, (hosts,)."""
        answer = self.snapshot.mirror.find([ANY])
        if answer is None:
            return np.zeros(len(self.closed), np.int64)
        left = np.maximum(answer.nodes.capacity - answer.nodes.used, 0)
        found = np.min([left[CLASSES.index(name)] // amount for name, amount in amounts.items()], axis=0)
        return np.append(found, 0)[self._mirrored]

    @cached_property
    def _mirrored(self) -> np.ndarray:
        """The row of each host in the mirror, which gets no further rows; -1 for none; int64, (hosts,)."""
        return self.snapshot.mirror.known.nodes().rows([row.uuid for row in self.snapshot.table.rows])

    # -- changes ---------------------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """Where ``rewind`` goes back to."""
        return len(self._undo)

    def rewind(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Restore the cloud at the end: what is charged, and which hosts are closed."""
        mark = self.mark
        with self.restoring_closed():
            try:
                yield
            finally:
                self.rewind(mark)

    @contextmanager
    def restoring_closed(self) -> Iterator[None]:
        """Restore at the end which hosts are closed."""
        closed = self.closed.copy()
        try:
            yield
        finally:
            self.closed[:] = closed

    def open_only(self, rows: Sequence[int]) -> None:
        """Close all hosts but those in some rows."""
        self.closed[:] = True
        self.closed[list(rows)] = False

    def put(self, index: int | None, chosen: TakenHost, flavor: objects.Flavor) -> None:
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
        flavor = self.snapshot.flavor(index)
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
        self._world.offers.take(allocations, sign)

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
