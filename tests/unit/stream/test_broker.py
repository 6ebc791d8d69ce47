"""Options of oslo.messaging for the stream's connections.

What that library keeps private and is used here: ``_drivers.common.ConfigOptsProxy`` and ``PURPOSE_LISTEN``,
``_drivers.impl_rabbit.Connection`` with ``ensure_connection`` and ``connection``; of amqp ``_quick_recv`` of a
transport.
"""

import ssl
from types import SimpleNamespace

from amqp.exceptions import ChannelError, ConsumerCancelled, error_for_code
from amqp.transport import SSLTransport, TCPTransport
import pytest

from scheduler.errors import ConfigError
from scheduler.stream.broker import (
    ACKNOWLEDGE_EVERY,
    READ_AHEAD,
    BrokerHost,
    StreamBroker,
    StreamConnection,
    StreamUnavailable,
    UnreadableMessage,
    broker_hosts,
    stream_of,
)
from tests.support.options import make_conf

HOST = BrokerHost("a:5672", None)


def hosts_of(url, **rabbit):
    return broker_hosts(
        make_conf(_transport_url=url, **{f"oslo_messaging_rabbit__{k}": v for k, v in rabbit.items()})
    )


def address(host):
    used = host.settings.clone()
    return used.hostname, used.port, used.userid, used.password, used.virtual_host


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("rabbit://", [("localhost", 5672, "guest", "guest", "/")]),
        ("rabbit://u:p@[::1]:5671//", [("::1", 5671, "u", "p", "/")]),
        ("amqp://u:p@a/", [("a", 5672, "u", "p", "/")]),
        (
            "rabbit://u:p%40ss@a:5673,v:q@b/cloud",
            [("a", 5673, "u", "p@ss", "cloud"), ("b", 5672, "v", "q", "cloud")],
        ),
    ],
)
def test_hosts_are_those_of_the_transport(url, expected):
    found = hosts_of(url)
    assert [address(host) for host in found] == expected
    assert [str(host) for host in found] == [f"{name}:{port}" for name, port, *_ in expected]
    assert "p@ss" not in repr(found)


@pytest.mark.parametrize("url", ["fake://", "kombu+memory://", "kafka://a"])
def test_other_transports_have_no_stream(url):
    assert hosts_of(url) == ()


def test_options_of_the_library_are_used_and_the_url_overrides_them():
    (host,) = hosts_of(
        "rabbit://u:p@a/?heartbeat_timeout_threshold=7",
        rabbit_login_method="PLAIN",
        heartbeat_timeout_threshold=99,
    )
    assert (host.settings.login_method, host.settings.heartbeat) == ("PLAIN", 7)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"ssl": True}, True),
        (
            {"ssl": True, "ssl_version": "TLSv1_2", "ssl_key_file": "k", "ssl_cert_file": "c"},
            {"ssl_version": ssl.PROTOCOL_TLSv1_2, "keyfile": "k", "certfile": "c"},
        ),
        (
            {"ssl": True, "ssl_ca_file": "ca"},
            {"ca_certs": "ca", "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "a"},
        ),
    ],
    ids=["plain", "unverified", "with a certificate of its own", "verified"],
)
def test_connections_are_secured_as_the_options_say(options, expected):
    (host,) = hosts_of("rabbit://u:p@a/", **options)
    assert host.settings.ssl == expected


def test_of_several_hosts_each_is_verified_by_its_own_name():
    """The library compares no name if the URL has several hosts."""
    found = hosts_of("rabbit://u:p@a,u:p@b/", ssl=True, ssl_ca_file="ca")
    assert [host.settings.ssl["server_hostname"] for host in found] == ["a", "b"]


def test_a_host_that_does_not_answer_is_unavailable_within_the_time():
    (host,) = hosts_of("rabbit://u:secret@127.0.0.1:1/")
    with pytest.raises(StreamUnavailable, match=r"broker 127\.0\.0\.1:1: ") as raised:
        host.connect(0.5)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("rabbit://u:secret@a:port/", {}, "transport_url"),
        ("rabbit://u:secret@a/", {"ssl": True, "ssl_version": "odd"}, "SSL version : odd"),
        ("rabbit://u:secret@a/", {"rabbit_stream_fanout": True}, "rabbit_stream_fanout"),
    ],
    ids=["port", "version of TLS", "fan-out"],
)
def test_options_that_cannot_be_used_are_refused_without_a_secret(url, options, named):
    with pytest.raises(ConfigError, match=named) as refused:
        hosts_of(url, **options)
    assert "secret" not in str(refused.value)


def test_the_first_host_is_chosen_at_random():
    chosen = []
    StreamBroker(hosts_of("rabbit://u:p@a,u:p@b,u:p@c/"), "test", choice=lambda n: chosen.append(n) or 2)
    assert chosen == [3]


@pytest.mark.parametrize(("partition", "queue"), [("", "berth.decisions"), ("gpu", "berth.decisions.gpu")])
def test_schedulers_of_a_partition_have_a_stream_of_their_own(partition, queue):
    library = FakeLibrary()
    StreamConnection(library, HOST, stream_of(partition)).declare()
    assert library.declared == [queue]


class FakeLibrary:
    """A connection of kombu, its channel, and the messages that it delivers, one at each call."""

    def __init__(self, *messages):
        self.messages, self.acknowledged, self.declared = list(messages), [], []
        self.connection = SimpleNamespace(transport=SimpleNamespace(_quick_recv=None))

    def channel(self):
        return self

    def queue_declare(self, queue, **_kwargs):
        self.declared.append(queue)

    def basic_qos(self, *_args):
        pass

    def basic_consume(self, queue, callback, arguments):
        self.callback = callback

    def basic_ack(self, tag, multiple):
        assert multiple
        self.acknowledged.append(tag)

    def drain_events(self, timeout):
        if not self.messages:
            raise TimeoutError("timed out")
        message = self.messages.pop(0)
        if isinstance(message, Exception):
            raise message
        if message is not None:
            self.callback(message)


def subscribed(library):
    connection = StreamConnection(library, HOST)
    connection.declare()
    connection.subscribe("5m")
    return connection


def message(tag, body=b"[]"):
    return SimpleNamespace(delivery_tag=tag, body=body)


@pytest.mark.parametrize("kind", [TCPTransport, SSLTransport])
def test_the_socket_is_read_in_large_pieces(kind):
    """The transport of the library returns what it is asked for, and keeps the rest."""
    asked, pieces = [], [b"ab", b"cdef"]
    transport = kind.__new__(kind)
    transport._read_buffer = b""
    transport._quick_recv = lambda size: asked.append(size) or pieces.pop(0)
    library = FakeLibrary()
    library.connection.transport = transport
    subscribed(library)
    assert [transport._read(size) for size in (3, 2, 1)] == [b"abc", b"de", b"f"]
    assert asked == [READ_AHEAD, READ_AHEAD]


def test_messages_are_acknowledged_many_at_once():
    count = 2 * ACKNOWLEDGE_EVERY + 3
    library = FakeLibrary(*(message(n + 1) for n in range(count)))
    connection = subscribed(library)
    assert [connection.receive(1) for _ in range(count + 1)] == [b"[]"] * count + [None]
    assert library.acknowledged == [ACKNOWLEDGE_EVERY, 2 * ACKNOWLEDGE_EVERY]


def test_what_is_no_message_is_nothing():
    connection = subscribed(FakeLibrary(message(1), None, message(2, "[1]")))
    assert [connection.receive(1) for _ in range(3)] == [b"[]", None, "[1]"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConsumerCancelled("deleted"), StreamUnavailable),
        (ConnectionResetError(), StreamUnavailable),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), UnreadableMessage),
        (KeyError("x"), UnreadableMessage),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_a_connection_that_cannot_be_read_is_left(error, expected):
    connection = subscribed(FakeLibrary(error))
    with pytest.raises(StreamUnavailable, match="broker a:5672: ") as raised:
        connection.receive(1)
    assert type(raised.value) is expected


@pytest.mark.parametrize(
    ("code", "text", "refused"),
    [
        # several schedulers create the stream at once, or its leader is being elected
        (541, "INTERNAL_ERROR", False),
        (506, "RESOURCE_ERROR - stream coordinator unavailable", False),
        (403, "ACCESS_REFUSED", True),
        (540, "NOT_IMPLEMENTED", True),
    ],
)
def test_a_stream_that_cannot_be_declared_is_tried_again_unless_the_broker_refuses_it(code, text, refused):
    def declare(*_arguments, **_options):
        raise error_for_code(code, text, (50, 10), ChannelError)

    connection = SimpleNamespace(channel=lambda: SimpleNamespace(queue_declare=declare))
    with pytest.raises(StreamUnavailable) as raised:
        StreamConnection(connection, HOST).declare()
    assert (raised.value.refused, text in str(raised.value)) == (refused, True)
