"""AMQP without a network: py-amqp and kombu on the model of the broker.

What the product and oslo.messaging use of kombu and py-amqp is their own code, down to the methods of AMQP: a
channel hands each method to the model, and takes those of the model, where it would write and read frames.

Imported after ``imports.install``, as kombu waits between attempts to connect.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
import itertools
from typing import Any

from amqp import spec
from amqp.exceptions import RecoverableConnectionError
from kombu import transport as kombu_transports
from kombu.transport import pyamqp

from tools.simulation.broker import Broker
from tools.simulation.runtime import Process, Task

# Seconds between two looks of a consumer to which nothing is delivered that it could acknowledge. In truth it
# looks more often; but nothing comes of that, and half of all steps of a history would be these. A process
# that looks less often than ``rpc.consumer.FROZEN`` says takes itself for one that was frozen.
IDLE = 4.5

# Seconds that time goes on at least in a wait.
SHORTEST = 0.001


class Socket:
    """In the place of py-amqp's transport: it is connected or not, and has a time limit."""

    def __init__(self) -> None:
        self.connected = True
        self.timeout: float | None = None

    @contextmanager
    def having_timeout(self, seconds: float | None) -> Iterator[None]:
        """Wait no longer than this for the broker."""
        before, self.timeout = self.timeout, seconds
        try:
            yield
        finally:
            self.timeout = before

    def close(self) -> None:
        """Close it."""
        self.connected = False


class Channel(pyamqp.Channel):
    """Hands methods to the broker, and takes its methods, as values."""

    def send_method(
        self,
        sig: tuple[int, int],
        format: str | None = None,  # noqa: A002 - its name there
        args: tuple | None = None,
        content: Any = None,
        wait: Any = None,
        callback: Any = None,
        returns_tuple: bool = False,
    ) -> Any:
        """Send a method, and wait for the answer if it has one."""
        if self.connection is None:
            raise RecoverableConnectionError("connection already closed")
        self.connection.send(self.channel_id, sig, args or (), content)
        return self.wait(wait, returns_tuple=returns_tuple) if wait else None

    def dispatch_method(self, method_sig: tuple[int, int], payload: tuple, content: Any) -> None:
        """Take a method."""
        if self.is_closing and method_sig not in self._ALLOWED_METHODS_WHEN_CLOSING:
            return
        arguments = payload if content is None else (*payload, content)
        listener, waiting = self._callbacks.get(method_sig), self._pending.pop(method_sig, None)
        if listener:
            listener(*arguments)
        if waiting:
            waiting(method_sig, *arguments)


class Connection(pyamqp.Connection):
    """A connection to the broker of the history that runs.

    Attributes:
        process: Whose it is.
        number: A different one for each, for the trace.
    """

    Channel = Channel
    _numbers = itertools.count(1)

    process: Process
    number = 0

    def connect(self, callback: Any = None) -> None:
        """Connect; ``ConnectionRefusedError`` while the broker is away."""
        self._broker = Broker.active
        self._received: deque[tuple] = deque()
        self._waiters: list[Task] = []
        self._error: Exception | None = None
        self.process = self._broker.runtime.current.process
        self._broker.connect(self)
        self._transport = Socket()

    def send(self, channel_id: int, sig: tuple[int, int], arguments: tuple, content: Any) -> None:
        """Hand a method of a channel to the broker."""
        if sig == spec.Basic.Publish:
            self._broker.delay()
        else:
            self._broker.runtime.step()
        self._check()
        self._broker.take(self, channel_id, sig, arguments, content)

    def receive(self, channel_id: int, sig: tuple[int, int], arguments: tuple, content: Any = None) -> None:
        """Take a method of the broker, for the next task that reads."""
        self._received.append((channel_id, sig, arguments, content))
        self.look()

    def fail(self, error: Exception) -> None:
        """Be broken: what was received before can still be read."""
        self._error = error
        self.look()

    def look(self) -> None:
        """Let the reader look at once what there is."""
        self._broker.runtime.wake_all(self._waiters)

    def drain_events(self, timeout: float | None = None) -> None:
        """Wait for a method of the broker, and let its channel take it."""
        self._broker.runtime.step()
        if not (self._received or self._error):
            self._wait(timeout)
        if not self._received:
            self._check()
            raise TimeoutError("timed out")
        channel_id, sig, arguments, content = self._received.popleft()
        channel = (self.channels or {}).get(channel_id)
        if channel is not None:
            channel.dispatch_method(sig, arguments, content)

    def close(self, *_arguments: Any, **_options: Any) -> None:
        """Close it at once."""
        self.collect()

    def collect(self) -> None:
        """Forget it, here and at the broker."""
        if self._transport is not None:
            self._broker.disconnect(self)
        super().collect()

    def _wait(self, timeout: float | None) -> None:
        if self._transport is None:
            raise RecoverableConnectionError("connection already closed")
        if timeout == 0:
            return
        limit = self._transport.timeout if timeout is None else timeout
        if limit is not None:
            limit = max(limit, IDLE if self._broker.is_idle(self) else SHORTEST)
        self._broker.runtime.wait(self._waiters, limit)

    def _check(self) -> None:
        if self._transport is None:
            raise RecoverableConnectionError("connection already closed")
        if self._error is not None:
            self._transport.connected = False
            raise self._error


class Transport(pyamqp.Transport):
    """What kombu uses for URLs of AMQP."""

    Connection = Connection


def install() -> None:
    """Let kombu connect to the model; once for an operating system process."""
    kombu_transports.TRANSPORT_ALIASES["amqp"] = f"{__name__}:Transport"
