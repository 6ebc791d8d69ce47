"""What happened to the claim for an instance, try by try, and the log lines about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
import logging

from oslo_log import log

LOG = log.getLogger(f"nova.{__name__}")


class ClaimState(StrEnum):
    """The states of a claim. The value of each says in log lines what is done next.

    Attributes:
        FIRST_WRITE: The allocations are written for a consumer that holds nothing.
        KEEPING_SOURCE: The allocations are written in addition to those of an evacuated host.
        RESENDING: The last write is sent again, as it had neither a response nor an effect.
        BACKING_OFF: The last write is sent again after a random delay, because of a concurrent update.
        CONSUMER_CHANGED: The consumer is not in the expected state, and is read.
        OUTCOME_UNKNOWN: A write had no clear response. The consumer is read until the effect shows.
        BATCH_WRITE: The claim is sent in one request together with those for other instances.
        SPLIT: The claim is sent together with fewer others.
        GRANTED: The instance has its allocations. The end.
        WITHIN_CAPACITY: The host was found within its capacity after the claim.
        OVER_CAPACITY: The granted claim is released, as claims of several processes overlapped. The end.
        AGAINST_POLICY: The granted claim is released, as a server group forbids the host. The end.
        NEXT_HOST: This host is not claimed, another may be. The end.
        GIVEN_UP: No host would do now. The end.
    """

    FIRST_WRITE = "writing the allocations"
    KEEPING_SOURCE = "writing the allocations in addition to those of the evacuated host"
    RESENDING = "sending the same claim again"
    BACKING_OFF = "sending the same claim again after a delay"
    CONSUMER_CHANGED = "reading what the instance holds"
    OUTCOME_UNKNOWN = "reading back whether the claim had an effect"
    BATCH_WRITE = "sending the claims of the batch again without the refused ones"
    SPLIT = "sending the claims of the batch in halves"
    GRANTED = "the claim is complete"
    WITHIN_CAPACITY = "keeping the claim"
    OVER_CAPACITY = "giving the claim back, and trying the next host"
    AGAINST_POLICY = "releasing the claim, and trying another host"
    NEXT_HOST = "trying the next host"
    GIVEN_UP = "giving the claim up"


#: The states in which a claim has ended.
ENDS = frozenset(
    {
        ClaimState.GRANTED,
        ClaimState.OVER_CAPACITY,
        ClaimState.AGAINST_POLICY,
        ClaimState.NEXT_HOST,
        ClaimState.GIVEN_UP,
    }
)

#: What operators want to know of; the rest is for debugging. ``GRANTED`` counts if something preceded it.
_AT_INFO = ENDS | {
    ClaimState.RESENDING,
    ClaimState.SPLIT,
}


@dataclass(frozen=True, slots=True)
class ClaimEvent:
    """One step of a claim.

    Attributes:
        attempt: The number of the try, from 1; 0 if the claim failed before its first.
        host: The name of the host if it is known, otherwise the UUID of the root provider.
        status: The HTTP status of Placement's response; None if there was none.
        cause: What happened, in one line.
        next_step: What is done next.
    """

    attempt: int
    host: str
    status: int | None
    cause: str
    next_step: ClaimState

    @property
    def ended(self) -> bool:
        """Whether the claim on the host ended with this event."""
        return self.next_step in ENDS

    @property
    def in_outage(self) -> bool:
        """Whether Placement gave a response of an outage, which has log lines of its own."""
        return self.status in {401, 403} or (self.status or 0) >= 500

    @property
    def granted(self) -> bool:
        """Whether the instance has its allocations on the host."""
        return self.next_step is ClaimState.GRANTED


class ClaimHistory:
    """The events of the claim for one instance on one host; each is logged when it is added.

    Attributes:
        events: The events, in their order.
        attempt: The number of the current try.
    """

    def __init__(
        self,
        instance_uuid: str,
        host: str,
        earlier: Sequence[ClaimEvent] = (),
        on_event: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin with the events of an earlier part of the same claim, if there was one.

        Args:
            host: The name of the host if it is known, otherwise the UUID of the root provider.
            on_event: Called when an event is added.
        """
        self._instance_uuid = instance_uuid
        self._on_event = on_event
        self._host = host
        self.events = list(earlier)
        self.attempt = earlier[-1].attempt if earlier else 0

    def begin_try(self) -> None:
        """Count a try that is about to be made."""
        self.attempt += 1

    def add(self, next_step: ClaimState, cause: str, status: int | None = None, host: str = "") -> None:
        """Append an event, and log it; ``host``: that of the provider in question, if it is another one."""
        event = ClaimEvent(self.attempt, host or self._host, status, cause, next_step)
        self.events.append(event)
        self._on_event()
        self._log(event)

    def _log(self, event: ClaimEvent) -> None:
        if event.next_step is ClaimState.GRANTED:
            self._log_granted(event)
            return
        unavailable = event.next_step is ClaimState.GIVEN_UP and event.in_outage
        if event.next_step in ENDS and event.status is not None and not unavailable:
            LOG.warning(
                "Failed to save allocation for %s. Got HTTP %s: %s",
                self._instance_uuid,
                event.status,
                event.cause,
            )
        # In an outage each claim is sent again every second
        before = {(each.host, each.next_step) for each in self.events[:-1]}
        repeated = (event.host, event.next_step) in before
        LOG.log(
            logging.INFO
            if event.next_step in _AT_INFO and not unavailable and not repeated
            else logging.DEBUG,
            "Claim for instance %s on host %s, try %d: %s; %s",
            self._instance_uuid,
            event.host,
            event.attempt,
            event.cause,
            event.next_step,
        )

    def _log_granted(self, event: ClaimEvent) -> None:
        if len(self.events) == 1:
            return  # the first try succeeded, as nearly all do
        LOG.info(
            "Claim for instance %s on host %s succeeded at try %d after: %s",
            self._instance_uuid,
            event.host,
            event.attempt,
            self.events[-2].cause,
        )
