"""Which of several schedulers owns a server group.

An owner is found by rendezvous hashing: each scheduler draws a number from the uuid of the group and its own
identity, and the highest wins. Members of one group that are placed by two schedulers at the same time could
meet on a host, or part; so a call is forwarded to the owner of its group, once: if schedulers disagree, or
the owner does not take it, the one that has it decides.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

from scheduler.stream.membership import Membership
from scheduler.stream.records import Member

REASON = "server_group"


class Call(Protocol):
    """A call that is to be answered; as ``rpc.calls.Call``."""

    def forward(self, topic: str, reason: str) -> None:
        """Send it on; return if that is not possible."""


class Owners:
    """Which scheduler owns a server group. Any thread may use it."""

    def __init__(self, membership: Membership, in_step: Callable[[], bool]) -> None:
        """Divide between the schedulers that are alive.

        Args:
            in_step: Returns whether what others decide is known here up to now; no call is forwarded
                otherwise.
        """
        self._membership = membership
        self._in_step = in_step

    def owner_of_group(self, group: str) -> Member:
        """Return the scheduler that decides for a server group: one that takes calls, if any does."""
        members = self._membership.alive()
        able = [member for member in members if member.topic]
        return max(able or members, key=lambda member: _draw(f"{member.sender}/{group}"))

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


def _draw(text: str) -> bytes:
    """Return what is the same for a text in every process."""
    return blake2b(text.encode(), digest_size=8).digest()[::-1]
