"""Messages out of the frames that a broker sends.

The AMQP library receives each frame in three pieces and makes objects of all that it says. That is most of
the work of reading the decision stream at a start. So what arrives on the connection of a subscription is
received here, many frames at once, and the messages are taken out of them. Every other frame is handed to
the library.

A message is a method frame (``basic.deliver``), a header frame with the size of the body, and as many body
frames as the body takes, one after the other on their channel (AMQP 0-9-1, 2.3.5 and 4.2).
"""

from collections.abc import Callable
import struct
from typing import Any

from amqp.exceptions import UnexpectedFrame

#: Bytes that are received at once.
AT_ONCE = 256 << 10

_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER = b"\x00\x3c\x00\x3c"  # class and method
_FRAME_END = 0xCE

_start_of_frame = struct.Struct(">BHI")  # type, channel, size of the payload
_long_long = struct.Struct(">Q")
_LEAST_FRAME = _start_of_frame.size + 1

Deliver = Callable[[bytes, int], None]


class FrameReader:
    """Receives all that comes on a connection of the AMQP library. For one thread."""

    def __init__(self, channel: Any, deliver: Deliver) -> None:
        """Receive in place of the library, which must not wait for anything on this connection any more.

        Args:
            channel: A channel of the library, the only one of its connection with a subscription.
            deliver: Called with the body of each message and its delivery tag.
        """
        self._channel = channel.channel_id
        self._connection = channel.connection
        self._deliver = deliver
        self._received = b""
        self._expected = _METHOD
        self._tag = 0
        self._missing = 0
        self._parts: list[bytes] = []

    def receive(self, timeout: float) -> None:
        """Receive once, and deliver the messages that are complete.

        Args:
            timeout: Seconds that it may take until anything arrives.

        Raises:
            TimeoutError: Nothing has arrived.
            OSError: The connection is lost.
            AMQPError: The broker has ended the subscription or the connection, or sends what is not AMQP.
        """
        with self._connection.transport.having_timeout(timeout) as socket:
            received = socket.recv(AT_ONCE)
        if not received:
            raise ConnectionResetError("the connection was closed")
        try:
            self._split(self._received + received)
        except (struct.error, IndexError) as error:
            raise UnexpectedFrame(f"A frame is too short: {error}") from error

    def _split(self, data: bytes) -> None:
        """Handle the frames that are complete, and keep the rest, also if a message is not to be borne."""
        begin, length, largest = 0, len(data), self._connection.frame_max
        try:
            while length - begin >= _LEAST_FRAME:
                kind, channel, size = _start_of_frame.unpack_from(data, begin)
                payload = begin + _start_of_frame.size
                end = payload + size
                if size > largest:
                    raise UnexpectedFrame(f"A frame has {size} bytes")
                if end >= length:
                    break
                if data[end] != _FRAME_END:
                    raise UnexpectedFrame(f"A frame ends with {data[end]:#04x}")
                begin = end + 1
                self._handle(kind, channel, data[payload:end])
        finally:
            self._received = data[begin:]

    def _handle(self, kind: int, channel: int, payload: bytes) -> None:
        if channel != self._channel:
            self._connection.on_inbound_frame((kind, channel, payload))
        elif self._expected != _METHOD:
            self._continue(kind, payload)
        elif kind == _METHOD and payload.startswith(_DELIVER):
            self._connection.bytes_recv += 1  # the library takes silence for a lost connection
            (self._tag,) = _long_long.unpack_from(payload, 5 + payload[4])  # after the consumer tag
            self._expected = _HEADER
        else:
            self._connection.on_inbound_frame((kind, channel, payload))

    def _continue(self, kind: int, payload: bytes) -> None:
        """Handle a further frame of a message."""
        if kind != self._expected:
            raise UnexpectedFrame(f"A frame has type {kind} in place of {self._expected}")
        if kind == _HEADER:
            (self._missing,) = _long_long.unpack_from(payload, 4)  # after class and weight
            self._expected = _BODY
        else:
            self._parts.append(payload)
            self._missing -= len(payload)
        if self._missing < 0:
            raise UnexpectedFrame("A message is longer than it says")
        if not self._missing:
            body, self._parts = b"".join(self._parts), []
            self._expected = _METHOD
            self._deliver(body, self._tag)
