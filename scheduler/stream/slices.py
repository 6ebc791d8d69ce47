"""Which hosts each of several schedulers owns.

The owner of a host is found by weighted rendezvous hashing: each scheduler draws a number from the host's
uuid and its own identity, and the highest wins. When a scheduler comes or goes, only the hosts that it gains
or loses change their owner; when a weight changes, few do. A scheduler that prefers its own hosts does not
choose the host that another one chooses at the same time.
"""

from collections.abc import Callable, Sequence
import threading

import numpy as np
from numpy.typing import NDArray

from scheduler.hosts.table import HostTable
from scheduler.stream.membership import Member, Membership, hash64

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


class OwnedSlices:
    """The hosts that this scheduler owns. Any thread may use it.

    Owners are worked out once for each change of the schedulers or of the order of hosts.
    """

    def __init__(self, membership: Membership, enabled: Callable[[], bool] = lambda: True) -> None:
        """Divide hosts between the schedulers of a partition.

        Args:
            membership: The schedulers.
            enabled: Whether hosts are divided at all.
        """
        self._membership = membership
        self._enabled = enabled
        self._lock = threading.Lock()
        self._hosts: tuple[object, Hashes] = (None, np.empty(0, np.uint64))
        self._owned: tuple[object, object, Mask] = (None, None, np.empty(0, bool))

    def owned(self, table: HostTable) -> Mask | None:
        """Return which hosts of a table this scheduler owns; bool, shape (rows,).

        Returns:
            None if hosts are not divided: no other scheduler is known to be alive.
        """
        members = self._membership.peers()
        if len(members) < 2 or not self._enabled():
            return None
        shares = tuple((member.sender, member.weight) for member in members)
        order, of, owned = self._owned  # one read: other threads replace it as a whole
        if order is not table.row_of_uuid or of != shares:
            with self._lock:
                owned = self._work_out(table, members)
                self._owned = table.row_of_uuid, shares, owned
        return owned

    def _work_out(self, table: HostTable, members: Sequence[Member]) -> Mask:
        order, hashes = self._hosts
        if order is not table.row_of_uuid:
            hashes = np.fromiter((hash64(row.uuid) for row in table.rows), np.uint64, len(table))
            self._hosts = table.row_of_uuid, hashes
        own = self._membership.own.sender
        number = next(number for number, member in enumerate(members) if member.sender == own)
        return np.asarray(owners(hashes, members) == number)


def owners(hosts: Hashes, members: Sequence[Member]) -> NDArray[np.int64]:
    """Return the owner of each host.

    Args:
        hosts: ``hash64`` of each host, shape (hosts,).
        members: The schedulers; the result does not depend on their order.

    Returns:
        Indices of ``members``, shape (hosts,).
    """
    best = np.full(len(hosts), -np.inf)
    owner = np.zeros(len(hosts), np.int64)
    for number, member in enumerate(members):
        bits = _mixed(hosts ^ np.uint64(hash64(member.sender))) >> np.uint64(12)
        draws = (bits + 0.5) / 2.0**52
        scores = -member.weight / np.log(draws)
        higher = scores > best
        best[higher], owner[higher] = scores[higher], number
    return owner


def _mixed(values: Hashes) -> Hashes:
    """Return well-mixed bits of each value: the finalizer of splitmix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
