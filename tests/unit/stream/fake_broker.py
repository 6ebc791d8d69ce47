"""A stream in memory."""

import threading

from scheduler.stream.broker import StreamUnavailable, UnreadableMessage


class FakeBroker:
    """Connects any number of readers and writers to one list of messages.

    Attributes:
        bodies: What was written.
        away: Whether nothing can be connected to, written or read.
        refuses: Whether it refuses while it is away.
        unconfirmed: How many of the next messages are written, but not confirmed.
        deaf: Whether readers get nothing, without being told.
        purposes: What each connection was for.
        malformed: Positions of messages that the AMQP library cannot decode.
    """

    def __init__(self):
        self.bodies = []
        self.away = self.deaf = False
        self.unconfirmed = 0
        self.refuses = False
        self.purposes = []
        self.malformed = set()
        self.news = threading.Condition()

    def connect(self, purpose):
        self.check()
        self.purposes.append(purpose)
        return FakeConnection(self)

    def check(self):
        if self.away:
            raise StreamUnavailable("broker test: away", refused=self.refuses)


class FakeConnection:
    host = "test"

    def __init__(self, broker):
        self._broker = broker
        self._read = 0
        self.closed = False

    def publish(self, body):
        self._broker.check()
        with self._broker.news:
            self._broker.bodies.append(body)
            self._broker.news.notify_all()
        if self._broker.unconfirmed:
            self._broker.unconfirmed -= 1
            raise StreamUnavailable("broker test: not confirmed")

    def subscribe(self, offset):
        self._broker.check()
        self._read = len(self._broker.bodies) if offset == "next" else 0

    def receive(self, timeout):
        self._broker.check()
        with self._broker.news:
            self._broker.news.wait_for(lambda: len(self._broker.bodies) > self._read, min(timeout, 0.01))
        if self._broker.deaf or self._read == len(self._broker.bodies):
            return None
        if self._read in self._broker.malformed:
            raise UnreadableMessage("broker test: malformed")
        self._read += 1
        return self._broker.bodies[self._read - 1]

    def send_heartbeat(self):
        self._broker.check()

    def close(self):
        self.closed = True
