"""One message from its receipt until its reply is delivered, and what depends on that.

A request is over when its reply is confirmed, not before: what was claimed for it is kept if the caller can
know of it, and given back otherwise. If it is not known whether the reply was delivered, it is kept.
So the manager hands what it claimed to the delivery (``Delivery.hold``), and the server reports what became
of the reply.
"""

from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum, auto
from typing import NamedTuple, Protocol

from oslo_log import log as logging

from scheduler.message_runs import ReplyRecords

LOG = logging.getLogger(__name__)


class Held(Protocol):
    """What is kept or given back, depending on the reply; as ``claims.claim_session.ClaimSession``."""

    def confirm(self) -> None:
        """Keep it: the reply was delivered."""

    def give_back(self) -> None:
        """Give it back: the reply cannot be delivered."""


class NotAnswered(BaseException):
    """The message is not answered here.

    No handler of errors may answer it, so it is no ``Exception``.
    """


class Forwarded(NotAnswered):
    """Another scheduler has the message now, and answers it."""


class CallerGone(NotAnswered):
    """The caller was sent nothing for so long that it waits no more, unless another process answers it."""


class Postponed(NotAnswered):
    """The message is to be delivered once more instead of being answered now.

    Attributes:
        at_once: Whether it is not to wait for another run of the message.
    """

    def __init__(self, reason: str, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.at_once = at_once


class Sent(Enum):
    """What became of a message that was to be sent on.

    Attributes:
        YES: It was; it is acknowledged here.
        NO: It was not.
        UNKNOWN: The broker has not confirmed it, and may have it.
    """

    YES = auto()
    NO = auto()
    UNKNOWN = auto()


class Receipt(NamedTuple):
    """What is known of a message when its run begins.

    Attributes:
        message_id: The identity of the message, the same at each delivery; "" if it has none.
        redelivered: Whether the broker has delivered the message before. Its first run may be under way in
            another process, or may have been answered.
        may_be_answered: Whether an earlier run may have been answered with hosts: its process ended while it
            sent the reply.
        waited: Seconds from its receipt until a thread was free.
    """

    message_id: str = ""
    redelivered: bool = False
    may_be_answered: bool = False
    waited: float = 0.0


class Elsewhere(NamedTuple):
    """How a message may come to be answered elsewhere, or later.

    Attributes:
        can_be_postponed: Whether it may be returned to the broker, to wait for another run of it.
        can_be_returned: Whether it may be returned to the broker, for another scheduler.
        forward: Sends it on to a topic, with the reason; None if it may not be sent on.
    """

    can_be_postponed: bool = False
    can_be_returned: bool = False
    forward: Callable[[str, str], Sent] | None = None


class Delivery:
    """A message that is being answered. One thread uses it.

    Attributes:
        message_id: See ``Receipt``, as for the three that follow.
        redelivered: So it counts too once it may have been sent on.
        may_be_answered: See there.
        waited: See there.
        can_be_postponed: See ``Elsewhere``.
        can_be_returned: See there.
    """

    def __init__(
        self,
        receipt: Receipt = Receipt(),  # noqa: B008 - it is immutable
        elsewhere: Elsewhere = Elsewhere(),  # noqa: B008 - it is immutable
        replies: ReplyRecords | None = None,
    ) -> None:
        """Begin with nothing that depends on the reply.

        Args:
            receipt: What is known of the message.
            elsewhere: How it may come to be answered elsewhere.
            replies: Records how the message is answered; None if that is not recorded.
        """
        self.message_id, self.redelivered, self.may_be_answered, self.waited = receipt
        self.can_be_postponed, self.can_be_returned, self._forward = elsewhere
        self._replies = replies if receipt.message_id else None
        self._held: list[Held] = []

    def hold(self, held: Held) -> None:
        """Keep something until the outcome of the reply is known."""
        self._held.append(held)

    def forward(self, topic: str, reason: str) -> None:
        """Send the message on to another scheduler, which answers its caller.

        Returns if that is not possible: then it is to be answered here. If it is not known whether it was
        sent, it counts as redelivered from now on. Nothing may be held.

        Args:
            topic: Where the other scheduler, or one of several, takes messages.
            reason: Why, in one word, for log and metrics.

        Raises:
            Forwarded: It was sent.
        """
        if self._forward is None or self.may_be_answered:
            return
        sent = self._forward(topic, reason)
        if sent is Sent.YES:
            raise Forwarded(f"the message was sent to {topic}")
        self.redelivered = self.redelivered or sent is Sent.UNKNOWN

    def begin_reply(self, *, failed: bool) -> None:
        """Report that a reply is about to be sent: from now on the caller may know it."""
        if self._replies:
            self._replies.begin_reply(self.message_id, failed=failed)

    def withdraw_reply(self) -> None:
        """Report that the caller does not know the reply; it may know that of an earlier run all the same."""
        if self._replies and not self.may_be_answered:
            self._replies.withdraw_reply(self.message_id)

    def confirm(self) -> None:
        """Report that the reply was delivered. Never raises."""
        if self._replies:
            self._replies.confirm_reply(self.message_id)
        self.keep()

    def keep(self) -> None:
        """Report that it is not known whether the reply was delivered. Never raises.

        The caller may know it, so what depends on it is kept; a later run of the message confirms it.
        """
        for held in self._take():
            try:
                held.confirm()
            except Exception:
                LOG.exception("Claims of an answered request could not be confirmed")

    def give_back(self) -> None:
        """Report that the reply was not delivered. Never raises."""
        self.withdraw_reply()
        for held in self._take():
            try:
                held.give_back()
            except Exception:
                LOG.exception("Claims of a request without a reply could not be given back")

    def end(self) -> None:
        """Let go of the message, once nothing is done with it any more.

        The record of the decision has the delivery for as long as it is kept, and a message may be large.
        """
        self._forward = None

    def _take(self) -> list[Held]:
        held, self._held = self._held, []
        return held


CURRENT: ContextVar[Delivery | None] = ContextVar("delivery", default=None)
"""The delivery that the running thread answers; None outside of a server."""
