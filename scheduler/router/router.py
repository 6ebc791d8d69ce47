"""Sending each call to the partition that it belongs to, and on from one that has no host for it.

::

    caller ──▶ any scheduler ──▶ topic of the partition ──▶ one of its schedulers ──▶ caller
                    ▲                     │                          │
                    └── not taken in time ┘                          └── no host: the next partition

A call says which partitions it was sent to (``path``), so that each gets it once. The last one answers. One
that has not answered gets it again, if it is alive: the scheduler that had it may have stopped. It is tried
before others if it was heard of since the call was sent there, and after them otherwise.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from oslo_log import log as logging

from scheduler.conf.partitions import ROUTER, Partition
from scheduler.errors import PartitionUnreachable
from scheduler.router import path
from scheduler.router.rooms import Rooms
from scheduler.router.routing import PartitionState, RoutingFacts, next_partition, why
from scheduler.stream.membership import Member

LOG = logging.getLogger(__name__)

REASON = "partition"
"""Why calls are sent on, for log and metrics."""

MOST_SENT_FIRST = 3
"""How often a partition is sent a call before others are. One that is not taken there costs the wait."""


class Call(Protocol):
    """A call that is to be answered; as ``rpc.delivery.Delivery``."""

    tried: tuple[str, ...]

    def forward(self, topic: str, reason: str, tried: Sequence[str]) -> bool:
        """Send it on, and raise Forwarded; otherwise return whether it may have been sent all the same."""

    def requeue(self, reason: str) -> None:
        """Return it to the broker, and raise Postponed; return if that is not possible."""


class Places(Protocol):
    """Which partitions have a host or a cell."""

    def has_host(self, partition: str, host: str) -> bool | None:
        """Return whether a partition has a service host; None if that is not known."""

    def has_cell(self, partition: str, cell_uuid: str) -> bool | None:
        """Return whether a partition may have hosts of a cell; None if that is not known."""


class Router:
    """Sends calls on. Any thread may use it."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        own: Member,
        places: Places,
        members: Callable[[], Iterable[Member]],
        members_lately: Callable[[], Iterable[Member]],
    ) -> None:
        """Route between partitions.

        Args:
            partitions: All partitions.
            own: This scheduler, of a partition or a router.
            places: Which partitions have a host or a cell.
            members: Returns the schedulers that are alive; none but this one if others are not heard.
            members_lately: Returns those of them that were heard of lately (``stream.membership.LATELY``).
        """
        self._partitions = tuple(partitions)
        self._own = own
        self._places = places
        self._members = members
        self._members_lately = members_lately
        self._rooms = Rooms()

    @property
    def partition(self) -> str:
        """The partition that is served here; "" for all hosts, if this is a router."""
        return "" if self._own.partition == ROUTER else self._own.partition

    def for_questions(self) -> "Router":
        """Return a router that knows the same, and in which requests can be routed that are not sent."""
        router = Router(self._partitions, self._own, self._places, self._members, self._members_lately)
        router._rooms = self._rooms.copy()
        return router

    def schedulers(self) -> dict[str, list[str]]:
        """Return the hosts of the schedulers that are alive, by partition."""
        members = [*self._members(), self._own]
        names = [each.name for each in self._partitions]
        found = {name: {one.host for one in members if one.partition == name} for name in names}
        return {name: sorted(hosts) for name, hosts in found.items() if hosts}

    def route(self, facts: RoutingFacts, call: Call) -> None:
        """Send a call to the partition that it belongs to.

        Returns if that is this scheduler's, or if no other can be reached: then the call is served here.

        Args:
            facts: The request.
            call: The call; nothing is held for it.

        Raises:
            Forwarded: It was sent on.
        """
        current = path.current(call.tried)
        if current == self._own.partition:
            return
        tried = {stop.name for stop in path.stops(call.tried)}
        if path.came_back(call.tried):
            tried.discard(current)
        self._send(facts, call, call.tried, tried)

    def pass_on(self, facts: RoutingFacts, call: Call, reason: str, to: Callable[[str], None]) -> None:
        """Send a call for which there is no host here to the next partition.

        Returns if no other partition is left: then it is to be refused. If one is left that could not be
        reached, it is returned to the broker, a bounded number of times. If one is alive that had it often
        enough and has not answered, it is not known whether there is a host.

        Args:
            facts: The request.
            call: The call; nothing is held for it.
            reason: Why there is no host here.
            to: Called with the name of the partition before the call is sent, and with "" if none has it.

        Raises:
            Forwarded: It was sent on.
            Postponed: It may have been sent on, or could not be sent to a partition, and comes again.
            PartitionUnreachable: The same, and it has come again often enough; or one has not answered.
        """
        name = self._own.partition
        entries = path.answered(call.tried, name, f"{self._own.host}: {reason}")
        tried = {stop.name for stop in path.stops(entries)}
        if not self._send(facts, call, entries, tried, to):
            call.requeue("the broker did not confirm that it was sent to another partition")
            to("")
            raise PartitionUnreachable
        to("")
        if path.given_up(entries) & {member.partition for member in self._members()}:
            raise PartitionUnreachable

    def _send(
        self,
        facts: RoutingFacts,
        call: Call,
        entries: Sequence[str],
        tried: set[str],
        to: Callable[[str], None] = lambda _name: None,
    ) -> bool:
        """Send a call to the best partition that can be reached, unless that is this scheduler's.

        Returns:
            False if there is a partition that it could not be sent to, or may have been sent to.
        """
        states = self._states(facts)
        rounds = self._rounds(entries, tried)
        unreachable: set[str] = set()
        while state := _next_of(rounds, facts, states, unreachable):
            partition = state.partition
            self._rooms.sent(partition.name, facts.memory_mb)
            if partition.name == self._own.partition:
                break
            LOG.info("The request goes to partition %s: %s", partition.name, why(facts, state))
            to(partition.name)
            if call.forward(partition.topic, REASON, path.sent(entries, partition.name)):
                return False
            unreachable.add(partition.name)
        return not unreachable

    def _rounds(self, entries: Sequence[str], tried: set[str]) -> list[set[str]]:
        """Return which partitions are left out in each round of choosing one, in the order of the rounds."""
        again = path.unanswered(entries)
        if not again:
            return [tried]
        lately = {member.partition for member in self._members_lately()}
        first = path.unanswered(entries, MOST_SENT_FIRST) & tried & lately
        return [{each.name for each in self._partitions} - first, tried, tried - again]

    def _states(self, facts: RoutingFacts) -> list[PartitionState]:
        members = tuple(self._members())
        rooms = self._rooms.shares(members)
        alive = {member.partition for member in members if member.topic} | {self._own.partition}
        return [
            PartitionState(
                partition,
                partition.name in alive,
                rooms.get(partition.name, 0.0),
                self._has(partition, facts, members),
            )
            for partition in self._partitions
        ]

    def _has(self, partition: Partition, facts: RoutingFacts, members: Sequence[Member]) -> bool | None:
        """Return whether a partition has the host or cell that a request names."""
        if facts.host:
            return self._places.has_host(partition.name, facts.host)
        if not facts.cell_uuid:
            return None
        known = self._places.has_cell(partition.name, facts.cell_uuid)
        told = [member.cells for member in members if member.partition == partition.name and member.cells]
        return known if known is not None or not told else any(facts.cell_uuid in cells for cells in told)


def _next_of(
    rounds: Sequence[set[str]], facts: RoutingFacts, states: Sequence[PartitionState], unreachable: set[str]
) -> PartitionState | None:
    found = (next_partition(facts, states, left_out | unreachable) for left_out in rounds)
    return next(filter(None, found), None)
