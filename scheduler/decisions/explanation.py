"""Why the hosts of a cloud do not suit a request that found no valid host.

When the request ends only what is in memory is used: the mirror's arrays, and the filters, which judge the
hosts that fail one constraint or none. Later Placement is asked for what is left open then: where trees,
sharing providers or numbered groups decide, once without each constraint that may be the one that left no
host, and for a few nodes that the mirror does not know well.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
import threading
import time
from typing import Any, TypeVar

import cachetools
import numpy as np
from oslo_log import log as logging

from scheduler.bounds import deadline
from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.constraints import Part, disabled_constraint, listed, parts_of, without
from scheduler.decisions.document import Constraint, Reason, Why
from scheduler.decisions.providers import OfferedHosts, PlacementQuestions
from scheduler.decisions.why_not import (
    NAMED,
    STALE,
    Explain,
    FailedConstraints,
    Limit,
    PlainJudge,
    Refusals,
    no_reasons,
)
from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.causes import group
from scheduler.filters.chain import FilterChain, PreparedChain
from scheduler.filters.compute_filter import ServiceUp
from scheduler.hosts.coordinates import TableRow, TableRows, ViewIndex
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import InstanceSource
from scheduler.hosts.rows import HostRow
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.placement.answer import AllocationCandidate, Candidates
from scheduler.placement.errors import PlacementError
from scheduler.placement.mirror import Nodes
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES
from scheduler.placement.providers import ProviderState
from scheduler.request.query import Query
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.request.targets import named_target
from scheduler.selection.headroom import Headroom

LOG = logging.getLogger(f"nova.{__name__}")

#: Queries of one explanation, and their seconds in all; compute nodes that are read, one of each kind.
MOST_QUESTIONS = 16
MOST_SECONDS = 5.0
MOST_READ = 16

#: Seconds for which what was read of a compute node, or the answer to a query, serves other explanations.
REMEMBERED_FOR = 10.0

#: Hosts whose candidates are compared with what earlier instances have used.
MOST_HOSTS = 1000

#: Rejected hosts whose reasons are computed for each filter.
EXPLAINED = 20

DISABLED = disabled_constraint()
MORE_THAN_ONE = Constraint("more than one constraint of the query", ConstraintKind.SEVERAL)
ONE_OR_MORE = Constraint("one or more constraints of the query", ConstraintKind.SEVERAL)
UNKNOWN = Constraint("something that is not known", ConstraintKind.SEVERAL)

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """What is known when a request ends.

    Attributes:
        table: Returns the hosts.
        mirror: What is known of Placement's compute nodes.
        chain: Returns the enabled filters.
        is_mapped: Whether a service host has a host mapping.
        pending: What other requests have decided.
        closed: Which hosts a plan leaves out; None: none.
    """

    table: Callable[[], HostTable]
    mirror: CandidateMirror
    questions: PlacementQuestions
    chain: Callable[[], FilterChain]
    is_mapped: Callable[[str], bool]
    instances: InstanceSource
    pending: PendingPlacements
    closed: Callable[[], np.ndarray] | None = None


@dataclass(frozen=True)
class Rejected:
    """The hosts that a filter rejected.

    Attributes:
        rows: Their rows; int64.
        reasons: The reasons for the first of them.
    """

    rows: np.ndarray
    reasons: Sequence[str]

    def explain(self, rows: np.ndarray, positions: np.ndarray) -> list[Reason]:
        """Return why some hosts were rejected, by their positions in ``rows``."""
        known = dict(zip(self.rows.tolist(), self.reasons, strict=False))
        pairs = [("", known[row]) for row in rows[positions].tolist() if row in known]
        complete = len(pairs) == len(positions)
        return [Reason(each.reason, each.count if complete else 0) for each in group(pairs)]


@dataclass
class Failure:
    """What a request saw until it failed.

    Attributes:
        offered: The hosts that were ranked last; None if there were none.
        judged: Those that the request itself allows, with what it has consumed of them.
        chain: The filters for them.
        number: The instance that has no host, from 0.
        placed: For each instance that had found one, the row of its host and what it took.
        rejected: The hosts that each filter rejected for that instance.
        refused: Why claims on hosts were refused, by row.
        answer: Placement's answer; None if the mirror named the hosts.
    """

    request: SchedulingRequest
    queries: Sequence[Query]
    offered: HostView | None = None
    judged: HostView | None = None
    chain: PreparedChain | None = None
    number: int = 0
    placed: Mapping[int, tuple[int, AllocationCandidate | None]] = field(default_factory=dict)
    rejected: Mapping[str, Rejected] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    answer: Candidates | None = None

    @property
    def shared(self) -> list[AllocationCandidate]:
        """What instances took from providers that other hosts share."""
        return [one for _, one in self.placed.values() if one is not None and len(one.roots) > 1]

    def charged(self, hosts: int) -> np.ndarray:
        """Return how many instances each host has of this request; int64, shape (hosts,)."""
        rows = [row for row, _ in self.placed.values()]
        return np.bincount(np.array(rows, np.int64), minlength=hosts) if rows else np.zeros(hosts, np.int64)


class FailureExplainer:
    """Explains failed requests. Any thread may use it."""

    def __init__(self, world: World, clock: Callable[[], float] = time.monotonic) -> None:
        self._world = world
        self._clock = clock
        self._lock = threading.Lock()
        self._states: cachetools.TTLCache[str, ProviderState | None] = cachetools.TTLCache(
            1024, REMEMBERED_FOR, timer=clock
        )
        self._answers: cachetools.TTLCache[str, OfferedHosts] = cachetools.TTLCache(
            256, REMEMBERED_FOR, timer=clock
        )

    def explain(self, failure: Failure, *, asks: bool = True) -> Why:
        """Return for which constraints each host does not suit.

        Args:
            asks: Whether Placement and nova's databases may be read. Without it what they would say is left
                open, and ``Why.incomplete`` says so.
        """
        table = self._world.table() if failure.offered is None else failure.offered.table
        one = _Explanation(self, self._world, failure, table, asks=asks)
        with limit_to(Deadline.after(MOST_SECONDS, self._clock)):
            return one.why()

    def failed(self, failure: Failure) -> FailedConstraints:
        """Return what each host of the table fails, by row."""
        return _Explanation(self, self._world, failure, self._world.table()).failed()

    def state(self, uuid: str) -> ProviderState | None:
        """Return what Placement has of a compute node, as of some seconds ago; the mirror learns it."""
        return self._remembered(self._states, uuid, self._read)

    def forget(self, uuid: str) -> None:
        """Forget what was read of a compute node."""
        with self._lock:
            self._states.pop(uuid, None)

    def _read(self, uuid: str) -> ProviderState | None:
        known = self._world.mirror.known
        begun, state = known.clock(), self._world.questions.provider(uuid)
        if state is not None and self._world.closed is None:  # what a plan charged must stay
            known.correct(state, begun)
        return state

    def offer(self, querystring: str, placed: Sequence[AllocationCandidate] = ()) -> OfferedHosts:
        """Return what Placement offers for a query, as of some seconds ago at most.

        Args:
            placed: What instances of the same request would hold.
        """
        if placed:
            return self._world.questions.offer(querystring, placed)
        return self._remembered(self._answers, querystring, self._world.questions.offer)

    def _remembered(self, known: cachetools.TTLCache[str, T], key: str, read: Callable[[str], T]) -> T:
        with self._lock:
            if key in known:
                return known[key]
        found = read(key)
        with self._lock:
            known[key] = found
        return found


class _Explanation:
    """One explanation. Arrays have an entry for each host of the table."""

    def __init__(
        self,
        explainer: FailureExplainer,
        world: World,
        failure: Failure,
        table: HostTable,
        *,
        asks: bool = True,
    ) -> None:
        self._asks = asks
        self._incomplete = False
        self._explainer = explainer
        self._world = world
        self._failure = failure
        self._request = failure.request
        self._table = table
        self._rows = TableRows(np.arange(len(table)))
        self._names = RequestNames(self._request.spec, table.aggregates)
        self._offered = np.isin(self._rows, failure.offered.table_rows) if failure.offered else self._none()
        self._charged = failure.charged(len(table))
        self._cut: dict[str, bool] = {}
        self._questions = 0
        self._notes: list[str] = []

    def why(self) -> Why:
        failed = self.failed()
        why = failed.why(lambda at: self._table.rows[TableRow(int(self._rows[at]))].host, self._cut)
        why.instances = len(self._request.instance_uuids)
        why.number, why.placed = self._failure.number + 1, len(self._failure.placed)
        why.notes, why.incomplete = self._notes, self._incomplete
        return why

    def failed(self) -> FailedConstraints:
        """Return what each host fails."""
        queries = [parts_of(query, self._names) for query in self._failure.queries]
        judges = [self._judge(parts) for parts in queries]
        others = self._of_request()
        query = self._judged(judges, queries)
        near = query.with_all(others).counts() <= 1
        self._of_filters(others, near | (len(near) == 1))
        judged = not any(map(self._unjudged, judges, queries))
        suitable = ~self._offered & (query.with_all(others).counts() == 0)
        if judged and not self._asks:
            self._leave_open(query, suitable)
        elif judged and self._read_suitable(judges, suitable):
            query = self._judged(judges, queries)
        if queries:
            (self._ask if self._asks else self._by_elimination)(queries[0], judges[0], query)
        self._of_charges([part for parts in queries for part in parts], query, others)
        query.merge(others)
        query.explain(DISABLED.text, self._reasons_of_disabled)
        self._of_claims(query)
        return query

    def _none(self) -> np.ndarray:
        return np.zeros(len(self._rows), bool)

    def _row(self, at: int) -> HostRow:
        return self._table.rows[TableRow(int(self._rows[at]))]

    # -- what Placement requires, by the mirror --------------------------------------------------------------

    def _judge(self, parts: Sequence[Part]) -> PlainJudge | None:
        """Return what judges hosts without a question; None if the mirror does not show what they have."""
        aggregates = {
            uuid
            for part in parts
            for parameter, value in part.gone
            if parameter == "member_of"
            for uuid in listed(value)
        }
        nodes = self._world.mirror.known_nodes(aggregates, reads=self._asks)
        if nodes is None:
            return None
        uuids = [self._table.rows[row].uuid for row in self._rows.tolist()]
        at = nodes.rows(uuids)
        if len(nodes):
            at[(at >= 0) & nodes.gone[at]] = -1
        absent = [uuids[one] for one in np.flatnonzero(at < 0).tolist()]
        if 0 < len(absent) <= MOST_READ and not self._asks:
            self._incomplete = True
        elif 0 < len(absent) <= MOST_READ and (states := self._states(absent)):
            rows = range(len(nodes), len(nodes) + len(states))
            nodes = nodes.with_more(uuid for uuid in states)
            for row, state in zip(rows, states.values(), strict=True):
                nodes.set_state(row, state)
            at = nodes.rows(uuids)
        return PlainJudge(nodes, at, self._charged, self._in_nova)

    def _in_nova(self, test: Callable[[frozenset[str]], bool]) -> np.ndarray:
        aggregates = self._table.coded["aggregates"].take(self._rows)
        return aggregates.spread(lambda of_host: test(of_host.uuids))

    def _states(self, uuids: Iterable[str]) -> dict[str, ProviderState]:
        """Return what Placement has of compute nodes, as far as it answers."""
        found: dict[str, ProviderState] = {}
        try:
            for uuid in uuids:
                if deadline.current().expired:  # which ends no read but that of candidates
                    break
                if state := self._explainer.state(uuid):
                    found[uuid] = state
        except PlacementError as error:
            LOG.debug("Cannot read resource providers: %s", error)
        return found

    def _judged(
        self, judges: Sequence[PlainJudge | None], queries: Sequence[Sequence[Part]]
    ) -> FailedConstraints:
        """Return what hosts fail of the query that they fail least of."""
        found = []
        for judge, parts in zip(judges, queries, strict=True):
            failed = FailedConstraints(len(self._rows))
            if judge is not None:
                for part in filter(judge.can_judge, parts):
                    judge.judge(part, failed)
                self._of_unknown(judge.unknown, parts, failed)
                failed.add(UNKNOWN, judge.doubtful)
            found.append(failed.without(self._offered & (self._charged == 0)))
        return reduce(
            FailedConstraints.or_easier, found, FailedConstraints(len(self._rows)) if not found else found[0]
        )

    def _of_unknown(self, unknown: np.ndarray, parts: Sequence[Part], failed: FailedConstraints) -> None:
        """Note hosts that the mirror has not: those without free memory, and those without a provider."""
        full = self._none()
        if unknown.any():
            nodes = set(self._world.mirror.full_nodes)
            full[[at for at in np.flatnonzero(unknown).tolist() if self._row(at).uuid in nodes]] = True
        for part in parts:
            if part.kind is ConstraintKind.AMOUNT and part.amounts[0][0] == "MEMORY_MB":
                failed.add(part.constraint, full)
        failed.add(UNKNOWN, full)
        failed.add(Constraint("a resource provider in Placement", ConstraintKind.PROVIDER), unknown & ~full)

    def _read_suitable(self, judges: Sequence[PlainJudge | None], suitable: np.ndarray) -> bool:
        """Read hosts that Placement has not offered although the mirror shows nothing against them.

        The mirror is older than Placement's answer, by a claim of another scheduler for one.

        Returns:
            Whether one was read.
        """
        if self._world.closed is not None:
            return False
        positions = np.flatnonzero(suitable)[:MOST_READ].tolist()
        for at in positions:
            self._explainer.forget(self._row(at).uuid)
        states = self._states(self._row(at).uuid for at in positions)
        for judge in filter(None, judges):
            for at in positions:
                if state := states.get(self._row(at).uuid):
                    judge.learn(at, state)
        return bool(states)

    # -- what Placement requires, by questions ---------------------------------------------------------------

    def _leave_open(self, query: FailedConstraints, hosts: np.ndarray) -> None:
        """Leave open what hosts fail, bool, shape (hosts,): only Placement knows it."""
        query.add(UNKNOWN, hosts)
        self._incomplete |= bool(hosts.any())

    def _by_elimination(
        self, parts: Sequence[Part], judge: PlainJudge | None, query: FailedConstraints
    ) -> None:
        """Note of hosts that were not offered what they may fail of what the mirror does not show."""
        unjudged = self._unjudged(judge, parts)
        if not unjudged:
            return
        answer, before = self._failure.answer, query.counts()
        certain = len(unjudged) == 1 and judge is not None and not (answer and answer.truncated)
        query.add(unjudged[0].constraint if certain else ONE_OR_MORE, ~self._offered & (before == 0))
        self._leave_open(query, ~self._offered & (before > 0))
        self._incomplete = True

    def _unjudged(self, judge: PlainJudge | None, parts: Sequence[Part]) -> list[Part]:
        return [
            part
            for part in parts
            if part.kind is not ConstraintKind.HOST and (judge is None or not judge.can_judge(part))
        ]

    def _ask(self, parts: Sequence[Part], judge: PlainJudge | None, query: FailedConstraints) -> None:
        """Find by queries without one part which hosts fail that part alone, where arrays do not show it."""
        unjudged = self._unjudged(judge, parts)
        if not unjudged:
            return
        before, fitting, left = query.counts(), self._offered.copy(), list[Part]()
        named = self._named(parts)
        if named is not None:
            # other hosts may lack nothing but to be the named one, and that one nothing but what others share
            host = next(part for part in parts if part.kind is ConstraintKind.HOST)
            offer = self._offer(host)
            anywhere = self._among(offer.nodes if offer else ())
            fitting |= anywhere & ~named
            query.add_alternative(host.constraint, anywhere & named)
        explained = fitting.copy()
        for part in parts:
            if part.kind is ConstraintKind.HOST:
                continue
            fails = before == 0 if part in unjudged else query.failed(part.constraint.text) & (before == 1)
            fails &= ~fitting
            if not fails.any():
                continue
            offer = self._offer(part)
            if offer is None:
                left.append(part)
                continue
            helped = fails & self._among(offer.nodes)
            if named is not None:
                # a query for one host leaves out what other providers share with it
                here = self._offer(part, host=self._row(int(np.flatnonzero(named)[0])).uuid)
                helped = (helped & ~named) | (fails & named & self._among(here.nodes if here else ()))
            self._cut[part.constraint.text] = offer.cut
            reasons = self._reasons_by_reading(part)
            query.add(part.constraint, helped & ~explained, reasons)
            query.add_alternative(part.constraint, helped & explained, reasons)
            explained |= helped
        rest = (before <= 1) & ~explained
        if len(unjudged) == 1:
            query.add(unjudged[0].constraint, rest)
            query.add(UNKNOWN, rest & (before == 0))
        else:
            query.add(ONE_OR_MORE if left else MORE_THAN_ONE, rest)
        if left:
            words = ", ".join(part.constraint.text for part in left)
            self._notes.append(f"Placement was not queried without {words}")

    def _named(self, parts: Sequence[Part]) -> np.ndarray | None:
        """Return which host the query is for; None if it names none, or if only one host is known."""
        uuids = [part.value for part in parts if part.kind is ConstraintKind.HOST]
        if not uuids or len(self._rows) == 1:
            return None
        named = self._among(uuids)
        return named if named.any() else None

    def _offer(self, part: Part, host: str | None = None) -> OfferedHosts | None:
        """Return what Placement offers without a part; None if that cannot be asked, or is not answered.

        Args:
            host: The one compute node that it is for; None: all that are known.
        """
        query = self._failure.queries[0]
        text = without(query, part, host=self._row(0).uuid if len(self._rows) == 1 else host)
        if text is None or self._questions >= MOST_QUESTIONS:
            return None
        self._questions += 1
        try:
            return self._explainer.offer(text, self._failure.shared)
        except PlacementError as error:
            LOG.debug("Placement does not answer %s: %s", text, error)
            return None

    def _among(self, uuids: Collection[str]) -> np.ndarray:
        found = self._none()
        found[self._table.find(uuids)] = True
        return found

    def _reasons_by_reading(self, part: Part) -> Explain:
        """Return what reads some hosts for the limits by which they refuse an amount."""
        if part.kind is not ConstraintKind.AMOUNT or part.amounts[0][0] not in CLASSES:
            return no_reasons
        name, amount = part.amounts[0]

        def reasons(positions: np.ndarray) -> Sequence[Reason]:
            some = positions[:NAMED]
            states = self._states(self._row(at).uuid for at in some.tolist())
            having = [state for state in states.values() if name in state.inventories]
            nodes = Nodes(state.uuid for state in having)
            for row, state in enumerate(having):
                nodes.set_state(row, state)
            here = np.arange(len(having))
            return Refusals(nodes, here, name, amount, np.zeros(len(having), np.int64)).reasons(here)

        return reasons

    # -- what the request itself, filters and claims require -------------------------------------------------

    def _of_request(self) -> FailedConstraints:
        failed, spec = FailedConstraints(len(self._rows)), self._request.spec
        cell = self._request.cell_uuid
        if cell is None:
            enabled = self._table.cell_enabled[self._rows]
            failed.add(Constraint("in an enabled cell", ConstraintKind.CELL), ~enabled)
        else:
            here = np.isin(self._rows, self._table.in_cell(self._rows, cell))
            failed.add(Constraint("in the cell of the instance", ConstraintKind.CELL), ~here)
        if named_target(spec) is not None:
            failed.add(Constraint(self._names.host(""), ConstraintKind.HOST), ~self._where(_is_named(spec)))
        if self._world.closed is not None:
            closed = self._world.closed()[self._rows]
            failed.add(Constraint("left out by the plan", ConstraintKind.IGNORED), closed)
        if spec.ignore_hosts:
            ignored = {name.lower() for name in spec.ignore_hosts}
            mask = self._where(lambda row: row.host.lower() in ignored)
            failed.add(Constraint("ignored by the request", ConstraintKind.IGNORED), mask)
        return failed

    def _where(self, test: Callable[[HostRow], bool]) -> np.ndarray:
        rows = self._table.rows
        return np.fromiter((test(rows[row]) for row in self._rows.tolist()), bool, len(self._rows))

    def _of_filters(self, failed: FailedConstraints, near: np.ndarray) -> None:
        """Let all filters judge the hosts that were offered, and those that fail one constraint or none."""
        failure = self._failure
        if _is_forced(self._request.spec):
            return
        chain = failure.chain
        if chain is None or not chain.rules:  # no host was left for it to judge
            chain = self._world.chain().prepare(self._request)
        judged = self._none()
        for name, rejected in failure.rejected.items():
            mask = np.isin(self._rows, rejected.rows)
            constraint = Constraint(name, ConstraintKind.FILTER, filter=name)
            failed.add(constraint, mask, partial(rejected.explain, self._rows))
        if failure.judged is not None and len(failure.judged):
            judged = np.isin(self._rows, failure.judged.table_rows)
            view = failure.judged.where(np.ones(len(failure.judged), bool))
            Rejections(chain, view, self._rows).note(failed)
        others = self._rows[near & ~judged]
        if len(others):
            rows = TableRows(others)
            stand_ins = CandidateLists(lambda at: (_stand_in(self._table.rows[rows[at]].uuid),))
            world = self._world
            view = HostView.of(self._table, rows, stand_ins, world.instances, world.pending)
            if failure.judged is not None and len(failure.judged):
                view.share_instances(failure.judged)
            try:
                if self._asks:
                    view.load(chain.needs)
            except Exception as error:  # noqa: BLE001 - whatever a database raises, the request has failed already
                LOG.debug("Cannot read the instances that filters need: %s", error)
            self._incomplete |= not Rejections(chain, view, self._rows).note(failed)

    def _reasons_of_disabled(self, known: Explain) -> Explain:
        """Add hosts that are disabled in Placement only: to enable their services does not help."""

        def reasons(positions: np.ndarray) -> Sequence[Reason]:
            disabled = self._table.numbers["service_disabled"][self._rows[positions]]
            stale = int(np.count_nonzero(~disabled))
            found = list(known(positions[disabled])) if disabled.any() else []
            return [*found, *([Reason(STALE, stale)] if stale else [])]

        return reasons

    def _of_charges(self, parts: Sequence[Part], query: FailedConstraints, others: FailedConstraints) -> None:
        """Note which amounts the instances before have used up on hosts that were offered."""
        failure = self._failure
        if not failure.placed or failure.answer is None:
            return
        taken = Headroom(failure.answer.usage)
        for _, candidate in failure.placed.values():
            if candidate is not None:
                taken.plan(candidate)
        near = self._offered & (query.with_all(others).counts() <= 1)
        used: dict[str, np.ndarray] = {}
        for at in np.flatnonzero(near)[:MOST_HOSTS].tolist():
            # not those of the view, which filters have narrowed
            candidates = failure.answer.by_root.get(self._row(at).uuid, ())
            classes = min((taken.lacking(one) for one in candidates), key=len, default=frozenset())
            for part in parts:
                text = part.constraint.text
                if classes & {name for name, _ in part.amounts} and not query.failed(text)[at]:
                    used.setdefault(text, self._none())[at] = True
        for part in parts:
            if (mask := used.get(part.constraint.text)) is not None:
                query.add(part.constraint, mask)
                query.explain(part.constraint.text, partial(_with_used, mask))

    def _of_claims(self, failed: FailedConstraints) -> None:
        rows = self._rows.tolist()
        near = failed.counts()
        mapped = self._none()
        mapped[near > 1] = True
        for at in np.flatnonzero(near <= 1).tolist():
            mapped[at] = self._world.is_mapped(self._table.rows[TableRow(rows[at])].host)
        failed.add(Constraint("a host mapping", ConstraintKind.MAPPING), ~mapped)
        refused = self._failure.refused
        mask = np.isin(self._rows, list(refused)) & (failed.counts() == 0)

        def reasons(positions: np.ndarray) -> Sequence[Reason]:
            causes = group((str(rows[at]), refused[rows[at]]) for at in positions.tolist())
            return [Reason(cause.reason, cause.count) for cause in causes]

        failed.add(Constraint("a claim that Placement grants", ConstraintKind.CLAIM), mask, reasons)


def _with_used(used: np.ndarray, known: Explain) -> Explain:
    """Return what adds to the reasons which hosts have what the instances before have used."""

    def reasons(positions: np.ndarray) -> Sequence[Reason]:
        here, others = positions[used[positions]], positions[~used[positions]]
        found = list(known(others)) if len(others) else []
        if len(here):
            found.append(Reason("used by the instances before", len(here), Limit.FREE))
        return found

    return reasons


def _is_forced(spec: Any) -> bool:
    check = (read(spec, "scheduler_hints") or {}).get("_nova_check_type")
    return bool(not check and (read(spec, "force_hosts") or read(spec, "force_nodes")))


def _is_named(spec: Any) -> Callable[[HostRow], bool]:
    """Return what tests whether a request allows a host; names of forced hosts compare without case."""
    destination = read(spec, "requested_destination")
    host, node = read(destination, "host"), read(destination, "node")
    hosts = {name.lower() for name in read(spec, "force_hosts") or ()}
    nodes = set(read(spec, "force_nodes") or ())
    return lambda row: (
        host in (None, row.host)
        and node in (None, "", row.nodename)
        and (not hosts or row.host.lower() in hosts)
        and (not nodes or row.nodename in nodes)
    )


def _stand_in(uuid: str) -> AllocationCandidate:
    """Return a candidate for a host that Placement does not offer."""
    return AllocationCandidate.of(uuid, (uuid,), {}, {"": [uuid]})


class Rejections:
    """What all filters say of some hosts, also of those that an earlier one rejects."""

    def __init__(self, chain: PreparedChain, view: HostView, rows: TableRows) -> None:
        """Judge the hosts of a view.

        Args:
            rows: The rows of the hosts that are explained.
        """
        self._chain = chain
        self._view = view
        position_of = np.full(int(rows.max()) + 1 if len(rows) else 0, -1)
        position_of[rows] = np.arange(len(rows))
        known = view.table_rows < len(position_of)
        self._positions = np.where(known, position_of[np.where(known, view.table_rows, 0)], -1)
        self._hosts = len(rows)

    def note(self, failed: FailedConstraints) -> bool:
        """Note which hosts the filters reject; return whether all filters could say it."""
        # also those that judge once a request: hosts that they rejected for the first instance are still out
        complete = True
        for rule, judge in self._chain.rules:
            complete &= judge is None or self._note(rule, judge, failed)
        return complete

    def _note(self, rule: HostFilter, judge: Judge, failed: FailedConstraints) -> bool:
        try:
            verdict = judge.passes(self._view)
        except Exception as error:  # noqa: BLE001 - of a class of an operator, too
            LOG.debug("Filter %s does not judge the hosts: %s", rule.name, error)
            failed.add(UNKNOWN, self._mask(np.ones(len(self._view), bool)))
            return False
        rejected = np.ones(len(self._view), bool) if verdict is None else ~np.asarray(verdict, bool)
        if isinstance(judge, ServiceUp):
            disabled = self._view.numbers("service_disabled")
            failed.add(DISABLED, self._mask(disabled), self._reasons(judge))
            rejected = ~judge.up(self._view)
        failed.add(
            Constraint(rule.name, ConstraintKind.FILTER, filter=rule.name),
            self._mask(rejected),
            self._reasons(judge),
        )
        return True

    def _mask(self, rejected: np.ndarray) -> np.ndarray:
        mask = np.zeros(self._hosts, bool)
        positions = self._positions[rejected]
        mask[positions[positions >= 0]] = True
        return mask

    def _reasons(self, judge: Judge) -> Explain:
        def reasons(positions: np.ndarray) -> Sequence[Reason]:
            indices = np.flatnonzero(np.isin(self._positions, positions))
            some = self._view.at(indices[:EXPLAINED])
            pairs = [(row.host, judge.reason(some.host(ViewIndex(at)))) for at, row in enumerate(some.rows)]
            complete = len(positions) <= EXPLAINED and len(pairs) == len(positions)
            return [Reason(each.reason, each.count if complete else 0) for each in group(pairs)]

        return reasons
