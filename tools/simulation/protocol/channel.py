"""What a process sees of the broker: deliveries on a channel that may be lost while the process lives."""

from collections.abc import Callable
from dataclasses import dataclass

from tools.simulation.protocol.broker import Broker, Message
from tools.simulation.runtime import Process

# Seconds without a sign of life of this process after which it was frozen.
FROZEN = 5.0


@dataclass(eq=False)
class Delivery:
    """One delivery of a message to a process.

    Attributes:
        past: Whether the call may have been run before, or its caller may have left: it was delivered before,
            or was in the queue when the process began to consume on this channel, or went on after it was
            frozen.
        losses: How often the process had lost its channel when the message was delivered.
    """

    message: Message
    past: bool
    losses: int


class Channel:
    """The channel of one process; a new one takes the place of one that was lost.

    Args:
        broker: Where messages come from.
        process: Whose it is.
    """

    def __init__(self, broker: Broker, process: Process) -> None:
        self._broker = broker
        self._process = process
        self._alive_at = self._thawed_at = broker.runtime.clock

    def note_alive(self) -> None:
        """Note that the process runs. To be called at least once a second."""
        now = self._broker.runtime.clock
        if now > self._alive_at + FROZEN:
            self._thawed_at = now
        self._alive_at = now

    def take(self, stopped: Callable[[], bool]) -> Delivery | None:
        """Wait for the next delivery; None once ``stopped`` says so."""
        message = self._broker.receive(stopped)
        if message is None:
            return None
        self.note_alive()
        since = max(self._broker.opened(self._process), self._thawed_at)
        past = message.redelivered or message.published < since
        return Delivery(message, past, self._broker.losses[self._process])

    def is_lost(self, delivery: Delivery) -> bool:
        """Return whether the channel of a delivery is gone: the broker delivers its message once more."""
        return delivery.losses != self._broker.losses[self._process]

    def acknowledge(self, delivery: Delivery) -> None:
        """Let the broker forget the message, unless the channel is gone."""
        if not self.is_lost(delivery):
            self._broker.acknowledge(delivery.message, self._process)

    def requeue(self, delivery: Delivery) -> None:
        """Return the message to the queue, unless the broker has it back anyway."""
        if not self.is_lost(delivery):
            self._broker.give_back(delivery.message, self._process)
