"""Own decisions as records, and the effect of the records of others.

What another scheduler has decided lies over the host table exactly as an own pending placement does, and
counts in the mirror of Placement's compute nodes as an own claim does. The last record of an instance wins.
The worst that a wrong record can do is a bad choice of host for ``LIFETIME`` seconds: Placement decides every
claim.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import threading
from typing import Any

from cachetools import TTLCache
import numpy as np

from scheduler.hosts.pending import AMOUNTS, LIFETIME, PendingPlacement, PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.stream.records import (
    LONGEST_IDENTIFIER,
    Entry,
    Kind,
    Record,
    demand_of,
    encode_demand,
    without_zeros,
)

Allocations = Mapping[str, Mapping[str, Any]]
"""Provider uuid → ``{"resources": {resource class: amount}}``."""

Publish = Callable[[Kind, Entry], object]

# Deleted instances that are remembered, and for how many seconds: all schedulers get the cast of the compute,
# and one record of it is enough.
MOST_GONE = 10_000
GONE_FOR = 60.0


@dataclass(frozen=True, slots=True)
class LocalState:
    """What a scheduler keeps that others' decisions lie over.

    Attributes:
        pending: Its pending placements.
        table: Returns the host table as last read, without a wait.
        mirror: Its mirror of Placement's compute nodes, for ``heard``.
    """

    pending: PendingPlacements
    table: Callable[[], HostTable]
    mirror: Any


class SharedDecisions:
    """Makes records of own decisions, and applies those of others. Any thread may use it.

    It listens to pending placements, and to claims.
    """

    def __init__(self, state: LocalState, publish: Publish) -> None:
        """Share the decisions of a scheduler.

        Args:
            publish: Publishes a record of one instance, without a wait.
        """
        self._pending = state.pending
        self._table = state.table
        self._mirror = state.mirror
        self._publish = publish
        self._gone_lock = threading.Lock()
        self._gone: TTLCache[str, bool] = TTLCache(MOST_GONE, GONE_FOR)

    # -- own decisions ---------------------------------------------------------------------------------------

    def reserved(self, placement: PendingPlacement) -> None:
        """Publish that an instance is to be claimed on a node."""
        self._publish(Kind.INTENT, _entry_of(placement))

    def unreserved(self, placement: PendingPlacement) -> None:
        """Publish that an instance does not go to a node after all."""
        self._publish(Kind.RELEASED, Entry(instance=placement.instance, node=placement.node))

    def claimed(self, instance: str, allocations: Allocations) -> None:
        """Publish that Placement granted a claim."""
        placement = self._pending.get(instance)
        for entry in self._entries(instance, allocations):
            pending = placement if placement and placement.node == entry.node else None
            self._publish(Kind.CLAIMED, _entry_of(pending, entry.resources) if pending else entry)

    def refused(self, _provider: str, _resource_class: str) -> None:
        """Do nothing: what a refused claim had reserved is withdrawn."""

    def released(self, instance: str, allocations: Allocations) -> None:
        """Publish that a claim is released."""
        for entry in self._entries(instance, allocations):
            self._publish(Kind.RELEASED, entry)

    def gone(self, instance: str) -> None:
        """Publish that a compute reports an instance to be deleted, unless another scheduler already has.

        What is too long for a record is neither published nor remembered.
        """
        if len(instance) <= LONGEST_IDENTIFIER and self._note_gone(instance):
            self._publish(Kind.GONE, Entry(instance=instance))

    def _entries(self, instance: str, allocations: Allocations) -> list[Entry]:
        nodes = self._table().row_of_uuid
        return [
            Entry(instance=instance, node=provider, resources=without_zeros(part["resources"]))
            for provider, part in allocations.items()
            if provider in nodes
        ]

    # -- others' decisions -----------------------------------------------------------------------------------

    def apply(self, record: Record, age: float = 0.0) -> None:
        """Apply a record of another scheduler.

        Args:
            record: The record; kinds that are about no instance have no effect.
            age: Seconds since it was written; 0 for one that has just arrived.
        """
        if age >= LIFETIME:
            return
        for entry in record.entries:
            if record.kind == Kind.GONE:
                self._note_gone(entry.instance)
                self._remove(entry.instance)
            elif entry.node in self._table().row_of_uuid:
                self._apply(record.kind, entry, age)

    def _apply(self, kind: str, entry: Entry, age: float) -> None:
        if kind in {Kind.INTENT, Kind.CLAIMED} and entry.columns:
            amounts = np.array([entry.columns.get(name, 0) for name in AMOUNTS], np.int64)
            self._pending.share(
                entry.instance,
                entry.node,
                amounts,
                entry.updated,
                age,
                granted=kind == Kind.CLAIMED,
                demand=demand_of(entry),
            )
        elif kind == Kind.RELEASED:
            self._pending.unshare(entry.instance, entry.node)
        if entry.resources:
            allocations = {entry.node: {"resources": entry.resources}}
            if kind in {Kind.CLAIMED, Kind.RELEASED}:
                self._mirror.heard(allocations, age, 1 if kind == Kind.CLAIMED else -1)

    def _note_gone(self, instance: str) -> bool:
        """Remember that an instance is deleted; return whether that was not known."""
        with self._gone_lock:
            known = instance in self._gone
            self._gone[instance] = True
        return not known

    def _remove(self, instance: str) -> None:
        placement = self._pending.get(instance)
        if placement is not None:
            self._pending.unshare(instance, placement.node)


def _entry_of(placement: PendingPlacement, resources: Mapping[str, int] | None = None) -> Entry:
    return Entry(
        instance=placement.instance,
        node=placement.node,
        columns=without_zeros(dict(zip(AMOUNTS, placement.amounts.tolist(), strict=True))),
        resources=dict(resources or {}),
        updated=placement.updated,
        demand=encode_demand(placement.demand),
    )
