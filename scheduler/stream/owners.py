"""What is divided between the schedulers of a partition, and which part of it this one owns.

Hosts (``slices``) and server groups (``group_owners``) each have owners.
"""

from collections.abc import Callable
from typing import NamedTuple

from scheduler.hosts.table import HostTable
from scheduler.stream.group_owners import Call, GroupOwners
from scheduler.stream.membership import Membership
from scheduler.stream.slices import Mask, OwnedSlices


class Divided(NamedTuple):
    """What is divided between the schedulers, as options that may change.

    Attributes:
        hosts: Whether each prefers hosts of its own.
        groups: Whether each decides for server groups of its own.
    """

    hosts: Callable[[], bool] = lambda: True
    groups: Callable[[], bool] = lambda: True


class Owners:
    """Who owns what. Any thread may use it."""

    def __init__(self, membership: Membership, in_step: Callable[[], bool], divided: Divided) -> None:
        """Divide between the schedulers that are alive.

        Args:
            membership: The schedulers.
            in_step: Returns whether what others decide is known here up to now; no call is sent on otherwise.
            divided: What is divided between them.
        """
        self._in_step = in_step
        self._slices = OwnedSlices(membership, divided.hosts)
        self._groups = GroupOwners(membership, divided.groups)

    def owned(self, table: HostTable) -> Mask | None:
        """Return which hosts of a table this scheduler prefers; None: all alike."""
        return self._slices.owned(table)

    def send_on_for_group(self, group: str, call: Call | None) -> None:
        """Send a call on to the scheduler that decides for its server group, if that is another one.

        See ``GroupOwners.send_on``.
        """
        if call is not None and self._in_step():
            self._groups.send_on(group, call)


class NoOwners:
    """Nothing is divided: this scheduler decides on all."""

    def owned(self, table: HostTable) -> Mask | None:
        """Return None: all hosts are alike."""

    def send_on_for_group(self, group: str, call: Call | None) -> None:
        """Do nothing: this scheduler decides for all groups."""
