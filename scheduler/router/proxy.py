"""One request and its way: the first partition is called, and on NoValidHost the next one.

What decides is left to the schedulers: of a call that was given up, or whose router died, a later scheduler
finds what its instances hold in Placement. So each try but the first says that there was one before.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
import time
from typing import Any, Protocol

from oslo_log import log as logging

from scheduler.conf.partitions import Partition
from scheduler.router.presence import Presence
from scheduler.router.routing import RoutingFacts, in_order, why
from scheduler.rpc.client import BrokerAway, NoReply, Patience, Reply
from scheduler.rpc.transport import BASE_NAMESPACE

LOG = logging.getLogger(__name__)

SILENCE = 8.0
"""Seconds without a sign of a partition after which another one is called."""

PING_PATIENCE = Patience(4.0, 4.0)

WAIT_FOR_SILENT = 10.0
"""Seconds for which a request waits for partitions that do not answer, once the others have no host."""

MOST_TRIES = 3
"""How often a request is tried in one partition that does not answer."""

NO_HOST = "NoValidHost"

ELSEWHERE = frozenset({NO_HOST, "CellTimeout", "AllocationUpdateFailed"})
"""Errors after which another partition may have a host, or have what the instances hold."""


class Unreachable(Exception):
    """Partitions that may have a host do not answer."""


class Caller(Protocol):
    """Calls schedulers; as ``rpc.client.Client``."""

    def call(
        self,
        topic: str,
        message: Mapping[str, Any],
        patience: Patience,
        heard: Callable[[], None],
        *,
        again: bool,
    ) -> Reply:
        """Return what a scheduler of a topic replies."""


@dataclass
class _Way:
    """The way of one request.

    Attributes:
        left: Partitions to be tried, in order.
        again: Whether a scheduler may have had the request before.
        last: The last reply without a host.
        unsure: The last one of these that leaves open whether there is a host.
    """

    left: list[Partition]
    again: bool
    last: Reply | None = None
    unsure: Reply | None = None


class Router:
    """Calls partitions. Any thread may use it.

    Attributes:
        presence: Which partitions answer.
        on_sign: Called at each sign of a partition.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        caller: Caller,
        outage_patience: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Call the schedulers of some partitions.

        Args:
            outage_patience: Returns the seconds for which a request waits while no partition answers.
        """
        self._partitions = tuple(partitions)
        self._caller = caller
        self._outage_patience = outage_patience
        self._clock = clock
        self.presence = Presence(self._partitions, self._ping)
        self.on_sign: Callable[[], None] = lambda: None

    def reply_to(self, message: Mapping[str, Any], patience: float, *, again: bool) -> Reply:
        """Return the reply to a call.

        Args:
            message: Method, arguments, version and context, as they are on the wire.
            patience: Seconds for which its caller waits.
            again: Whether a router may have had it before.

        Raises:
            Unreachable: Partitions that may have a host do not answer.
            BrokerAway: The broker is unavailable, and the outcome of the call is unknown.
        """
        arguments = message.get("args", {})
        facts = RoutingFacts.of(arguments.get("spec_obj"), arguments.get("instance_uuids"))
        way = _Way(in_order(facts, self._partitions), again)
        end = self._clock() + patience
        tries: dict[str, int] = {}
        while (partition := self._next(way, end)) is not None:
            LOG.info("Calling partition %s (%s)", partition.name, why(facts, partition))
            reply = self._try(partition, message, way, end)
            if reply is not None:
                return reply
            tries[partition.name] = tries.get(partition.name, 0) + 1
            if tries[partition.name] >= MOST_TRIES and partition in way.left:
                break
        return _end_of(way)

    def _next(self, way: _Way, end: float) -> Partition | None:
        """Return the partition to try. If none replies, wait for one."""
        if not way.left or self._clock() >= end:
            return None
        wait = self._outage_patience() if way.last is None else WAIT_FOR_SILENT
        return self.presence.wait_for_one_of(way.left, min(wait, end - self._clock()))

    def _try(self, partition: Partition, message: Mapping[str, Any], way: _Way, end: float) -> Reply | None:
        """Return the reply of a partition; None if the next one has to be tried."""
        patience = Patience(SILENCE, max(0.0, end - self._clock()))
        try:
            reply = self._caller.call(
                partition.topic, message, patience, partial(self._hear, partition), again=way.again
            )
        except NoReply as error:
            LOG.warning("Partition %s did not answer: %s", partition.name, error)
            self.presence.miss(partition)
            way.again = True
            way.left.append(way.left.pop(way.left.index(partition)))
            return None
        failure = reply.failure
        if failure is None or failure.name not in ELSEWHERE or failure.kwargs.get("final"):
            return reply
        LOG.info("Partition %s has no host: %s", partition.name, failure.text)
        way.left.remove(partition)
        way.last = reply
        if failure.name != NO_HOST:
            way.unsure = reply
        return None

    def _hear(self, partition: Partition) -> None:
        self.presence.hear(partition)
        self.on_sign()

    def _ping(self, partition: Partition) -> bool:
        """Return whether a scheduler of a partition replies."""
        heard: list[bool] = []
        ping = {"method": "ping", "args": {"arg": ""}, "namespace": BASE_NAMESPACE, "version": "1.1"}
        with suppress(NoReply, BrokerAway):
            self._caller.call(partition.topic, ping, PING_PATIENCE, lambda: heard.append(True), again=False)
        return bool(heard)


def _end_of(way: _Way) -> Reply:
    """Return the reply to a request that no partition has a host for.

    Raises:
        Unreachable: One that may have a host does not answer.
    """
    if way.left or way.last is None:
        raise Unreachable(", ".join(each.name for each in way.left))
    return way.unsure or way.last
