"""Which scheduler decides for a server group: requests of one group are not decided by two at the same time.

Two schedulers that place members of one group at the same time do not know of each other's choice. Both may
choose the same host for an anti-affinity group, or two hosts for an affinity group; then a compute refuses
one of them. So each group has an owner among the schedulers that are alive, and the others send its calls on
to the owner.

A call is sent on for its group at most once. If schedulers disagree on the owner, or if the owner did not
take the call and it came back, the one that has it decides.
"""

from collections.abc import Callable
from typing import Protocol

from scheduler.stream.membership import Membership

REASON = "server_group"


class Call(Protocol):
    """A call that is to be answered; as ``rpc.delivery.Delivery``."""

    def forward(self, topic: str, reason: str) -> None:
        """Send it on; return if that is not possible."""


class GroupOwners:
    """Sends calls on to the owners of their server groups. Any thread may use it."""

    def __init__(self, membership: Membership, enabled: Callable[[], bool] = lambda: True) -> None:
        """Share groups between the schedulers of a partition.

        Args:
            membership: The schedulers.
            enabled: Whether calls are sent on at all.
        """
        self._membership = membership
        self._enabled = enabled

    def send_on(self, group: str, call: Call) -> None:
        """Send a call on to the scheduler that decides for its server group, if that is another one.

        Returns if the call is to be decided here.

        Args:
            group: The uuid of the group.
            call: The call.

        Raises:
            Forwarded: It was sent on (``scheduler/rpc/delivery.py``).
        """
        if not self._enabled():
            return
        owner = self._membership.owner_of(group)
        if owner.sender != self._membership.own.sender and owner.topic:
            call.forward(owner.topic, REASON)
