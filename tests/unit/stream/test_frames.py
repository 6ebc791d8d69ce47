"""Messages out of the frames that a broker sends."""

from contextlib import suppress
from struct import pack

from amqp.exceptions import AMQPError
import pytest

from scheduler.stream.frames import FrameReader
from tests.unit.stream.fake_channel import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    FakeChannel,
    deliver,
    frame,
    header,
    message,
)

CANCEL = frame(METHOD, pack(">HHB", 60, 30, 1) + b"c\x00")
BLOCKED = frame(METHOD, pack(">HHB", 10, 60, 0), channel=0)

MESSAGES = [(1, b"[]"), (2, b""), (3, b"x" * 3500), (1 << 40, b"\xce" * 1000), (1 << 41, b"[1]")]


def reader_of(*pieces):
    """A reader of these pieces, the channel, and the messages that it delivers."""
    channel, found = FakeChannel(*pieces), []
    return FrameReader(channel, lambda body, tag: found.append((tag, body))), channel, found


def read_all(reader):
    with suppress(TimeoutError):
        while True:
            reader.receive(1.0)


@pytest.mark.parametrize("size", [1, 7, 8, 100, 100_000])
def test_messages_are_delivered_in_whatever_pieces_they_arrive(size):
    data = b"".join(message(tag, body) for tag, body in MESSAGES)
    reader, channel, found = reader_of(*(data[at : at + size] for at in range(0, len(data), size)))
    read_all(reader)
    assert found == MESSAGES
    assert channel.connection.bytes_recv == len(MESSAGES)  # the broker is alive
    assert channel.seen == []


def test_all_other_frames_are_the_librarys_also_within_a_message():
    heartbeat = frame(HEARTBEAT, b"", channel=0)
    within = (
        deliver(1) + heartbeat + header(4) + BLOCKED + frame(BODY, b"ab") + heartbeat + frame(BODY, b"cd")
    )
    reader, channel, found = reader_of(within + CANCEL)
    reader.receive(1.0)
    assert found == [(1, b"abcd")]
    assert channel.seen == [(0, (10, 60)), (1, (60, 30))]
    assert channel.connection.bytes_recv == 5


@pytest.mark.parametrize(
    "hostile",
    [
        frame(HEARTBEAT, b"", channel=0)[:-1] + b"\x00",
        pack(">BHI", BODY, 1, 1 << 31) + b"x" * 100,
        header(0),
        frame(BODY, b"x"),
        deliver(1) + frame(BODY, b"x"),
        deliver(1) + deliver(2),
        deliver(1) + header(2) + CANCEL,
        deliver(1) + header(2) + frame(BODY, b"abc"),
        frame(METHOD, b""),
        frame(METHOD, pack(">HH", 60, 60)),
        frame(METHOD, pack(">HHB", 60, 60, 255)),
        deliver(1) + frame(HEADER, b"\x00"),
    ],
    ids=[
        "end",
        "large",
        "header without a message",
        "body without a message",
        "no header",
        "no body",
        "method within a message",
        "too long",
        "empty method",
        "no consumer",
        "no delivery tag",
        "short header",
    ],
)
def test_what_is_not_amqp_ends_the_connection(hostile):
    reader, _, found = reader_of(message(1, b"[]") + hostile)
    with pytest.raises(AMQPError):
        reader.receive(1.0)
    assert found == [(1, b"[]")]


def test_a_connection_that_the_broker_closes():
    reader, _, _ = reader_of(b"")
    with pytest.raises(OSError, match="closed"):
        reader.receive(1.0)


def test_a_message_whose_delivery_fails_is_delivered_once_and_those_after_it_too():
    found = []

    def deliver_or_fail(body, tag):
        found.append((tag, body))
        if tag == 2:
            raise ZeroDivisionError

    pieces = b"".join(message(n, b"x" * n) for n in range(1, 6))
    reader = FrameReader(FakeChannel(pieces, message(6, b"[]")), deliver_or_fail)
    with pytest.raises(ZeroDivisionError):
        reader.receive(1.0)
    read_all(reader)
    assert [tag for tag, _ in found] == [1, 2, 3, 4, 5, 6]


def test_silence():
    reader, _, _ = reader_of()
    with pytest.raises(TimeoutError):
        reader.receive(1.0)
