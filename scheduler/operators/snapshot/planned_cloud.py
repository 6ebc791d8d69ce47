"""A cloud that plans change: requests are decided on a snapshot, and their hosts are charged to it.

Each charge can be undone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from scheduler.decisions.named_hosts import Names
from scheduler.decisions.trace import Trace
from scheduler.errors import BerthError, InvalidRequest, NoValidHost
from scheduler.filters.chain import Filtered
from scheduler.hosts.coordinates import TableRow, ViewIndex
from scheduler.hosts.view import HostView
from scheduler.operators.snapshot.planned_world import PlannedWorld
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.parts import make_driver
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.mirror import Allocations
from scheduler.placement.plain_query import CLASSES
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules.drivers import Rules
from scheduler.selection.alternates import Selections
from scheduler.selection.consume import consumed_amounts
from scheduler.selection.headroom import Usages
from scheduler.selection.ranking import Ranking
from scheduler.weights.scores import Scores
from scheduler.workflow.decide import decide, offered, with_queries

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

    def consumed(
        self, number: int, hosts: HostView, index: ViewIndex, candidate: AllocationCandidate | None
    ) -> None:
        super().consumed(number, hosts, index, candidate)
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

    def filtered(self, number: int, hosts: HostView, filtered: Filtered) -> None: ...

    def weighed(
        self, number: int, hosts: HostView, scores: Scores, totals: np.ndarray, order: Iterator[int]
    ) -> None: ...


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

        Raises:
            HostFilterNotFound: An enabled filter does not exist.
            ClassNotFound: A configured class does not exist.
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
