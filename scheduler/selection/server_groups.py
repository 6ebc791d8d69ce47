"""Server groups under a burst: who comes next must know where the one before went.

The hosts of a group in a request are those that its conductor saw. Another request of the same group may have
been decided since then, which nobody but this process knows. spec: host-state-and-cells 6.3, 8 (3)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from oslo_log import log as logging

from scheduler.locks import KeyedLocks

LOG = logging.getLogger(__name__)

# Seconds that a request waits for the one before; some callers give up after sixty.
PATIENCE = 30.0


class Known(Protocol):
    """What is known of groups now."""

    def members_of(self, group_uuid: str) -> Sequence[str]:
        """Uuids of all instances that were put in a group; none if that is not known."""

    def hosts_of_instances(self, instance_uuids: Sequence[str]) -> tuple[set[str], bool]:
        """Service hosts where instances are or are about to be, and whether there can be no others."""


class Groups:
    """Lets requests of one affinity group into the choice of hosts one at a time."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._locks = KeyedLocks()
        self._patience = patience

    @contextmanager
    def turn(self, request: Any, known: Known) -> Iterator[None]:
        """The turn of a request, whose group is brought up to date in place. Others need not wait."""
        group = request.instance_group
        if not group or request.is_rebuild or "uuid" not in group:
            yield
        elif "affinity" in (group.policy, *(group.policies or ())):
            with self._locks.hold([group.uuid], self._patience) as alone:
                if not alone:
                    LOG.warning(
                        "Requests of server group %s take long; one goes on unseen by them", group.uuid
                    )
                bring_up_to_date(group, known)
                yield
        else:
            add_members(group, known)
            yield


def bring_up_to_date(group: Any, known: Known) -> None:
    """Set the hosts of an affinity group to those where its members are now, if they are anywhere."""
    add_members(group, known)
    hosts, complete = known.hosts_of_instances(group.members)
    if not complete:
        LOG.warning("Not all members of server group %s can be found; those told of count too", group.uuid)
        hosts = hosts.union(group.hosts or ())
    if hosts:
        group.hosts = sorted(hosts)


def add_members(group: Any, known: Known) -> None:
    """Add those who became members since the request was made."""
    group.members = list(dict.fromkeys([*(group.members or ()), *known.members_of(group.uuid)]))
