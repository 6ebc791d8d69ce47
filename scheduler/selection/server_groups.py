"""Server groups under a burst: requests of one affinity or soft-affinity group take turns.

The request names the hosts of its group that its conductor saw. Another request of the same group may have
been decided since then, which only this process knows (spec: host-state-and-cells 6.3, 8 (3)).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from oslo_log import log as logging

from scheduler.bounds.locks import KeyedLocks
from scheduler.logs import RateLimitedLogger
from scheduler.request.scheduling_request import SchedulingRequest, ServerGroup

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds that a request waits for those before, which choose a host meanwhile, and read nova's databases for
# that; the first of an affinity group also claims it. Each keeps a thread.
LOCK_TIMEOUT = 5.0

AFFINITY = "affinity"

# The policies whose members go where others are, which only those know that are decided after them.
TAKING_TURNS = frozenset({AFFINITY, "soft-affinity"})


class GroupSource(Protocol):
    """Where members of server groups and their hosts are read."""

    def members_of(self, group_uuid: str) -> Sequence[str]:
        """Return the uuids of all instances of a group; none if that is not known."""

    def hosts_of_instances(self, instance_uuids: Sequence[str]) -> tuple[set[str], bool]:
        """Return the service hosts where instances are or will be, and whether the set is complete."""


class ServerGroups:
    """Lets requests of one affinity or soft-affinity group take turns, each with the group as it is then."""

    def __init__(self, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self._locks = KeyedLocks()
        self._lock_timeout = lock_timeout
        self._warnings = RateLimitedLogger(LOG)

    @contextmanager
    def serialized(self, request: SchedulingRequest, source: GroupSource) -> Iterator[SchedulingRequest]:
        """Yield the request with its group brought up to date; other requests need not wait.

        After the lock timeout the request is served concurrently with the one that holds the lock.
        """
        group = request.server_group
        if not group or request.is_rebuild or group.uuid is None:
            yield request
        elif TAKING_TURNS & {group.policy, *group.policies}:
            turn = f"its turn in server group {group.uuid}"
            with self._locks.hold(group.uuid, self._lock_timeout, turn) as alone:
                if not alone:
                    text = "Lock of server group %s timed out; continuing without it"
                    self._warnings.warning(("lock", group.uuid), text, group.uuid)
                yield self._updated(request, group, group.uuid, source)
        else:
            yield self._updated(request, group, group.uuid, source)

    def _updated(
        self, request: SchedulingRequest, group: ServerGroup, uuid: str, source: GroupSource
    ) -> SchedulingRequest:
        members = tuple(dict.fromkeys([*group.members, *source.members_of(uuid)]))
        is_hard = AFFINITY in (group.policy, *group.policies)
        return request.with_group(
            members, self._current_hosts(group, members, source) if is_hard else group.hosts
        )

    def _current_hosts(
        self, group: ServerGroup, members: Sequence[str], source: GroupSource
    ) -> Sequence[str]:
        """Return the hosts where the members of an affinity group are now; if none, those of the request."""
        hosts, complete = source.hosts_of_instances(members)
        if not complete:
            self._warnings.warning(
                ("members", group.uuid),
                "Cannot find all members of server group %s; using the hosts of the request as well",
                group.uuid,
            )
            hosts = hosts.union(group.hosts)
        return sorted(hosts) or group.hosts
