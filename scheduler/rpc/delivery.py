"""One message from its receipt until its reply is delivered, and what depends on that.

A request is over when its reply is confirmed, not before: what was claimed for it is kept if the caller can
know of it, and released otherwise. So the manager hands what it claimed to the delivery (``Delivery.hold``),
and the server reports what became of the reply. A message that the broker has again keeps what was claimed:
its next run finds it in Placement.
"""

from collections.abc import Callable
from contextvars import ContextVar
import math
from typing import Protocol

from oslo_log import log as logging

LOG = logging.getLogger(f"nova.{__name__}")


class Held(Protocol):
    """What is kept or released, depending on the reply; as ``claims.claim_session.ClaimSession``."""

    def confirm(self) -> None:
        """Keep it: the reply was delivered."""

    def keep(self) -> None:
        """Keep it for the next run of the message."""

    def release(self) -> None:
        """Release it: the reply cannot be delivered."""


class NotAnswered(BaseException):
    """The message is not answered here.

    No handler of errors may answer it, so it is no ``Exception``.
    """


class Forwarded(NotAnswered):
    """Another scheduler has the message now, and answers it."""


class Lost(NotAnswered):
    """The broker has the message again, as its channel was lost: its next run answers it."""


class Requeued(NotAnswered):
    """The message is to be delivered once more instead of being answered now."""


def _never() -> bool:
    return False


class Delivery:
    """A message that is being answered. One thread uses it.

    Attributes:
        message_id: The identity of the message, the same at each delivery; "" if it has none.
        redelivered: Whether the broker has delivered the message before.
        received: When it was received, in seconds of ``time.monotonic``; infinity: right now.
        can_be_requeued: Whether it may be returned to the broker, for another scheduler.
        dropped: Why it is answered with an error without having been served; "" if it is served.
    """

    def __init__(
        self,
        message_id: str = "",
        redelivered: bool = False,
        received: float = math.inf,
        has_past: Callable[[], bool] = _never,
        can_be_requeued: bool = False,
        forward: Callable[[str, str], bool] | None = None,
    ) -> None:
        """Begin with nothing that depends on the reply.

        Args:
            has_past: Returns whether it may have been run before, or its caller may have left; that may
                change while it is run.
            forward: Sends it on to a topic, with the reason, and raises ``Forwarded``; or returns whether the
                broker may have it there. None if it may not be forwarded.
        """
        self.message_id, self.redelivered, self.received = message_id, redelivered, received
        self._has_past, self.can_be_requeued, self._forward = has_past, can_be_requeued, forward
        self.dropped = ""
        self._may_be_elsewhere = False
        self._held: list[Held] = []

    @property
    def has_past(self) -> bool:
        """Whether it may have been run before, may be run elsewhere, or its caller may have left."""
        return self._may_be_elsewhere or self._has_past()

    def hold(self, held: Held) -> None:
        """Keep something until the outcome of the reply is known."""
        self._held.append(held)

    def forward(self, topic: str, reason: str) -> None:
        """Send the message on to another scheduler, which answers its caller.

        Returns if that is not possible: then it is to be answered here. If it is not known whether it was
        sent, it has a past from now on. Nothing may be held.

        Args:
            topic: Where the other scheduler, or one of several, takes messages.
            reason: Why, in one word, for log and metrics.

        Raises:
            Forwarded: It was sent.
        """
        if self._forward is not None and self._forward(topic, reason):
            self._may_be_elsewhere = True

    def confirm(self) -> None:
        """Report that the reply was delivered. Never raises."""
        self._end_held(lambda held: held.confirm())

    def keep(self) -> None:
        """Report that the message is run once more: its reply may have been delivered. Never raises."""
        self._end_held(lambda held: held.keep())

    def release(self) -> None:
        """Report that the reply was not delivered, and will not be. Never raises."""
        self._end_held(lambda held: held.release())

    def end(self) -> None:
        """Let go of the message, once nothing is done with it any more.

        The record of the decision has the delivery for as long as it is kept, and a message may be large.
        """
        self._forward, self._has_past = None, _never

    def _end_held(self, end: Callable[[Held], None]) -> None:
        held, self._held = self._held, []
        for each in held:
            try:
                end(each)
            except Exception:
                LOG.exception("Cannot confirm or release the claims of a request")


CURRENT: ContextVar[Delivery | None] = ContextVar("delivery", default=None)
"""The delivery that the running thread answers; None outside of a server."""
