"""The calls that were received and not answered yet, and their acknowledgements."""

from collections.abc import Callable
from functools import partial
import threading

from amqp import Channel
from cachetools import TTLCache
from oslo_log import log as logging

from scheduler.rpc.amqp import library
from scheduler.rpc.amqp.library import RabbitMessage, raw_of
from scheduler.rpc.amqp.message import ConfirmedMessage

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds after which a call is acknowledged although it is not answered. A broker closes the channel of a
#: consumer that takes longer than its consumer_timeout, by default half an hour.
LONGEST_UNACKNOWLEDGED = 900.0

#: Seconds for which the ids of answered messages are remembered, and their greatest number.
ANSWERED_TTL = 600.0
MOST_ANSWERED = 100_000


class Deliveries:
    """Calls by their identity, each with its deliveries: after a lost connection there are several.

    Any thread may use it; the reading thread sends the acknowledgements.
    """

    def __init__(
        self,
        do: Callable[[Callable[[], None]], None],
        channel: Callable[[], Channel],
        resume: Callable[[ConfirmedMessage], None],
    ) -> None:
        """Begin without a call.

        Args:
            do: Lets the reading thread call a function soon.
            channel: Returns the channel from which it reads.
            resume: Lets a received call be served after all; called in the reading thread.
        """
        self._do = do
        self._open_channel = channel
        self._resume = resume
        self._lock = threading.Lock()
        self._in_progress: dict[str, list[ConfirmedMessage]] = {}
        self._answered: TTLCache[str, bool] = TTLCache(MOST_ANSWERED, ANSWERED_TTL)
        self._channel: Channel | None = None
        self._channel_number = 0
        self._last_tag = 0

    def __len__(self) -> int:
        """Return the number of calls that are not answered yet."""
        return len(self._in_progress)

    def open(self) -> list[ConfirmedMessage]:
        """Return the calls that are not answered yet, of each its first delivery."""
        with self._lock:
            return [calls[0] for calls in self._in_progress.values()]

    def add(self, call: ConfirmedMessage) -> bool:
        """Take a call that was just received; return whether it is to be answered. In the reading thread."""
        raw = raw_of(call.message)
        # Delivery tags begin at 1 on each channel.
        if raw.channel is not self._channel or raw.delivery_tag <= self._last_tag:
            self._channel, self._channel_number = raw.channel, self._channel_number + 1
        self._last_tag, call.channel_number = raw.delivery_tag, self._channel_number
        return self._take(call)

    def _take(self, call: ConfirmedMessage) -> bool:
        if not call.unique_id:
            return True
        with self._lock:
            answered = call.unique_id in self._answered
            deliveries = [call] if answered else self._in_progress.setdefault(call.unique_id, [])
            if not answered:
                deliveries.append(call)
        if answered:
            self._send(call, _acknowledge)
        elif len(deliveries) == 1:
            return True
        LOG.info("Call %s was redelivered while this process serves it; skipping the redelivery", call.msg_id)
        return False

    def settle(self, call: ConfirmedMessage) -> None:
        """Acknowledge a call, and what the broker has delivered of it again meanwhile."""
        # Casts were acknowledged on receipt: the broker does not deliver them again.
        if call.orig_msg_id and call.undelivered is None:
            with self._lock:
                self._answered[call.unique_id] = True
        self._end(self._pop(call), _acknowledge)

    def requeue(self, call: ConfirmedMessage) -> None:
        """Return a call to the broker, however often it was delivered."""
        self._end(self._pop(call), library.requeue)

    def hand_over(self, call: ConfirmedMessage, publish: Callable[[], None]) -> None:
        """Publish a call once more, and acknowledge it after that; it is not answered here.

        A copy that comes here before the acknowledgement is sent has to wait for it. If it ended this process
        at once, the broker would have the call twice.

        Raises:
            Exception: What ``publish`` raises. The call is still to be answered here.
        """
        publish()
        self._do(partial(self._finish, call))

    def _finish(self, call: ConfirmedMessage) -> None:
        """Acknowledge a call that was handed over, then take what came of it; in the reading thread."""
        first, *others = self._pop(call)
        self._send(first, _acknowledge)
        for each in others:
            if self._take(each):
                self._resume(each)

    def can_requeue(self, call: ConfirmedMessage) -> bool:
        """Return whether a call is not acknowledged, so that it is delivered again sooner or later."""
        return not all(raw_of(each.message).acknowledged for each in self._of(call))

    def is_lost(self, call: ConfirmedMessage) -> bool:
        """Return whether the broker has a call again: no delivery of it can be acknowledged any more."""
        return not any(self.is_held(each) for each in self._of(call))

    def is_held(self, call: ConfirmedMessage) -> bool:
        """Return whether the broker has not had a call again since this delivery."""
        return bool(raw_of(call.message).acknowledged) or self._is_current(call)

    def acknowledge_overdue(self, now: float) -> None:
        """Acknowledge what waits for too long, in the reading thread."""
        with self._lock:
            calls = [call for calls in self._in_progress.values() for call in calls]
        for call in calls:
            if call.received + LONGEST_UNACKNOWLEDGED < now:
                self._send(call, _acknowledge)

    def _of(self, call: ConfirmedMessage) -> list[ConfirmedMessage]:
        with self._lock:
            return list(self._in_progress.get(call.unique_id, [call]))

    def _pop(self, call: ConfirmedMessage) -> list[ConfirmedMessage]:
        with self._lock:
            return self._in_progress.pop(call.unique_id, [call])

    def _end(self, deliveries: list[ConfirmedMessage], send: Callable[[RabbitMessage], None]) -> None:
        for each in deliveries:
            self._do(partial(self._send, each, send))

    def _send(self, call: ConfirmedMessage, send: Callable[[RabbitMessage], None]) -> None:
        if raw_of(call.message).acknowledged or not self._is_current(call):
            return
        try:
            send(call.message)
        except Exception as error:  # noqa: BLE001 - the connection is lost: the broker delivers it again
            LOG.info("Cannot acknowledge call %s: %s", call.msg_id, error)

    def _is_current(self, call: ConfirmedMessage) -> bool:
        # The broker delivers again what was not acknowledged on a channel that is closed.
        return call.channel_number == self._channel_number and self._open_channel() is self._channel


def _acknowledge(message: RabbitMessage) -> None:
    message.acknowledge()
