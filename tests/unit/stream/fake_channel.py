"""What a broker sends, as bytes, and a channel of the AMQP library that receives them without a broker."""

from contextlib import contextmanager
from struct import pack

import amqp
from amqp.method_framing import frame_handler

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
CHANNEL = 1


def frame(kind, payload, channel=CHANNEL):
    return pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def deliver(tag, consumer=b"amq.ctag-1"):
    """The first frame of a message."""
    rest = b"\x00" + b"\x00" + b"\x0fberth.decisions"  # redelivered, exchange, routing key
    return frame(METHOD, pack(">HHB", 60, 60, len(consumer)) + consumer + pack(">Q", tag) + rest)


def header(size):
    """The second one, with a content type."""
    return frame(HEADER, pack(">HHQH", 60, 0, size, 0x8000) + b"\x10application/json")


def message(tag, body, of_frame=1000):
    """A whole message, with so many bytes of the body in a frame."""
    parts = [body[at : at + of_frame] for at in range(0, len(body), of_frame)]
    return deliver(tag) + header(len(body)) + b"".join(frame(BODY, part) for part in parts)


class FakeSocket:
    """Gives out what is ``waiting``, a piece at each call."""

    def __init__(self, waiting):
        self.waiting = waiting

    def recv(self, size):
        if not self.waiting:
            raise TimeoutError("timed out")
        piece = self.waiting.pop(0)
        if len(piece) > size:
            self.waiting.insert(0, piece[size:])
        return piece[:size]


class FakeTransport:
    def __init__(self, socket):
        self._socket = socket

    @contextmanager
    def having_timeout(self, timeout):
        yield self._socket


class FakeChannel:
    """A channel of a connection, and the connection of kombu that it is of.

    Attributes:
        connection: The library's own connection, on a socket that has these pieces.
        seen: The methods that the library was handed.
        acknowledged: The delivery tags up to which messages were acknowledged.
    """

    channel_id = CHANNEL

    def __init__(self, *pieces):
        self.seen, self.acknowledged = [], []
        self.connection = amqp.Connection()
        self.connection.transport = FakeTransport(FakeSocket(list(pieces)))
        self.connection.on_inbound_frame = frame_handler(
            self.connection, lambda channel, method, *_: self.seen.append((channel, method))
        )

    def channel(self):
        return self

    def queue_declare(self, *_args, **_kwargs):
        pass

    def basic_qos(self, *_args):
        pass

    def basic_consume(self, *_args, **_kwargs):
        pass

    def basic_ack(self, tag, multiple):
        assert multiple
        self.acknowledged.append(tag)
