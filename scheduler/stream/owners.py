"""Which hosts and server groups each of several schedulers owns.

An owner is found by rendezvous hashing: each scheduler draws a number from the uuid of the host or group and
its own identity, and the highest wins. When a scheduler comes or goes, only what it gains or loses changes
its owner. Schedulers that disagree on which ones are alive make worse choices for some seconds, and never
wrong ones.

A scheduler prefers its own hosts, so that no two choose the same host at the same time. Members of one server
group that are placed by two at the same time could meet on a host, or part; so a call is forwarded to the
owner of its group, once: if schedulers disagree, or the owner does not take it, the one that has it decides.
"""

from collections.abc import Callable, Sequence
import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.hosts.table import HostTable
from scheduler.stream.membership import Membership, hash64
from scheduler.stream.records import Member

REASON = "server_group"

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


class Call(Protocol):
    """A call that is to be answered; as ``rpc.calls.Call``."""

    def forward(self, topic: str, reason: str) -> None:
        """Send it on; return if that is not possible."""


class Owners:
    """Which scheduler owns a host or a server group. Any thread may use it.

    Owners of hosts are worked out once for each change of the schedulers or of the order of hosts.
    """

    def __init__(
        self, membership: Membership, in_step: Callable[[], bool], slices: Callable[[], bool]
    ) -> None:
        """Divide between the schedulers that are alive.

        Args:
            slices: Returns whether each scheduler prefers hosts of its own.
            in_step: Returns whether what others decide is known here up to now; no call is forwarded
                otherwise.
        """
        self._membership = membership
        self._in_step = in_step
        self._slices = slices
        self._lock = threading.Lock()
        self._hosts: tuple[object, Hashes] = (None, np.empty(0, np.uint64))
        self._owned: tuple[object, object, Mask] = (None, None, np.empty(0, bool))

    def owned(self, table: HostTable) -> Mask | None:
        """Return which hosts of a table this scheduler prefers; bool, shape (rows,).

        Returns:
            None if hosts are not divided: no other scheduler is known to be alive.
        """
        members = self._membership.alive()
        if len(members) < 2 or not self._slices():
            return None
        senders = tuple(member.sender for member in members)
        with self._lock:
            order, of, owned = self._owned
            if order is not table.row_of_uuid or of != senders:
                owned = owners(self._hashes(table), senders) == senders.index(self._membership.own.sender)
                self._owned = table.row_of_uuid, senders, owned
            return owned

    def _hashes(self, table: HostTable) -> Hashes:
        order, hashes = self._hosts
        if order is not table.row_of_uuid:
            hashes = np.fromiter((hash64(row.uuid) for row in table.rows), np.uint64, len(table))
            self._hosts = table.row_of_uuid, hashes
        return hashes

    def owner_of_group(self, group: str) -> Member:
        """Return the scheduler that decides for a server group: one that takes calls, if any does."""
        members = self._membership.alive()
        able = [member for member in members if member.topic]
        return max(able or members, key=lambda member: hash64(f"{member.sender}/{group}"))

    def forward_for_group(self, group: str, call: Call | None) -> None:
        """Forward a call to the scheduler that decides for its server group, if that is another one.

        Returns if the call is to be decided here.

        Args:
            group: The uuid of the group.
            call: The call; None outside of a server.

        Raises:
            Forwarded: It was forwarded (``scheduler/rpc/calls.py``).
        """
        if call is None or not self._in_step():
            return
        owner = self.owner_of_group(group)
        if owner.sender != self._membership.own.sender and owner.topic:
            call.forward(owner.topic, REASON)


def owners(hosts: Hashes, senders: Sequence[str]) -> NDArray[np.int64]:
    """Return the owner of each host.

    Args:
        hosts: ``hash64`` of each host, shape (hosts,).
        senders: The schedulers; the owner of a host does not depend on their order.

    Returns:
        Indices of ``senders``, shape (hosts,).
    """
    best = np.zeros(len(hosts), np.uint64)
    owner = np.zeros(len(hosts), np.int64)
    for number, sender in enumerate(senders):
        draws = _mixed(hosts ^ np.uint64(hash64(sender)))
        higher = draws > best
        best[higher], owner[higher] = draws[higher], number
    return owner


def _mixed(values: Hashes) -> Hashes:
    """Return well-mixed bits of each value: the finalizer of splitmix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
