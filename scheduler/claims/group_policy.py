"""Whether the members of a server group are where its hard policy allows, looked at after a claim.

Several processes may place members at the same time: schedulers, also those of other partitions, and
nova-schedulers. Placement orders their writes, and each looks after its own one. So of two the one that
writes second sees the first, and releases its claim.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.errors import AgainstGroupPolicy
from scheduler.placement.allocations import COMPUTE, ConsumerAllocations
from scheduler.placement.errors import PlacementError, unavailable
from scheduler.placement.write_policy import Timing, WritePolicy
from scheduler.request.instance_state import InstanceState, ReadStates
from scheduler.request.scheduling_request import ServerGroup

#: Members that are read, if no member of the group is known to stay on the claimed host. It is one request
#: to Placement for each. The latest ones are read: others hold something, or were deleted.
MOST_READ = 100

#: Members in these states hold no host that counts.
_WITHOUT_HOST = frozenset({InstanceState.GIVEN_UP, InstanceState.DELETED})


@dataclass(frozen=True)
class GroupCheck:
    """Checks granted claims of a request for members of a group with ``affinity`` or ``anti-affinity``.

    Attributes:
        group: The group.
        instances: UUIDs of the instances of the request.
        members_of: Returns the members of a group now, by its UUID.
        states_of: Returns what nova says of instances.
        consumers_of: Returns what holds something of a provider in Placement now.
        read_many: Returns what consumers hold now.
        hosts_of: Returns the service hosts of those providers that are compute nodes.
        timing: Sleep and randomness.
        policy: The delay before a claim is released.
    """

    group: ServerGroup
    instances: frozenset[str]
    members_of: Callable[[str], Sequence[str]]
    states_of: ReadStates
    consumers_of: Callable[[str], frozenset[str]]
    read_many: Callable[[Sequence[str]], Mapping[str, ConsumerAllocations]]
    hosts_of: Callable[[Collection[str]], Mapping[str, str]]
    timing: Timing = field(default_factory=Timing)
    policy: WritePolicy = field(default_factory=WritePolicy)

    def check(self, nodes: Mapping[str, str], *, is_first: bool) -> Mapping[str, str]:
        """Return why claims have to be released, by instance UUID.

        Of several schedulers that find the policy violated each waits for a random time, and looks again: the
        first ones release, and the last ones find that enough.

        Args:
            nodes: The compute node that each instance has just got.
            is_first: Whether the request has claimed nothing else. Later members of an affinity group follow
                its first one, which was checked.

        Raises:
            AgainstGroupPolicy: Members of an affinity group are on other hosts.
            PlacementUnavailable: Placement gives no answer, or refuses the question.
        """
        look = self._crowded if self.group.is_anti_affinity else self._apart
        if not nodes or not (is_first or self.group.is_anti_affinity):
            return {}
        try:
            if not look(nodes):
                return {}
            self.timing.pause(self.timing.uniform(*self.policy.retry_delay))
            found = look(nodes)
        except PlacementError as error:
            raise unavailable(error, f"Cannot read where group {self.group.text} is") from error
        if found and not self.group.is_anti_affinity:
            raise AgainstGroupPolicy(next(iter(nodes)), self.group.text, sorted(set(found.values())))
        return found

    def _members(self) -> set[str]:
        uuid = self.group.uuid
        return {*self.group.members, *(self.members_of(uuid) if uuid else ()), *self.instances}

    def _crowded(self, nodes: Mapping[str, str]) -> dict[str, str]:
        """Return the instances on hosts with too many members of the group."""
        most, crowded = self.group.max_server_per_host, dict[str, str]()
        for uuid, node in nodes.items():
            consumers = self.consumers_of(node)
            if len(consumers) <= most:
                continue
            number = len(consumers & self._members())
            if number > most:
                crowded[uuid] = f"members of group {self.group.text} on host: {number}, limit {most}"
        return crowded

    def _apart(self, nodes: Mapping[str, str]) -> dict[str, str]:
        """Return a host of each member that is on others."""
        own = {*nodes.values()}
        others = self._members() - self.instances
        there = {*others}.intersection(frozenset().union(*map(self.consumers_of, own)))
        # The claim of a member that is built was looked after, and is not released any more. Most requests
        # meet such a member, and read no more.
        if there and InstanceState.PLACED in self.states_of(there, ()).values():
            return {}
        absent = others - there
        states = self.states_of(absent, ()) if absent else {}
        latest = [uuid for uuid in self._in_order(absent) if states[uuid] not in _WITHOUT_HOST][-MOST_READ:]
        held = self.read_many(latest) if latest else {}
        names = self.hosts_of({provider for each in held.values() for provider in each.allocations} | own)
        here = {names.get(node, node) for node in own}
        of_each = {uuid: _hosts_in(each, names) for uuid, each in held.items()}
        return {uuid: min(hosts) for uuid, hosts in of_each.items() if hosts and not hosts & here}

    def _in_order(self, uuids: Collection[str]) -> list[str]:
        order = dict.fromkeys([*self.group.members, *sorted(uuids)])
        return [uuid for uuid in order if uuid in uuids]


def _hosts_in(held: ConsumerAllocations, names: Mapping[str, str]) -> set[str]:
    """Return the hosts of what an instance holds; the UUID of one that is not known."""
    return {
        names.get(provider, provider)
        for provider, entry in held.allocations.items()
        if provider in names or COMPUTE & entry["resources"].keys()
    }
