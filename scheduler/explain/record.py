"""What is kept of one decision: references and bit masks while it is in memory, no texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
import threading
from typing import Any, NamedTuple

import numpy as np

from scheduler.explain.relaxation import Relaxation
from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.chain import PreparedChain
from scheduler.hosts.coordinates import TableRows, ViewPosition, ViewPositions
from scheduler.hosts.request_instances import KnownInstances
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.objects import Selection
from scheduler.placement.claim_events import ClaimEvent
from scheduler.request.progress import Progress
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.scores import FrozenScores, SomeWeights, Weight

#: Hosts whose weights are kept.
BEST = 10

#: Bytes that the request, its chain and the texts of a record take, more or less.
BASE_SIZE = 16 * 1024

#: Bytes of the allocation candidates of one host, which are kept for NUMA and PCI requests only.
CANDIDATES_SIZE = 600

#: Bytes of one row of a table that other records do not share.
ROW_SIZE = 256


class StepRecord(NamedTuple):
    """What one filter did.

    Attributes:
        rule: The filter.
        judge: What it prepared for the request; None if it did not apply.
        start: The number of hosts that it was given.
        end: The number of hosts that passed.
        packed: Which passed, as bits; None if all did.
    """

    rule: HostFilter
    judge: Judge | None
    start: int
    end: int
    packed: np.ndarray | None

    def kept(self) -> np.ndarray:
        """Return which hosts passed: bool, shape (start,)."""
        if self.packed is None:
            return np.ones(self.start, dtype=bool)
        return np.unpackbits(self.packed, count=self.start).astype(bool)


@dataclass(frozen=True, slots=True)
class Moment:
    """What verdicts depended on beside the table, at the time of a round that turned hosts down.

    Attributes:
        progress: A copy of the request's progress.
        instances: Where the instances were that rules asked for.
        pending: Positions with pending placements of other requests, and what these add to the counters.
        consumed: How many hosts the request had consumed from; see ``DecisionRecord.consumed``.
    """

    progress: Progress
    instances: KnownInstances
    pending: tuple[ViewPositions, np.ndarray]
    consumed: int


class Round(NamedTuple):
    """One run of the filters.

    Attributes:
        number: The number of the instance, from 0.
        instance_uuid: The instance.
        start: The number of hosts.
        chain: The filters, prepared for the request.
        rejecting: What each filter did, if one of them turned a host down; None if all hosts passed.
        moment: What the verdicts depended on; None if no host was turned down.
    """

    number: int
    instance_uuid: str
    start: int
    chain: PreparedChain
    rejecting: tuple[StepRecord, ...] | None = None
    moment: Moment | None = None

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """What each filter did, in order; filters after one that left no host did nothing."""
        if self.rejecting is not None:
            return self.rejecting
        return tuple(
            StepRecord(rule, judge, self.start, self.start, None)
            for rule, judge in self.chain.rules
            if rule.run_filter_for_index(self.number)
        )

    @property
    def end(self) -> int:
        """The number of hosts that passed all filters."""
        return self.steps[-1].end if self.steps else self.start


class Consumed(NamedTuple):
    """A host after an instance was charged to it.

    Attributes:
        position: The host.
        values: Dictionary-encoded values that the charge replaced, by column.
    """

    position: ViewPosition
    values: dict[str, Any]


@dataclass(slots=True, eq=False)
class HostData:
    """What is needed to explain single hosts; dropped before the rest when memory is short.

    Attributes:
        table: The table that decided.
        rows: The row of each offered host, int32; positions below are indices of it.
        excluded: The positions of the hosts that the request itself leaves out, by reason.
        chain: The filters, prepared for the request.
        request: The request that they were prepared for.
        offered: The view of the offered hosts, for their candidates; None unless rules look at these.
        rounds: The runs of the filters, in order. Each began with the hosts that the one before left.
        consumed: The hosts that were charged, in order.
    """

    table: HostTable
    rows: np.ndarray
    excluded: tuple[tuple[str, np.ndarray], ...]
    chain: PreparedChain
    request: SchedulingRequest
    offered: HostView | None
    rounds: list[Round] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        """Bytes, without the table, which records share."""
        masks = sum(
            step.packed.nbytes
            for each in self.rounds
            for step in each.rejecting or ()
            if step.packed is not None
        )
        excluded = sum(positions.nbytes for _, positions in self.excluded)
        candidates = 0 if self.offered is None else CANDIDATES_SIZE * len(self.rows)
        return self.rows.nbytes + excluded + masks + candidates + 200 * len(self.rounds)


class StepCount(NamedTuple):
    """How many hosts a filter was given and left; ``name`` is the filter's."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a filter turned hosts down, from a sample of them.

    Attributes:
        filter: The name of the filter; "" if the request itself turned them down.
        reason: The reason.
        hosts: The first service hosts of the sample with this reason.
        count: How many of the sample have it.
    """

    filter: str
    reason: str
    hosts: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class RankedHost:
    """One of the best hosts of the first instance.

    Attributes:
        host: The service host.
        node: The name of the compute node.
        total: The total weight.
        weights: What each weigher says; empty for a host that was alone.
    """

    host: str
    node: str
    total: float
    weights: tuple[Weight, ...]


@dataclass(frozen=True, slots=True)
class BestHosts:
    """The best hosts of the first instance, best first.

    Attributes:
        names: Service host and node of each.
        totals: float64, shape (hosts,).
        columns: Their weights by weigher.
    """

    names: tuple[tuple[str, str], ...] = ()
    totals: Sequence[float] = ()
    columns: Sequence[SomeWeights] = ()

    def __iter__(self) -> Iterator[RankedHost]:
        for index, (host, node) in enumerate(self.names):
            weights = tuple(column.of(index) for column in self.columns)
            yield RankedHost(host, node, float(self.totals[index]), weights)

    @property
    def nbytes(self) -> int:
        """Bytes that are worth counting: none."""
        return 0

    def settled(self) -> "BestHosts":
        """Return itself."""
        return self


NO_BEST = BestHosts()


class WeighedHosts:
    """All hosts of the first instance with their weights, of which the best are looked for when asked."""

    __slots__ = ("_best", "_rows", "_scores", "_table", "_totals")

    def __init__(self, table: HostTable, rows: TableRows, totals: np.ndarray, scores: FrozenScores) -> None:
        """Keep what a decision knew.

        Args:
            table: The table that decided.
            rows: The row of each host.
            totals: Their totals, float64, shape (hosts,).
            scores: What each weigher says of them.
        """
        self._table = table
        self._rows = rows
        self._totals = totals
        self._scores = scores
        self._best: BestHosts | None = None

    def __iter__(self) -> Iterator[RankedHost]:
        return iter(self.settled())

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._rows.nbytes + self._totals.nbytes + self._scores.nbytes

    def settled(self) -> BestHosts:
        """Return the best hosts alone."""
        if self._best is None:
            indices = best_indices(self._totals, BEST)
            rows = [self._table.rows[row] for row in self._rows[indices].tolist()]
            names = tuple([(row.host, row.nodename) for row in rows])
            self._best = BestHosts(names, self._totals[indices], self._scores.weights(indices))
        return self._best


def best_indices(totals: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the largest totals, largest first; equal ones in their order."""
    if len(totals) > count:
        limit = np.partition(totals, -count)[-count]
        above = np.flatnonzero(totals > limit)
        indices = np.concatenate([above, np.flatnonzero(totals == limit)[: count - len(above)]])
    else:
        indices = np.arange(len(totals))
    return indices[np.argsort(-totals[indices], kind="stable")]


class ChosenHost(NamedTuple):
    """The host of an instance, as (host, node), and its alternates."""

    instance_uuid: str
    host: tuple[str, str]
    alternates: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class CandidateSource:
    """Where the candidates came from.

    Attributes:
        name: ``placement``, ``coalesced`` (one answer of Placement for several requests), ``mirror``,
            ``table`` (rebuild checks) or ``held`` (by the instances of a redelivered request); "" if none
            were looked for.
        offered: The number of compute nodes.
        known: How many of them the table has in cells that take part; None if that was not looked at.
        age: Seconds, at the time of the decision, since the answer was asked for.
        sent_at: When the query was sent, monotonic seconds, by which shared answers are recognised.
        requests: The number of requests that waited for the same answer.
        truncated: Whether a limit may have cut the answer.
        reason: Why there are none.
        failed: Whether Placement gave no answer, so that it is not known which there are.
    """

    name: str = ""
    offered: int = 0
    known: int | None = None
    age: float = 0.0
    sent_at: float = 0.0
    requests: int = 1
    truncated: bool = False
    reason: str = ""
    failed: bool = False

    @property
    def asked(self) -> str:
        """What was asked, however many requests shared the answer."""
        return "placement" if self.name == "coalesced" else self.name


@dataclass(slots=True, eq=False)
class DecisionRecord:
    """One decision.

    Attributes:
        request: The request.
        request_id: The id of the request, as in log lines.
        started_at: Seconds since the epoch.
        queries: The query strings for Placement.
        candidates: Where the candidates came from.
        allowed: The number of hosts that the request itself allows; None if no host was looked at.
        excluded: Why others are not.
        rejections: Why, for a request of which no host was left.
        later_counts: What each filter did for the last instance, if ``hosts`` does not have its round.
        best: The best hosts of the first instance.
        selections: For each instance the chosen host and its alternates, as they were answered.
        claims: The events of all claims, by instance.
        times: Seconds by stage.
        error: The name of the exception's class and its text; None for a request that was served.
        summary: The reason for a failure in one line.
        relaxed: What Placement would offer without some constraints, once that was found out.
        relaxed_at: When that was found out, in seconds since the epoch; 0: not yet.
        hosts: What explains single hosts; None once it was dropped.
        counted: Bytes that were counted for the record when it was kept.
        partition: The partition that decided; "" if there are none.
    """

    request: SchedulingRequest
    request_id: str
    started_at: float
    queries: tuple[str, ...] = ()
    candidates: CandidateSource = field(default_factory=CandidateSource)
    allowed: int | None = None
    excluded: tuple[Rejection, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    later_counts: tuple[StepCount, ...] = ()
    best: BestHosts | WeighedHosts = NO_BEST
    selections: Sequence[Sequence[Selection]] = ()
    claims: dict[str, Sequence[ClaimEvent]] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    error: tuple[str, str] | None = None
    summary: str = ""
    relaxed: tuple[Relaxation, ...] = ()
    relaxed_at: float = 0.0
    hosts: HostData | None = None
    counted: int = 0
    partition: str = ""
    _counts: tuple[StepCount, ...] = ()
    _chosen: tuple[ChosenHost, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that the record keeps from being freed, without the table; an estimate."""
        return BASE_SIZE + self.best.nbytes + (self.hosts.size if self.hosts else 0)

    @property
    def chosen(self) -> tuple[ChosenHost, ...]:
        """The chosen hosts and their alternates."""
        if self.selections and not self._chosen:
            self._chosen = tuple(
                ChosenHost(uuid, _names(first), tuple(map(_names, others)))
                for uuid, (first, *others) in zip(self.request.instance_uuids, self.selections, strict=True)
            )
        return self._chosen

    @property
    def last_counts(self) -> tuple[StepCount, ...]:
        """What each filter did for the last instance that was judged."""
        if self.later_counts or self.hosts is None:
            return self.later_counts or self._counts
        steps = self.hosts.rounds[-1].steps if self.hosts.rounds else ()
        return tuple(StepCount(each.rule.name, each.start, each.end) for each in steps)

    def drop_hosts(self) -> None:
        """Drop what explains single hosts; counts, and the weights of the best hosts, stay."""
        self._counts = self.last_counts
        self.best = self.best.settled()
        self.hosts = None


def _names(selection: Selection) -> tuple[str, str]:
    return selection.service_host, selection.nodename
