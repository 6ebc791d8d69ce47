"""What is looked at after a claim and before the reply: capacity, and the policy of a server group.

Several processes may claim at the same time: schedulers, also those of other partitions, nova-schedulers,
and conductors with alternates. Placement checks the capacity in each claim, but can grant two that overlap
and do not fit together: its own retry reads the usage as it was before (spec: placement-and-workflow 6.1).
The policy of a group it does not know. But it orders their writes, and each process looks after its own one.
So of two the one that writes second sees the first, and releases its claim.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple, Protocol

from scheduler.bounds import deadline
from scheduler.placement.allocations import COMPUTE, ConsumerAllocations
from scheduler.placement.answer import Resources, Usage
from scheduler.placement.claim_events import ClaimState
from scheduler.placement.errors import PlacementError, unavailable
from scheduler.placement.write_policy import Timing, WritePolicy
from scheduler.request.instance_state import InstanceState, ReadStates
from scheduler.request.scheduling_request import ServerGroup

#: Members that are read, if no member of the group is known to stay on the claimed host. It is one request
#: to Placement for each. The latest ones are read: others hold something, or were deleted.
MOST_READ = 100

#: Members in these states hold no host that counts.
_WITHOUT_HOST = frozenset({InstanceState.GIVEN_UP, InstanceState.DELETED})


Added = Mapping[str, Resources]
"""Instance UUID -> what its claim, which is in effect, added, by provider."""


class Finding(NamedTuple):
    """What a check has found of a claim.

    Attributes:
        state: What follows.
        cause: The reason for people.
        resource_class: The class that is used beyond the capacity of ``provider``, or "".
        hosts: The hosts of other members, which an instance of an affinity group has to join.
        gives_way: Whether the others that claim now stay, so that waiting for them helps nothing.
    """

    state: ClaimState
    cause: str
    provider: str = ""
    resource_class: str = ""
    hosts: Sequence[str] = ()
    gives_way: bool = False

    @property
    def is_released(self) -> bool:
        """Whether the claim has to be released."""
        return self.state is not ClaimState.WITHIN_CAPACITY


WITHIN = Finding(ClaimState.WITHIN_CAPACITY, "the host has little room, and is not over it")


class Check(Protocol):
    """Looks after claims.

    Attributes:
        looks_again: How often it waits for others to release.
    """

    looks_again: ClassVar[int]

    def look(self, added: Added, *, is_first: bool) -> Mapping[str, Finding]:
        """Return what is found of claims, by instance UUID.

        Args:
            is_first: Whether the request has claimed nothing else.

        Raises:
            PlacementUnavailable: That is not known, and has to be.
        """


def look_after(
    check: Check, added: Added, timing: Timing, policy: WritePolicy, *, is_first: bool, fenced: bool = False
) -> Mapping[str, Finding]:
    """Return what a check finds of claims, as its ``look``.

    Of several schedulers that find a claim too many each waits for a random time, and looks again: the first
    ones release, and the last ones find that enough. Where an order is known the others give way at once: by
    chance alone all would release again and again if Placement needs longer for an answer than they wait.
    Claims that are fenced were looked after before: what was claimed since is released, though it may be last
    in the order, and that is waited for.
    """
    found = check.look(added, is_first=is_first)
    for _ in range(2 * check.looks_again if fenced else check.looks_again):
        if all(one.gives_way and not fenced for one in found.values() if one.is_released):
            break
        timing.pause(timing.uniform(*policy.retry_delay))
        found = check.look(added, is_first=is_first)
    return found


@dataclass(frozen=True)
class CapacityCheck:
    """Finds claims that leave a provider little room, or that are too many for it.

    Room is little if ``others`` more claims of the same size would not fit. Claims of other schedulers that
    are known are no room any more, so ``others`` stands for those that this process does not know yet. If
    Placement gives no answer, or the deadline of the request has passed, nothing is found.

    Attributes:
        free: Provider UUID -> resource class -> what is left, the claims counted, as far as it is known
            without a query.
        read: Provider UUID -> resource class -> usage in Placement now; empty if it gives no answer.
        others: Claims of other processes that may have overlapped; 0: nothing is checked.
    """

    looks_again: ClassVar[int] = 1
    free: Callable[[str], Mapping[str, float]]
    read: Callable[[str], Mapping[str, Usage]]
    others: int

    def look(self, added: Added, *, is_first: bool = True) -> Mapping[str, Finding]:
        if not self.others:
            return {}
        near = {uuid: self._nearly_full(one) for uuid, one in added.items()}
        usages = {
            provider: {} if deadline.current().expired else self.read(provider)
            for provider in dict.fromkeys(chain(*near.values()))
        }
        known = {uuid for uuid, providers in near.items() if providers and all(map(usages.get, providers))}
        over: dict[str, Finding] = {}
        for provider, usage in usages.items():
            _choose_one_by_one(provider, usage, added, over)
        return dict.fromkeys(known, WITHIN) | over

    def _nearly_full(self, added: Resources) -> list[str]:
        """Return the providers that a claim leaves little room on, or an unknown room."""
        return [
            provider
            for provider, entry in added.items()
            if self._is_little(self.free(provider), entry["resources"])
        ]

    def _is_little(self, left: Mapping[str, float], wanted: Mapping[str, int]) -> bool:
        return any(left.get(name, 0.0) < self.others * amount for name, amount in wanted.items())


def _choose_one_by_one(
    provider: str, usage: Mapping[str, Usage], added: Added, over: dict[str, Finding]
) -> None:
    """Add claims to ``over``, the last ones first, until the rest fits on a provider."""
    for name, one in usage.items():
        takers = {uuid: amount for uuid, rows in added.items() if (amount := _amount(rows, provider, name))}
        excess = one.used - one.capacity - sum(takers[uuid] for uuid in takers.keys() & over.keys())
        for uuid in reversed(takers):
            if excess > 0 and uuid not in over:
                cause = (
                    f"claims of several processes overlapped, and put provider {provider} over its capacity "
                    f"of {name}"
                )
                over[uuid] = Finding(ClaimState.OVER_CAPACITY, cause, provider, name)
                excess -= takers[uuid]


def _amount(rows: Resources, provider: str, name: str) -> int:
    entry = rows.get(provider)
    return int(entry["resources"].get(name, 0)) if entry else 0


@dataclass(frozen=True)
class GroupCheck:
    """Finds claims for members of a group with ``affinity`` or ``anti-affinity`` that break its policy.

    A member that nova has on the claimed host, as it is resized there, breaks nothing: the filters pass it.

    Attributes:
        group: The group.
        instances: UUIDs of the instances of the request.
        members_of: Returns the members of a group now, by its UUID.
        states_of: Returns what nova says of instances.
        places_of: Returns where nova has instances: cells and service hosts, by instance UUID.
        consumers_of: Returns what holds something of a provider in Placement now.
        read_many: Returns what consumers hold now.
        hosts_of: Returns the service hosts of those providers that are compute nodes.
    """

    #: Those that give way release with their next request.
    looks_again: ClassVar[int] = 3
    group: ServerGroup
    instances: frozenset[str]
    members_of: Callable[[str], Sequence[str]]
    states_of: ReadStates
    places_of: Callable[[Collection[str]], Mapping[str, Sequence[tuple[str, str]]]]
    consumers_of: Callable[[str], frozenset[str]]
    read_many: Callable[[Sequence[str]], Mapping[str, ConsumerAllocations]]
    hosts_of: Callable[[Collection[str]], Mapping[str, str]]

    def look(self, added: Added, *, is_first: bool) -> Mapping[str, Finding]:
        """Return what is found; see ``Check``.

        Later members of an affinity group follow the first one of their request, which was checked.
        """
        names = self.hosts_of(set().union(*added.values()))
        nodes = {uuid: node for uuid, rows in added.items() for node in rows.keys() & names.keys()}
        if not nodes or not (is_first or self.group.is_anti_affinity):
            return {}
        try:
            found = self._crowded(nodes) if self.group.is_anti_affinity else self._apart(nodes, names)
        except PlacementError as error:
            raise unavailable(error, f"Cannot read where group {self.group.text} is") from error
        places = self.places_of(found) if found else {}
        return {
            uuid: one
            for uuid, one in found.items()
            if names[nodes[uuid]] not in {host for _cell, host in places.get(uuid, ())}
        }

    def _members(self) -> set[str]:
        uuid = self.group.uuid
        return {*self.group.members, *(self.members_of(uuid) if uuid else ()), *self.instances}

    def _crowded(self, nodes: Mapping[str, str]) -> dict[str, Finding]:
        """Return what is found of instances on hosts with too many members of the group."""
        most, crowded = self.group.max_server_per_host, dict[str, Finding]()
        for uuid, node in nodes.items():
            consumers = self.consumers_of(node)
            if len(consumers) <= most:
                continue
            here = consumers & self._members()
            if len(here) > most:
                cause = f"members of group {self.group.text} on host: {len(here)}, limit {most}"
                gives_way = sum(other > uuid for other in here) >= most
                crowded[uuid] = Finding(ClaimState.AGAINST_POLICY, cause, gives_way=gives_way)
        return crowded

    def _apart(self, nodes: Mapping[str, str], names: Mapping[str, str]) -> dict[str, Finding]:
        """Return what is found of the first instance on a host if any member is on other hosts alone.

        What earlier runs have left to a request can be on several hosts.
        """
        for host in dict.fromkeys(names[node] for node in nodes.values()):
            hosts, gives_way = self._elsewhere(host, nodes, names)
            if hosts:
                first = next(uuid for uuid, node in nodes.items() if names[node] == host)
                cause = f"members of group {self.group.text} are on {', '.join(hosts)}"
                return {first: Finding(ClaimState.AGAINST_POLICY, cause, hosts=hosts, gives_way=gives_way)}
        return {}

    def _elsewhere(
        self, host: str, nodes: Mapping[str, str], names: Mapping[str, str]
    ) -> tuple[list[str], bool]:
        """Return the hosts of members that are not on a host, and whether they stay there.

        Those of built members stay, or else that of the last member in the order of UUIDs; all others join.
        An instance of the request that is not claimed yet does not count, as others do not see it.
        """
        others = self._members() - self.instances
        own = {node for node in nodes.values() if names[node] == host}
        there = others.intersection(frozenset().union(*map(self.consumers_of, own)))
        # The claim of a member that is built was looked after, and is not released any more. Most requests
        # meet such a member, and read no more.
        beside = self.states_of(there, ()) if there else {}
        if InstanceState.PLACED in beside.values():
            return [], False
        absent = others - there
        states = self.states_of(absent, ()) if absent else {}
        in_order = [uuid for uuid in self.group.members if uuid in absent]
        in_order += sorted(absent.difference(in_order))
        latest = [uuid for uuid in in_order if states[uuid] not in _WITHOUT_HOST][-MOST_READ:]
        held = self.read_many(latest) if latest else {}
        known = self.hosts_of({provider for each in held.values() for provider in each.allocations})
        of_each = {uuid: _hosts_in(each, known) for uuid, each in held.items()}
        away = {uuid: min(each) for uuid, each in of_each.items() if each and host not in each}
        if built := {away[uuid] for uuid in away if states[uuid] is InstanceState.PLACED}:
            return sorted(built), True
        here = {*nodes, *(uuid for uuid in beside if beside[uuid] not in _WITHOUT_HOST)}
        if away and max(away) > max(here):
            return [away[max(away)]], True
        return sorted({*away.values(), *(names[node] for node in nodes.values())} - {host}), False


def _hosts_in(held: ConsumerAllocations, names: Mapping[str, str]) -> set[str]:
    """Return the hosts of what an instance holds; the UUID of one that is not known."""
    return {
        names.get(provider, provider)
        for provider, entry in held.allocations.items()
        if provider in names or COMPUTE & entry["resources"].keys()
    }
