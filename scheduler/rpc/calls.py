"""The life of a call: received, run, replied to, and what becomes of its message and its claims at the end.

::

    received ──▶ waits for a thread ──▶ runs ──▶ replies ──▶ over
                        │                 │         │
                        │                 │         └──▶ waits for its reply queue ──▶ over
                        └─────────────────┴──▶ over: requeued

Until a call is acknowledged the broker holds the only durable record of it. What it claimed is kept if its
caller can know of it, and released otherwise. ``ENDS`` has one row for each way in which a run can end, and
``server`` does what the row says.
"""

from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
import math
from typing import NamedTuple, Protocol

from oslo_log import log as logging

from scheduler.request.past import SOON, Past

LOG = logging.getLogger(f"nova.{__name__}")


class Received(Protocol):
    """What is asked of a call that was received, here or in ``amqp.message``."""

    @property
    def past(self) -> Past:
        """Whether it may have been run before."""

    @property
    def received(self) -> float:
        """When it was received."""


def caller_may_have_left(call: Received, now: float) -> bool:
    """Return whether the caller of a call may have left; the scheduler that runs it next has to check."""
    return bool(call.past) or now > call.received + SOON


class State(Enum):
    """Where a call is between its receipt and its end."""

    WAITS_FOR_THREAD = "waits for a thread"
    RUNS = "runs"
    WAITS_FOR_REPLY_QUEUE = "waits for its reply queue"
    OVER = "over"


class Fate(Enum):
    """What becomes of the message."""

    ACKNOWLEDGE = "acknowledge"
    REQUEUE = "requeue"
    WAIT = "wait"


class Claims(Enum):
    """What becomes of the claims of the run."""

    KEEP = "keep"
    LEAVE = "leave to the next run of the message"
    RELEASE = "release"
    DOUBT = "leave them in doubt: find out later whether they are needed"


class Event(Enum):
    """How a run ended, or why there was none."""

    REPLIED = "the reply is confirmed"
    FAILED = "it has no result; an error follows, or the call is requeued"
    POISON = "it seems to end the processes that run it, and was answered with an error"
    NOT_BEGUN = "this process stops, or cannot decide, or the channel is lost already"
    NO_CALLER = "its reply queue is missing, and it was not run"
    COUNTED = "it was delivered before, and is in its queue once more with the number of its runs"
    RETURNED = "this process stops, or cannot decide while another one may"
    LOST = "its channel was lost while it ran"
    UNCONFIRMED = "the reply was sent, and not confirmed"
    UNKNOWN = "the same, and the call is not delivered again: it was acknowledged as overdue"
    CALLER_GONE = "its reply queue is missing, after the run"
    UNDELIVERABLE = "the broker does not take the reply, and never will"


class End(NamedTuple):
    """What is done with the message and the claims."""

    message: Fate | None
    claims: Claims


ENDS = {
    # Acknowledged before, the call would be lost with the process.
    Event.REPLIED: End(Fate.ACKNOWLEDGE, Claims.KEEP),
    # The caller gives the instances up when it has the error: nobody would release what they hold.
    Event.FAILED: End(None, Claims.RELEASE),
    # The next run would end the next process.
    Event.POISON: End(Fate.ACKNOWLEDGE, Claims.LEAVE),
    # It would wait here for a thread that nobody gives it, while others are idle.
    Event.NOT_BEGUN: End(Fate.REQUEUE, Claims.LEAVE),
    # Each such call would take a thread, and claim a host whose name reaches nobody.
    Event.NO_CALLER: End(Fate.WAIT, Claims.LEAVE),
    # The broker does not count the processes that it ends.
    Event.COUNTED: End(None, Claims.LEAVE),
    # The caller would get an error although another process can serve it.
    Event.RETURNED: End(Fate.REQUEUE, Claims.LEAVE),
    # Two runs would reply. The next one finds the claims.
    Event.LOST: End(Fate.REQUEUE, Claims.LEAVE),
    # Released, a host that the caller may have received would be lost.
    Event.UNCONFIRMED: End(Fate.REQUEUE, Claims.LEAVE),
    # No other run finds them.
    Event.UNKNOWN: End(Fate.ACKNOWLEDGE, Claims.DOUBT),
    # Claims would stay that no caller knows of. The queue may come back, while its caller connects elsewhere.
    Event.CALLER_GONE: End(Fate.WAIT, Claims.RELEASE),
    # The same reply would be tried, and the hosts claimed, until the message is poison.
    Event.UNDELIVERABLE: End(Fate.ACKNOWLEDGE, Claims.RELEASE),
}


class Held(Protocol):
    """What is kept or released, depending on the reply; as ``claims.session.Session``."""

    def keep(self) -> None:
        """Keep it: the reply was delivered."""

    def release(self) -> None:
        """Release it: the reply cannot be delivered."""

    def doubt(self) -> None:
        """Find out later whether it is needed: nobody knows whether the reply was delivered."""


class NotAnswered(BaseException):
    """The call is not answered here.

    No handler of errors may answer it, so it is no ``Exception``.
    """

    event: Event


class Lost(NotAnswered):
    """The broker has the message again, as its channel was lost: its next run answers it."""

    event = Event.LOST


class Requeued(NotAnswered):
    """The message is to be delivered once more instead of being answered now."""

    event = Event.RETURNED


def _new() -> Past:
    return Past.NONE


def _no() -> bool:
    return False


class Call:
    """A call that is being answered. One thread uses it.

    Attributes:
        message_id: The identity of the message, the same at each delivery; "" if it has none.
        received: When it was received, in seconds of ``time.monotonic``; infinity: right now.
        dropped: Why it is answered with an error without having been served; "" if it is served.
    """

    def __init__(
        self,
        message_id: str = "",
        received: float = math.inf,
        past: Callable[[], Past] = _new,
        can_be_requeued: Callable[[], bool] = _no,
        outranked: Callable[[], bool] = _no,
    ) -> None:
        """Begin with nothing that depends on the reply.

        Args:
            past: Returns the past of its message, which may get one while the call runs.
            can_be_requeued: Returns whether the broker delivers it once more if it is returned.
            outranked: Returns whether that is likely to be to another scheduler.
        """
        self.message_id, self.received = message_id, received
        self._past, self._can_be_requeued, self._outranked = past, can_be_requeued, outranked
        self.dropped = ""
        self._held: list[Held] = []

    @property
    def past(self) -> Past:
        """Whether it may have been run before, or its caller may have left."""
        return self._past()

    @property
    def can_be_requeued(self) -> bool:
        """Whether it may be returned to the broker, for another scheduler."""
        return self._can_be_requeued()

    @property
    def outranked(self) -> bool:
        """Whether it was received with a higher priority than its scheduler has now, and may be returned."""
        return self._outranked() and self.can_be_requeued

    def hold(self, held: Held) -> None:
        """Keep something until the outcome of the reply is known."""
        self._held.append(held)

    def end_claims(self, event: Event) -> None:
        """Do with the claims what an event says, once. Never raises."""
        held, self._held = self._held, []
        end = ENDS[event].claims
        for each in held:
            try:
                if end is Claims.KEEP:
                    each.keep()
                elif end is Claims.RELEASE:
                    each.release()
                elif end is Claims.DOUBT:
                    each.doubt()
            except Exception:
                LOG.exception("Cannot confirm or release the claims of a request")

    def forget_message(self) -> None:
        """Let go of the message, once nothing is done with it any more.

        The record of the decision has the call for as long as it is kept, and a message may be large.
        """
        self._past = _new
        self._can_be_requeued = self._outranked = _no


CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)
"""The call that the running thread answers; None outside of a server."""
