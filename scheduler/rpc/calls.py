"""The life of a call: received, run, replied to, and what becomes of its message and its claims at the end.

Until a call is acknowledged the broker holds the only durable record of it. What it claimed is kept if its
caller can know of it, and released otherwise. ``Event`` has one row for each way in which a run can end, and
``server`` does what the row says.
"""

from collections.abc import Callable
from enum import Enum
import math
from typing import Protocol

from kombu import Message
from oslo_log import log as logging

from scheduler.bounds.waits import Wait
from scheduler.decisions.open_requests import OpenRequest
from scheduler.request.past import SOON, Past
from scheduler.rpc.consumer import Consumer, is_redelivery, requeue, runs_of
from scheduler.rpc.wire import NOTHING, Frame

LOG = logging.getLogger(f"nova.{__name__}")

#: Characters of an id that is listed: anyone on the bus may send it.
LONGEST_ID = 64


class State(Enum):
    """Where a call is between its receipt and its end."""

    WAITS_FOR_THREAD = "waits for a thread"
    RUNS = "runs"
    REPLIES = "its reply is sent"
    WAITS_FOR_READER = "waits until its reply queue is read"
    OVER = "over"


class Fate(Enum):
    """What becomes of the message."""

    ACKNOWLEDGE = "acknowledge"
    REQUEUE = "requeue"
    WAIT = "wait until the reply queue is read"


class ClaimPolicy(Enum):
    """What becomes of the claims of the run."""

    KEEP = "keep"
    HOLD = "hold until the end of the call"
    LEAVE = "leave to the next run of the message"
    RELEASE = "release"
    DOUBT = "leave them in doubt: find out later whether they are needed"


class Event(Enum):
    """How a run ended, or why there was none.

    Attributes:
        message: What becomes of the message; None: nothing yet.
        claims: What becomes of the claims.
    """

    # Acknowledged before, the call would be lost with the process.
    REPLIED = "the reply is confirmed", Fate.ACKNOWLEDGE, ClaimPolicy.KEEP
    # The caller gives the instances up when it has the error: nobody would release what they hold.
    FAILED = "it has no result; an error follows, or it is requeued", None, ClaimPolicy.RELEASE
    # The next run would end the next process.
    POISON = "it seems to end the processes that run it", Fate.ACKNOWLEDGE, ClaimPolicy.LEAVE
    # Each such call would take a thread, and claim a host whose name reaches nobody.
    NO_CALLER = "nobody reads its reply queue, and it was not run", Fate.WAIT, ClaimPolicy.LEAVE
    # The broker does not count the processes that it ends.
    COUNTED = "it is in its queue once more with the number of its runs", None, ClaimPolicy.LEAVE
    # Another process can serve it, and finds the claims. If the channel is lost, two runs would reply.
    RETURNED = (
        "this process stops, or cannot decide, or has lost its channel",
        Fate.REQUEUE,
        ClaimPolicy.LEAVE,
    )
    # Released, a host that the caller may have received would be lost.
    UNCONFIRMED = "the reply was sent, and not confirmed", Fate.REQUEUE, ClaimPolicy.LEAVE
    # No other run finds them.
    UNKNOWN = "the same, and it was acknowledged as overdue", Fate.ACKNOWLEDGE, ClaimPolicy.DOUBT
    # The caller may connect elsewhere, and gets the same reply then.
    UNREAD = "nobody reads its reply queue, after the run", Fate.WAIT, ClaimPolicy.HOLD
    # Claims would stay that no caller knows of.
    CALLER_GONE = "nobody has read its reply queue for long", Fate.ACKNOWLEDGE, ClaimPolicy.RELEASE
    # The same reply would be tried, and the hosts claimed, until the message is poison.
    UNDELIVERABLE = "the broker never takes the reply", Fate.ACKNOWLEDGE, ClaimPolicy.RELEASE

    def __init__(self, _text: str, message: Fate | None, claims: ClaimPolicy) -> None:
        self.message, self.claims = message, claims


class Held(Protocol):
    """What is kept or released, depending on the reply; as ``claims.session.Session``."""

    def keep(self) -> None: ...

    def release(self) -> None: ...

    def doubt(self) -> None: ...


class Call:
    """A call from its receipt to its end. One thread uses it at a time, but for what it shows.

    Attributes:
        message_id: The identity of the message, the same at each delivery; "" if it has none.
        received: When it was received, in seconds of ``time.monotonic``; infinity: right now.
        frame: What was received.
        raw: The message; None outside of a server, and once it is over.
        runs: How many schedulers had it before, and neither answered nor requeued it.
        state: Where it is.
        since: Since when it replies or waits for a reader; 0 before that.
        beat_at: When its caller is to hear a heartbeat; infinity: never.
        beat_interval: Seconds between two of them.
        reply: Its reply, as it is sent; None before that.
        dropped: Why it is answered with an error without having been served; "" if it is served.
    """

    def __init__(
        self,
        frame: Frame = NOTHING,
        raw: Message | None = None,
        consumer: Consumer | None = None,
        received: float = math.inf,
        past: Past = Past.NONE,
    ) -> None:
        """Begin with nothing that depends on the reply.

        Args:
            consumer: Which has received the message.
        """
        self.frame, self.raw, self.received = frame, raw, received
        self._consumer = consumer
        self._losses, self._priority = (consumer.losses, consumer.priority) if consumer else (0, 0)
        self.runs = runs_of(raw) if raw else 0
        self.message_id = frame.identity
        self.state = State.WAITS_FOR_THREAD
        self.since = 0.0
        self.beat_at = self.beat_interval = math.inf
        self.reply: dict[str, str] | None = None
        self.dropped = ""
        self._past = past
        self._held: list[Held] = []

    @property
    def past(self) -> Past:
        """Whether it may have been run before, or its caller may have left: also while it runs."""
        if not self._past and self.is_lost:
            self._past = Past.LOST
        return self._past

    def may_have_left(self, now: float) -> bool:
        """Return whether the caller may have left; the scheduler that runs the call next has to check."""
        return bool(self.past) or now > self.received + SOON

    @property
    def is_acknowledged(self) -> bool:
        """Whether the broker has forgotten it, or has it again as it was returned."""
        raw = self.raw  # another thread may forget it meanwhile
        return raw is None or bool(raw.acknowledged)

    @property
    def is_current(self) -> bool:
        """Whether its channel is still open, as far as is known."""
        return self._consumer is None or self._losses == self._consumer.losses

    @property
    def is_lost(self) -> bool:
        """Whether the broker has it again, since the connection was lost: it is delivered once more."""
        return not self.is_acknowledged and not self.is_current

    @property
    def is_redelivery(self) -> bool:
        """Whether the last scheduler that had it neither answered nor requeued it, as one that is killed."""
        return self.raw is not None and is_redelivery(self.raw)

    @property
    def outranked(self) -> bool:
        """Whether it was received with a higher priority than its scheduler has now, and may be returned."""
        lowered = self._consumer is not None and self._priority > self._consumer.priority
        return lowered and not self.is_acknowledged

    def acknowledge(self) -> None:
        """Let the broker forget it soon, unless its channel is lost."""
        self._settle(Message.ack)

    def requeue(self) -> None:
        """Let it be delivered again, as one that this scheduler has ended properly."""
        if not self.publish_again():
            self._settle(requeue)

    def publish_again(self) -> bool:
        """Put it into its queue once more; see ``Consumer.publish_again``."""
        if self._consumer is None or self.raw is None or self.is_acknowledged or not self.is_current:
            return False
        return self._consumer.publish_again(self.raw, self.message_id, self._losses)

    def _settle(self, send: Callable[[Message], None]) -> None:
        if self._consumer is not None and self.raw is not None:
            self._consumer.settle(self.raw, self._losses, send)

    def wants_heartbeat(self, now: float) -> bool:
        """Return whether its caller is to hear a heartbeat: none follows the reply."""
        return self.beat_at <= now and self.state not in {State.REPLIES, State.OVER}

    def listed(self, now: float) -> OpenRequest:
        """Return what is listed of it. Of the context only the request id is: it may have a token."""
        frame, unread = self.frame, f"reply queue {_id(self.frame.reply_queue)}, which nobody reads"
        step, wait = {
            State.RUNS: ("start", None),
            State.REPLIES: ("reply", Wait("RabbitMQ, which has to confirm the reply", self.since)),
            State.WAITS_FOR_READER: ("reply", Wait(unread, self.since)),
        }.get(self.state, ("queue", Wait("a free thread", self.received)))
        arguments = frame.message.get("args")
        uuids = arguments.get("instance_uuids") if isinstance(arguments, dict) else None
        named = tuple(map(_id, uuids)) if isinstance(uuids, list) else ()
        return OpenRequest.of(_id(frame.context.get("request_id")), named, self.received, step, wait, now)

    def hold(self, held: Held) -> None:
        """Keep the claims of a run until the outcome of its reply is known; ``workflow.run`` calls it."""
        self._held.append(held)

    def end_claims(self, event: Event) -> None:
        """Do with the claims what an event says, once. Never raises."""
        end = event.claims
        if end is ClaimPolicy.HOLD:
            return
        held, self._held = self._held, []
        for each in held:
            try:
                if end is ClaimPolicy.KEEP:
                    each.keep()
                elif end is ClaimPolicy.RELEASE:
                    each.release()
                elif end is ClaimPolicy.DOUBT:
                    each.doubt()
            except Exception:
                LOG.exception("Cannot confirm or release the claims of a request")

    def forget_message(self) -> None:
        """Let go of the message, once nothing is done with it any more.

        The record of the decision has the call for as long as it is kept, and a message may be large.
        """
        self.state = State.OVER
        self.frame, self.raw, self.reply = NOTHING, None, None


def _id(value: object) -> str:
    return value[:LONGEST_ID] if isinstance(value, str) else ""
