"""The decision stream in memory: what one scheduler publishes, the others receive in the same order.

The product's own code writes and reads it, with its threads and records. A connection costs a step for each
message and one for each wait, which is longer than in truth: most of what a stream does is to say that
schedulers are alive.

Imported after ``imports.install``.
"""

import itertools

from scheduler.stream import decision_stream, loops
from scheduler.stream.broker import StreamUnavailable
from scheduler.stream.decision_stream import DecisionStream
from scheduler.stream.shared_decisions import LocalState
from tools.simulation.broker import Broker
from tools.simulation.runtime import Process, Task

# Seconds between signs of life, and without one after which a scheduler counts as gone; of one look.
BEAT, SILENCE, LOOK = 15.0, 45.0, 10.0


class Stream:
    """The stream of one history."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.bodies: list[bytes] = []
        self._readers: dict[Connection, Process] = {}
        self._numbers = itertools.count(1)

    def connect(self, _name: str) -> "Connection":
        """Return a connection; ``StreamUnavailable`` while the broker is away."""
        self.check()
        return Connection(self)

    def check(self) -> None:
        """Check that the broker is there."""
        self.broker.runtime.step()
        if not self.broker.up:
            raise StreamUnavailable("the broker is away")

    def subscribe(self, connection: "Connection") -> None:
        """Wake a connection at each message, for as long as its process lives."""
        process = self.broker.runtime.current.process
        self._readers[connection] = process
        process.at_exit.append(lambda: self.forget(connection))

    def forget(self, connection: "Connection") -> None:
        """Wake it no more."""
        self._readers.pop(connection, None)

    def append(self, body: bytes) -> None:
        """Add a message."""
        self.bodies.append(body)
        for connection in list(self._readers):
            self.broker.runtime.wake_all(connection.waiters)

    def of(self, host: str, number: int, state: LocalState) -> DecisionStream:
        """Return the stream of a daemon that starts; each daemon of a host has a name of its own."""
        clock = Broker.active.runtime
        own, place = f"{next(self._numbers):032x}", f"{host}.{number}"
        return DecisionStream(
            self, state, own, place, clock=lambda: clock.clock, monotonic=lambda: clock.clock
        )


class Connection:
    """One connection to it; has what the product uses of ``stream.broker.StreamConnection``."""

    host = "broker"

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._next = 0
        self.waiters: list[Task] = []

    def publish(self, body: bytes) -> None:
        """Add a message, which is confirmed at once."""
        self._stream.check()
        self._stream.append(body)

    def subscribe(self, offset: str) -> None:
        """Read from the begin on: histories are short."""
        self._next = len(self._stream.bodies) if offset == "next" else 0
        self._stream.subscribe(self)

    def receive(self, timeout: float) -> bytes | None:
        """Return the next message; None if none comes."""
        self._stream.check()
        if self._next == len(self._stream.bodies):
            self._stream.broker.runtime.wait(self.waiters, timeout)
        if self._next == len(self._stream.bodies):
            return None
        self._next += 1
        return self._stream.bodies[self._next - 1]

    def send_heartbeat(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Receive nothing more."""
        self._stream.forget(self)


def spare_steps() -> None:
    """Let schedulers say less often that they are alive; once for an operating system process."""
    loops.BEAT_INTERVAL = BEAT
    decision_stream.ALIVE_FOR = loops.SILENT_AFTER = SILENCE
    loops.ROUND = LOOK
