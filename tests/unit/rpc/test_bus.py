"""Messages published on a connection of a stand-in."""

import contextlib
import json
from types import SimpleNamespace

from amqp import exceptions as amqp
import oslo_messaging as messaging
from oslo_serialization import jsonutils
import pytest

from scheduler.errors import ConfigError
from scheduler.rpc import bus, library
from scheduler.rpc.bus import Bus
from scheduler.rpc.transport import rpc_transport
from tests.unit.rpc.conftest import make_conf

FAR = 1e12
NO_QUEUE = messaging.MessageUndeliverable(None, "", "q", None)


class Connection:
    """A connection of the pool: publishes, or fails as it is told to.

    Attributes:
        readers: How many read from each queue, or the error that a look meets.
    """

    kombu_compression = None
    durable = True

    def __init__(self, failure=None, readers=1):
        self.failure, self.readers = failure, readers
        self.published, self.channels = [], ["first"]
        self._connection_lock = contextlib.nullcontext()
        self._producer = self.channel = self
        self.connection = SimpleNamespace(connected=not isinstance(failure, OSError), channel=lambda: "new")

    def _set_current_channel(self, channel):
        self.channels.append(channel)

    def ensure(self, method, recoverable_error_callback, error_callback):
        try:
            method()
        except OSError as error:
            recoverable_error_callback(error)
            raise
        except (messaging.MessageUndeliverable, library.Timeout):
            raise
        except Exception as error:
            error_callback(error)
            raise

    def queue_declare(self, _queue, *, passive):
        assert passive
        if isinstance(self.readers, Exception):
            raise self.readers
        return SimpleNamespace(consumer_count=self.readers)

    def publish(self, message, **options):
        if self.failure:
            raise self.failure
        self.published.append((message, options))


def bus_of(connection):
    """Return a bus with one connection."""
    conf = SimpleNamespace(
        control_exchange="nova",
        oslo_messaging_rabbit=SimpleNamespace(kombu_missing_consumer_retry_timeout=60, rpc_conn_pool_size=1),
    )
    made = Bus(rpc_transport(make_conf(), "rabbit://127.0.0.1:1/"), 10)
    made._pool = SimpleNamespace(conf=conf, get=lambda retry: connection, put=lambda _connection: None)
    return made


def text(size):
    return {"oslo.message": "x" * size}


def test_a_reply_is_published_to_its_queue_with_mandatory_and_a_time_limit():
    connection = Connection()
    bus_of(connection).reply("q", text(10), FAR)
    ((message, options),) = connection.published
    assert message == text(10)
    assert options["routing_key"] == "q"
    assert options["mandatory"]
    assert options["confirm_timeout"] > 0


@pytest.mark.parametrize(
    ("failure", "channels"),
    [(None, ["first"]), (NO_QUEUE, ["first", "new"]), (OSError("reset"), ["first", None])],
    ids=["confirmed", "returned", "connection lost"],
)
def test_nothing_more_is_published_on_a_channel_where_a_confirmation_may_be_to_come(failure, channels):
    """amqp may take the late confirmation for that of the next message."""
    connection = Connection(failure)
    with contextlib.suppress(messaging.MessageUndeliverable, OSError):
        bus_of(connection).reply("q", text(1), FAR)
    assert connection.channels == channels


def test_a_message_that_may_be_sent_once_more_is_reported():
    """oslo.messaging publishes it again after a lost connection; the second one may be refused."""
    failures = []
    for failure in (None, NO_QUEUE, OSError("reset")):
        with contextlib.suppress(messaging.MessageUndeliverable, OSError):
            bus_of(Connection(failure)).reply("q", text(1), FAR, lambda: failures.append(failure))  # noqa: B023
    assert list(map(type, failures)) == [OSError]


@pytest.mark.parametrize(
    ("readers", "failure", "text_of_error"),
    [
        (0, None, "nobody reads from queue q"),
        (amqp.NotFound("no queue"), None, "queue q does not exist"),
        (1, NO_QUEUE, "queue q does not exist"),
    ],
    ids=["nobody reads", "no queue", "no queue any more"],
)
def test_a_reply_that_nobody_reads_is_not_sent(readers, failure, text_of_error):
    """The queue of a conductor that was killed lives on for half an hour."""
    connection = Connection(failure, readers)
    with pytest.raises(bus.NobodyReads, match=text_of_error):
        bus_of(connection).reply("q", text(1), FAR)
    assert connection.published == []
    assert connection.channels[-1] == "new"


def test_a_heartbeat_is_sent_without_a_look():
    connection = Connection(readers=0)
    bus_of(connection).reply("q", text(1), FAR, to_reader=False)
    assert len(connection.published) == 1


def test_a_reply_to_a_queue_that_may_not_be_looked_at_is_sent_and_its_channel_replaced():
    connection = Connection(readers=amqp.AccessRefused("no right"))
    bus_of(connection).reply("q", text(1), FAR)
    assert len(connection.published) == 1
    assert connection.channels == ["first", "new", "new"]


def test_a_connection_is_waited_for_until_the_deadline():
    """The pool of the library waits without a bound."""
    made = bus_of(Connection())
    made._places = SimpleNamespace(acquire=lambda timeout: timeout > 0)
    with pytest.raises(bus.SendTimeout, match="all connections"):
        made.reply("q", text(1), 0.0)


def test_another_transport_than_rabbitmq_is_refused():
    conf = make_conf()
    with pytest.raises(ConfigError, match="RabbitMQ only"):
        Bus(rpc_transport(conf), 10)


def test_the_size_of_a_reply_is_that_of_the_message_that_is_sent():
    text = jsonutils.dumps({"text": 'a "quoted" \\ word', "umlaut": "\u00e4"})
    assert bus.size_of(text) == len(json.dumps(text)) - 2


def test_a_reply_above_the_limit_is_not_published():
    connection = Connection()
    with pytest.raises(bus.MessageTooLarge, match="11 bytes; at most 10"):
        bus_of(connection).reply("q", text(11), FAR)
    assert not connection.published


def test_a_reply_that_the_broker_finds_too_large_is_refused():
    connection = Connection(amqp.PreconditionFailed("message size"))
    with pytest.raises(bus.MessageTooLarge, match="the broker refuses it"):
        bus_of(connection).reply("q", text(1), FAR)


@pytest.mark.parametrize(
    ("deadline", "error"), [(0.0, bus.SendTimeout), (FAR, OSError)], ids=["time over", "time left"]
)
def test_a_lost_connection_ends_the_attempt_only_when_the_time_is_over(deadline, error):
    made = bus_of(Connection(OSError("reset")))
    made._places = SimpleNamespace(acquire=lambda timeout: True, release=list)
    with pytest.raises(error):
        made.reply("q", text(1), deadline)
