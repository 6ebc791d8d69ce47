"""Server groups under a burst: who comes next must know where the one before went.

The hosts of a group in a request are those that its conductor saw. Another request of the same group may have
been decided since then, which nobody but this process knows. spec: host-state-and-cells 6.3, 8 (3)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from oslo_log import log as logging

from scheduler.locks import KeyedLocks
from scheduler.request.scheduling_request import SchedulingRequest, ServerGroup

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
    def turn(self, request: SchedulingRequest, known: Known) -> Iterator[SchedulingRequest]:
        """The turn of a request: the same with its group brought up to date. Others need not wait."""
        group = request.server_group
        if not group or request.is_rebuild or group.uuid is None:
            yield request
        elif "affinity" in (group.policy, *group.policies):
            with self._locks.hold([group.uuid], self._patience) as alone:
                if not alone:
                    LOG.warning(
                        "Requests of server group %s take long; one goes on unseen by them", group.uuid
                    )
                members = members_now(group, known)
                yield request.with_group(members, hosts_now(group, members, known))
        else:
            yield request.with_group(members_now(group, known), group.hosts)


def members_now(group: ServerGroup, known: Known) -> Sequence[str]:
    """The members, with those who became members since the request was made."""
    return tuple(dict.fromkeys([*group.members, *known.members_of(group.uuid)]))


def hosts_now(group: ServerGroup, members: Sequence[str], known: Known) -> Sequence[str]:
    """The hosts where the members of an affinity group are now, if they are anywhere."""
    hosts, complete = known.hosts_of_instances(members)
    if not complete:
        LOG.warning("Not all members of server group %s can be found; those told of count too", group.uuid)
        hosts = hosts.union(group.hosts)
    return sorted(hosts) or group.hosts
