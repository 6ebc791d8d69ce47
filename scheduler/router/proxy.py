"""One request and its way: the first partition is called, and on NoValidHost the next one.

What decides is left to the schedulers: of a call that was given up, or whose router died, a later scheduler
finds what its instances hold in Placement. So each try but the first says that there was one before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
import time
from typing import Any

from oslo_log import log as logging

from scheduler.conf.partitions import Partition
from scheduler.errors import PartitionUnreachable, ReturnedToBroker
from scheduler.router.presence import Presence
from scheduler.router.routing import RoutingFacts, in_order, why
from scheduler.rpc.client import Client, ErrorReply, NoReply
from scheduler.rpc.transport import BASE_NAMESPACE

LOG = logging.getLogger(f"nova.{__name__}")

SILENCE = 8.0
"""Seconds without a sign of a partition after which another one is called."""

PING_TIMEOUT = 4.0
"""Seconds that the reply to a ping may take."""

WAIT_FOR_SILENT = 10.0
"""Seconds for which a request waits for partitions that do not answer, once the others have no host."""

MOST_TRIES = 3
"""How often a request is tried in one partition that does not answer."""

NO_HOST = "NoValidHost"

ELSEWHERE = frozenset({NO_HOST, "CellTimeout", "AllocationUpdateFailed"})
"""Errors after which another partition may have a host, or have what the instances hold."""


class Router:
    """Calls partitions. Any thread may use it.

    Attributes:
        presence: Which partitions answer.
        on_sign: Called at each sign of a partition.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        caller: Client,
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

    def reply_to(self, message: Mapping[str, Any], patience: float, *, again: bool) -> object:
        """Return the reply to a call; an ``ErrorReply`` for an error.

        Args:
            message: Method, arguments, version and context, as they are on the wire.
            patience: Seconds for which its caller waits.
            again: Whether a router may have had it before.

        Raises:
            PartitionUnreachable: Partitions that may have a host do not answer.
            ReturnedToBroker: The broker is unavailable, and the outcome of the call is unknown.
        """
        arguments = message.get("args", {})
        facts = RoutingFacts.of(arguments.get("spec_obj"), arguments.get("instance_uuids"))
        left, refusals, tries = in_order(facts, self._partitions), list[ErrorReply](), Counter[str]()
        end = self._clock() + patience
        while (partition := self._next(left, end, refused=bool(refusals))) is not None:
            LOG.info("Calling partition %s (%s)", partition.name, why(facts, partition))
            left.remove(partition)
            try:
                hear, total = partial(self._hear, partition), max(0.0, end - self._clock())
                reply = self._caller.call(partition.topic, message, SILENCE, total, hear, again=again)
            except NoReply as error:
                LOG.warning("Partition %s did not answer: %s", partition.name, error)
                self.presence.miss(partition)
                again = True
                left.append(partition)  # after the others
                tries[partition.name] += 1
                if tries[partition.name] >= MOST_TRIES:
                    break
                continue
            if not isinstance(reply, ErrorReply) or reply.name not in ELSEWHERE or reply.kwargs.get("final"):
                return reply
            LOG.info("Partition %s has no host: %s", partition.name, reply.text)
            refusals.append(reply)
        if left or not refusals:
            LOG.warning(
                "No host found, and partitions did not answer: %s", ", ".join(each.name for each in left)
            )
            raise PartitionUnreachable
        # one that leaves open whether there is a host outweighs one that has none
        return next((each for each in reversed(refusals) if each.name != NO_HOST), refusals[-1])

    def _next(self, left: Sequence[Partition], end: float, *, refused: bool) -> Partition | None:
        """Return the partition to try. If none replies, wait for one."""
        if not left or self._clock() >= end:
            return None
        wait = WAIT_FOR_SILENT if refused else self._outage_patience()
        return self.presence.wait_for_one_of(left, min(wait, end - self._clock()))

    def _hear(self, partition: Partition) -> None:
        self.presence.hear(partition)
        self.on_sign()

    def _ping(self, partition: Partition) -> bool:
        """Return whether a scheduler of a partition replies."""
        heard: list[bool] = []
        ping = {"method": "ping", "args": {"arg": ""}, "namespace": BASE_NAMESPACE, "version": "1.1"}
        with suppress(NoReply, ReturnedToBroker):
            self._caller.call(partition.topic, ping, PING_TIMEOUT, PING_TIMEOUT, lambda: heard.append(True))
        return bool(heard)
