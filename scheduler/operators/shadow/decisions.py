"""Deciding a copy without claims.

It is decided twice: with the placements that no compute has reported yet, as Berth would, and without them,
as nova-scheduler does, so that a difference can be distinguished from them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import zip_longest
import math
from typing import Any, Self

import numpy as np
from oslo_config import cfg

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.claims.session import NothingSent
from scheduler.decisions.trace import Trace
from scheduler.errors import BerthError, NoValidHost
from scheduler.hosts.coordinates import TableRow, TableRows, ViewIndex
from scheduler.hosts.pending import AMOUNTS, Amounts, PendingPlacement, PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.manager import DECISIONS_TIMEOUT, MIRROR_START_TIMEOUT, SchedulerManager
from scheduler.operators.shadow.copies import Copy
from scheduler.parts import Outside, no_stream, put_together
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.instance_state import OVER
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rpc.notifications import Notifications
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.ranking import Ranking
from scheduler.workflow.decide import decide, with_queries
from scheduler.workflow.world import host_of_provider

#: Seconds for one decision: no caller waits for it.
LONGEST = 60.0

#: Weights that differ by less are equal.
EQUAL = 1e-9

#: What changes if a host gets fuller, in the order of ``AMOUNTS``: free memory and disk, and what is in use.
FULLER = np.array([[-1 if name.startswith("free_") else 1] for name in AMOUNTS])

#: What an instance takes as long as it is on a host, in the same order: not the work of its build.
LASTING = np.array([name != "num_io_ops" for name in AMOUNTS])

#: Hosts whose weights are kept for an instance. Of those that weigh less none is compared.
MOST_RANKED = 256


@dataclass(frozen=True)
class Choice:
    """What was chosen for one instance, and among which hosts.

    Attributes:
        node: The UUID of the compute node.
        best: The rows of the table of the hosts that weigh most, at most ``MOST_RANKED``.
        weights: What each of them weighs.
        ranked: The rows of all hosts that weigh as much as the least of these or more, packed into bits.
    """

    node: str
    best: np.ndarray
    weights: np.ndarray
    ranked: np.ndarray

    def heavier(self, row: TableRow) -> np.ndarray | None:
        """Return the rows of the hosts that weigh more than that of a row; None if that is not among them."""
        if not np.unpackbits(self.ranked)[row]:
            return None
        own = self.weights[self.best == row]
        return self.best[self.weights > (own[0] if len(own) else self.weights.min()) + EQUAL]


@dataclass(frozen=True)
class Changes:
    """The nodes that changed between two decisions, as far as a decision can depend on it.

    Attributes:
        fuller: Something takes more of them: they may weigh less in the second decision.
        freer: Something takes less of them: they may weigh more in it.
    """

    fuller: AbstractSet[str] = frozenset()
    freer: AbstractSet[str] = frozenset()


UNCHANGED = Changes()


@dataclass(frozen=True)
class ShadowDecision:
    """What Berth would have answered.

    Attributes:
        request_id: The id of the request.
        instance_uuids: Its instances.
        table: The hosts.
        subset: One of so many best hosts is chosen.
        choices: For each instance what was chosen; empty if there was no host.
        unreported: The same without placements that no compute has reported.
        pending: What such placements of other requests took of their nodes, in the order of ``AMOUNTS``.
        reserved: What each instance takes of its host, for ``ShadowManager.follow``.
        refusal: Why there was no host; "" if there was one.
        seconds: How long the first of the two decisions took.
    """

    request_id: str
    instance_uuids: Sequence[str]
    table: HostTable
    subset: int = 1
    choices: Sequence[Choice] = ()
    unreported: Sequence[Choice] = ()
    pending: Mapping[str, Amounts] = field(default_factory=dict)
    reserved: Sequence[PendingPlacement] = ()
    refusal: str = ""
    seconds: float = 0.0

    def may_be(
        self, choices: Sequence[Choice], nodes: Mapping[str, str], changes: Changes = UNCHANGED
    ) -> bool:
        """Return whether instances may be on other nodes than those chosen for them.

        That is so if no more hosts than ``subset`` allows weigh more than that of an instance, or if that has
        become freer.

        Args:
            nodes: The node of each instance.
            changes: The nodes that may weigh less or more than they did here.
        """
        known = self.table.row_of_uuid
        others = [known[node] for node in changes.fuller if node in known]
        for choice, instance in zip_longest(choices, self.instance_uuids):
            if choice is not None and nodes.get(instance) in changes.freer:
                continue
            row = known.get(nodes.get(instance, ""))
            heavier = None if choice is None or row is None else choice.heavier(row)
            if heavier is None or (~np.isin(heavier, others)).sum() >= self.subset:
                return False
        return True


class BestHosts(Trace):
    """Notes for each instance also which hosts weighed most.

    Attributes:
        choices: What was chosen.
        table: The hosts; None before any were ranked.
    """

    def __init__(
        self, request: SchedulingRequest, subset: int, is_mapped: Callable[[str], bool], **options: Any
    ) -> None:
        """Note nothing yet.

        Args:
            subset: One of so many best hosts is chosen.
            is_mapped: Whether a service host has a host mapping; others are never chosen.
            options: Those of ``Trace``.
        """
        super().__init__(request, **options)
        self._size, self._is_mapped = max(MOST_RANKED, subset), is_mapped
        self.choices: list[Choice] = []
        self.table: HostTable | None = None

    def begin(self, ranking: Ranking) -> None:
        super().begin(ranking)
        self.table, self.choices = ranking.offered.table, []

    def ranked(self, ranking: Ranking, totals: np.ndarray, order: Iterator[int]) -> None:
        super().ranked(ranking, totals, order)
        hosts = ranking.hosts
        mapped = np.array([self._is_mapped(row.host) for row in hosts.rows], bool)
        rows, totals = hosts.table_rows[mapped], totals[mapped]
        size = min(self._size, len(totals))
        best = np.argpartition(totals, -size)[-size:] if size else np.arange(0)
        ranked = np.zeros(len(hosts.table), bool)
        ranked[rows[totals >= totals[best].min(initial=np.inf) - EQUAL]] = True
        self._ranked = rows[best], totals[best], np.packbits(ranked)

    def consumed(self, hosts: HostView, index: ViewIndex, candidate: AllocationCandidate | None) -> None:
        self.choices.append(Choice(hosts.row(index).uuid, *self._ranked))


class ShadowManager(SchedulerManager):
    """Decides requests without effects."""

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "ShadowManager":
        """Put the parts together; nothing is connected to yet.

        Raises:
            BerthError: The options cannot work.
        """
        parts = put_together(conf, Outside.from_conf(conf), make_stream=no_stream)
        return cls(conf, Notifications(()), parts)

    def start(self) -> None:
        """Begin to read hosts and Placement, and nothing else."""
        self._placement.start()
        self.hosts.start()
        self._mirror.start()
        self.decisions.start()

    def wait_until_mirrored(self) -> None:
        """Wait for the first reading of Placement, for a bounded time; without it Placement is asked."""
        self._mirror.wait_until_tried(MIRROR_START_TIMEOUT)

    def stop_reading(self) -> None:
        """End what ``start`` has begun."""
        self.decisions.stop(DECISIONS_TIMEOUT)
        self._mirror.stop()
        self.hosts.stop()

    def decide(self, copy: Copy) -> ShadowDecision:
        """Return what would be decided now. Nothing is claimed.

        Its placements stay pending, as those of a scheduler that serves, until ``follow`` replaces them.

        Raises:
            BerthError: It cannot be decided now: a dependency is unavailable, or the request cannot be read.
        """
        begun = self._clock()
        request = SchedulingRequest.of(
            copy.spec, copy.instance_uuids, copy.context, deadline=begun + LONGEST, arrived_at=begun
        )
        subset, refusal = self.conf.filter_scheduler.host_subset_size, ""
        trace = BestHosts(request, subset, self.hosts.mapped, clock=self._clock, names=self.names)
        with limit_to(Deadline(request.deadline, self._clock)):
            try:
                with self.decisions.recording(trace):
                    request = with_queries(request, self.world, trace)
                    decide(request, self.world, NothingSent, trace)
            except NoValidHost as error:
                refusal = str(error)
            seconds = self._clock() - begun
            reserved = [self.hosts.pending.get(uuid) for uuid in copy.instance_uuids]
            table = trace.table or self.hosts.snapshot(math.inf)
            decision = ShadowDecision(
                copy.context.request_id or "",
                copy.instance_uuids,
                table,
                subset,
                () if refusal else trace.choices,
                () if refusal else self._decide_unreported(request.restarted()),
                self._pending_on(table),
                [each for each in reserved if each],
                refusal,
                seconds,
            )
        for placement in decision.reserved:
            self._count(decision, placement, placement.node)
        return decision

    def _decide_unreported(self, request: SchedulingRequest) -> Sequence[Choice]:
        """Return what would be chosen without placements that no compute has reported."""
        parts = self.parts
        alone = MirroredHosts(parts.mirror, parts.hosts.instances, PendingPlacements())
        world = replace(self.world, mirrored_hosts=alone)
        subset = self.conf.filter_scheduler.host_subset_size
        trace = BestHosts(request, subset, parts.hosts.mapped, clock=self._clock)
        try:
            decide(request, world, NothingSent, trace)
        except BerthError:
            return ()
        finally:
            self.hosts.pending.remove(request.instance_uuids)
            trace.forget_pass()
        return trace.choices

    def _pending_on(self, table: HostTable) -> Mapping[str, Amounts]:
        pending = self.hosts.pending.overlay(table, TableRows(np.arange(len(table))))
        # Copies: a column of the array would keep all of it, for as long as a comparison waits
        return {table.rows[row].uuid: pending[:, row].copy() for row in np.flatnonzero(pending.any(axis=0))}

    def changes_since(self, decision: ShadowDecision, nodes: Mapping[str, str]) -> Changes:
        """Return how hosts have changed since a decision, without its own instances.

        Args:
            nodes: The node of each of them, which ``follow`` counts.
        """
        # When the second reading begins, what computes had reported by the first one is not pending any more
        self.hosts.snapshot(0)
        now = self.hosts.snapshot(0)
        kept = [node for node in decision.table.row_of_uuid if node in now.row_of_uuid]
        column = {node: number for number, node in enumerate(kept)}
        before, after = _amounts(decision.table, kept), _amounts(now, kept)
        after += self.hosts.pending.overlay(now, _rows(now, kept))
        # Its own builds may have ended meanwhile, which makes no host freer than before
        own = [(nodes.get(each.instance, ""), each.amounts * LASTING) for each in decision.reserved]
        for node, amounts in [*decision.pending.items(), *own]:
            if node in column:
                before[:, column[node]] += amounts
        change = (after - before) * FULLER
        return Changes(
            {kept[number] for number in np.flatnonzero((change > 0).any(axis=0))},
            {kept[number] for number in np.flatnonzero((change < 0).any(axis=0))},
        )

    def held_nodes(self, copy: Copy) -> dict[str, str]:
        """Return the compute nodes that instances hold in Placement; without those that hold none.

        A host that the request ignores is left out: an evacuated instance holds its source, too.

        Raises:
            PlacementSilent: Placement gives no answer.
        """
        table, ignored = self.hosts.snapshot(math.inf), set(copy.spec.ignore_hosts or ())
        held = self._claims.read(copy.instance_uuids)
        return {
            uuid: node
            for uuid, one in held.items()
            for node in one.allocations
            if node in table.row_of_uuid and host_of_provider(table, node) not in ignored
        }

    def nobody_waits(self, instance_uuids: Collection[str]) -> bool:
        """Return whether nova has given up, deleted or placed all instances."""
        return OVER.issuperset(self._claims.states_of(instance_uuids, ()).values())

    def follow(self, decision: ShadowDecision, nodes: Mapping[str, str]) -> None:
        """Count what was chosen until computes report it, in place of what is counted for the instances.

        Args:
            nodes: Instance -> the UUID of its compute node; empty: it has none.
        """
        for placement in decision.reserved:
            # One on the decided node is counted, or its compute has reported it
            if (node := nodes.get(placement.instance, "")) != placement.node:
                self.hosts.pending.remove([placement.instance])
                self._count(decision, placement, node)

    def _count(self, decision: ShadowDecision, placement: PendingPlacement, node: str) -> None:
        table = decision.table
        row = table.row_of_uuid.get(node)
        if row is not None:
            # By the stamp of the decision: the compute may have reported the instance since
            stamp = table.rows[row].updated
            self.hosts.pending.share(
                placement.instance,
                node,
                placement.amounts,
                stamp,
                granted=True,
                demand=placement.demand,
            )

    def name_of(self, node: str) -> str:
        """Return the service host of a compute node."""
        return host_of_provider(self.hosts.snapshot(math.inf), node)


def _rows(table: HostTable, nodes: Sequence[str]) -> TableRows:
    return TableRows(np.array([table.row_of_uuid[node] for node in nodes], np.intp))


def _amounts(table: HostTable, nodes: Sequence[str]) -> Amounts:
    """Return what computes report of nodes: int64, shape (amounts, nodes)."""
    return np.array([table.numbers[name] for name in AMOUNTS])[:, _rows(table, nodes)]


# -- how a decision compares with what nova-scheduler chose ------------------------------------------------


class ShadowVerdict(StrEnum):
    """How two decisions compare, in the order of reports; ``meaning`` is what a verdict means."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    SAME = "same", "the same host"
    EQUAL = "equal", "another host of equal weight"
    UNREPORTED = "unreported", "another host: it depends on placements that no compute has reported yet"
    CHANGED = "changed", "another host: it depends on hosts that changed between the two decisions"
    OTHER = "other", "another host"
    NOVA_REFUSED = "nova-refused", "nova-scheduler found no host, Berth did"
    BERTH_REFUSED = "berth-refused", "Berth found no host, nova-scheduler did"
    BOTH_REFUSED = "both-refused", "neither found a host"
    UNKNOWN = "unknown", "not compared"


#: The verdict by whether nova-scheduler and Berth found hosts.
_REFUSALS = {
    (False, False): ShadowVerdict.BOTH_REFUSED,
    (False, True): ShadowVerdict.NOVA_REFUSED,
    (True, False): ShadowVerdict.BERTH_REFUSED,
}


def compare(
    decision: ShadowDecision,
    nodes: Mapping[str, str],
    others: AbstractSet[str] = frozenset(),
    changes: Changes = UNCHANGED,
) -> ShadowVerdict:
    """Return how a decision compares with the hosts of its instances.

    Args:
        nodes: Instance -> the UUID of the compute node that nova-scheduler chose; empty: it refused.
        others: The nodes that it chose for other requests meanwhile, in whatever order.
        changes: How hosts changed between the decision and the moment at which its choice was seen.
    """
    found = bool(nodes), not decision.refusal
    if found in _REFUSALS:
        return _REFUSALS[found]
    # Which instance of a request goes to which of its hosts does not matter
    chosen = Counter(nodes.values())
    if Counter(choice.node for choice in decision.choices) == chosen:
        return ShadowVerdict.SAME
    if decision.may_be(decision.choices, nodes):
        return ShadowVerdict.EQUAL
    # Each scheduler process counts its own placements at once, and those of others when computes report them
    fuller = decision.pending.keys() | others | set(nodes.values())
    if Counter(choice.node for choice in decision.unreported) == chosen or decision.may_be(
        decision.unreported, nodes, Changes(fuller)
    ):
        return ShadowVerdict.UNREPORTED
    changes = Changes(fuller | changes.fuller, changes.freer)
    if any(decision.may_be(choices, nodes, changes) for choices in (decision.choices, decision.unreported)):
        return ShadowVerdict.CHANGED
    return ShadowVerdict.OTHER
