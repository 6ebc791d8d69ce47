"""What was decided here and shows in no database yet, so that a burst does not pile on one host.

Between a decision and the report of the compute lie seconds in which the host's row looks as free as before.
Until then the decision is laid over it: on amounts that Placement guards for weighers alone, on counters for
everybody, and on where instances are. spec: host-state-and-cells 8 (2, 3)

What requests of one process decide at the same time, as one of them sees it (see ``pending``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
import threading
import time

import numpy as np

from scheduler.hosts.table import HostTable

# What an instance takes of a host, in the order of all arrays of amounts here.
GUARDED = ("free_ram_mb", "free_disk_mb", "vcpus_used")
COUNTERS = ("num_instances", "num_io_ops")
AMOUNTS = GUARDED + COUNTERS

# Seconds after which a decision that no compute confirms is taken for one that came to nothing.
LIFETIME = 180.0

# Seconds that a request waits for others to find their hosts. Only an operator's slow rule takes so long.
PATIENCE = 1.0

Locate = Callable[[Iterable[str]], Mapping[str, Sequence[tuple[str, str]]]]
"""(cell uuid, service host) of each of the given instances that is on some host."""


@dataclass(frozen=True, slots=True)
class PendingPlacement:
    """An instance that is to be on a node. ``amounts``: int64 in the order of ``AMOUNTS``.

    ``updated``: the stamp of the node's row that was looked at.
    """

    instance: str
    node: str
    amounts: np.ndarray
    updated: datetime | None
    until: float


class PendingPlacements:
    """The stays of one process, by instance; any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._stays: dict[str, PendingPlacement] = {}
        self._index: Mapping[str, int] = {}
        self._sums = np.zeros((len(AMOUNTS), 0), np.int64)

    def __len__(self) -> int:
        return len(self._stays)

    def node_of(self, instance: str) -> str | None:
        """The uuid of the node that an instance is to be on; None if nothing is pending for it."""
        stay = self._stays.get(instance)
        return stay and stay.node

    def over(self, table: HostTable, rows: np.ndarray) -> np.ndarray:
        """What is pending on these rows of a table: int64, shape (amounts, rows)."""
        with self._lock:
            return self._sums_of(table)[:, rows]

    def add(
        self, instance: str, table: HostTable, row: int, amounts: np.ndarray, seen: np.ndarray | None = None
    ) -> bool:
        """Note that an instance is to be on the node in this row; it is nowhere else then.

        ``seen``: what the caller believes to be pending there. If it is something else by now, nothing is
        noted, and the answer is False.
        """
        node = table.rows[row]
        stay = PendingPlacement(instance, node.uuid, amounts, node.updated, self._clock() + LIFETIME)
        with self._lock:
            sums = self._sums_of(table)
            if seen is not None and not np.array_equal(sums[:, row], seen):
                return False
            self._forget([instance])
            self._stays[instance] = stay
            sums[:, row] += amounts
            return True

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One at a time, as far as that does not take long: for those who found a host taken by another."""
        alone = self._turn.acquire(timeout=PATIENCE)
        try:
            yield
        finally:
            if alone:
                self._turn.release()

    def drop(self, instances: Iterable[str]) -> None:
        """These instances are not to be anywhere any more; unknown ones do not matter."""
        with self._lock:
            self._forget(instances)

    def settle(self, table: HostTable, locate: Locate) -> None:
        """Drop what the computes have reported, or will never report.

        Reported is an instance that the databases show on some host, once the row of its node has changed.
        """
        now = self._clock()
        stays = list(self._stays.values())
        changed = [stay.instance for stay in stays if _has_changed(stay, table)]
        found = locate(changed) if changed else {}
        over = [stay for stay in stays if stay.until < now or stay.instance in found]
        with self._lock:
            # a decision that came meanwhile takes the place of the one that was looked at, and stays
            self._forget(stay.instance for stay in over if self._stays.get(stay.instance) is stay)

    def _sums_of(self, table: HostTable) -> np.ndarray:
        """The sums by row of a table; tables in which every host is where it was share them."""
        if self._index is not table.row_of_uuid:
            self._index = table.row_of_uuid
            self._sums = np.zeros((len(AMOUNTS), len(table)), np.int64)
            for stay in self._stays.values():
                self._sum(stay, 1)
        return self._sums

    def _forget(self, instances: Iterable[str]) -> None:
        for instance in instances:
            stay = self._stays.pop(instance, None)
            if stay:
                self._sum(stay, -1)

    def _sum(self, stay: PendingPlacement, sign: int) -> None:
        row = self._index.get(stay.node)
        if row is not None:
            self._sums[:, row] += sign * stay.amounts


def _has_changed(stay: PendingPlacement, table: HostTable) -> bool:
    row = table.row_of_uuid.get(stay.node)
    return row is not None and table.rows[row].updated != stay.updated


class Reservations:
    """What is pending on the hosts of one request: its own, and that of others as it last looked.

    Hosts are named by position in ``rows``; arrays of amounts are in the order of ``AMOUNTS``.
    """

    def __init__(self, pending: PendingPlacements, table: HostTable, rows: np.ndarray) -> None:
        self.pending = pending
        self._table = table
        self._rows = rows
        self.others = np.zeros((len(AMOUNTS), len(rows)), np.int64)
        self._own = np.zeros_like(self.others)
        self._reserved: dict[str, tuple[int, np.ndarray]] = {}

    def catch_up(self) -> np.ndarray:
        """Look again at what others have; by how much it is more than before, shape (amounts, hosts)."""
        before, self.others = self.others, self.pending.over(self._table, self._rows) - self._own
        return self.others - before

    def reserve(self, position: int, instance_uuid: str, amounts: Mapping[str, int], *, anyway: bool) -> bool:
        """Note that an instance is to be on a host. False if others' notes there are not what they were.

        Nothing is noted then, unless ``anyway``.
        """
        taken = np.array([amounts.get(name, 0) for name in AMOUNTS], np.int64)
        seen = None if anyway else self.others[:, position] + self._own[:, position]
        reserved = self.pending.add(instance_uuid, self._table, int(self._rows[position]), taken, seen)
        if reserved:
            self._own[:, position] += taken
            self._reserved[instance_uuid] = position, taken
        return reserved

    def unreserve(self, instance_uuid: str) -> None:
        """Take a note of this request back; without one nothing happens."""
        if instance_uuid in self._reserved:
            position, taken = self._reserved.pop(instance_uuid)
            self._own[:, position] -= taken
            self.pending.drop([instance_uuid])
