"""Messages published on a connection of a stand-in."""

import contextlib
import json
from types import SimpleNamespace

import oslo_messaging as messaging
from oslo_messaging._drivers import common
from oslo_serialization import jsonutils
import pytest

from scheduler.rpc.amqp import publisher


class Connection:
    """A connection of the pool: publishes, or fails as it is told to."""

    kombu_compression = None

    def __init__(self, failure=None):
        self.failure = failure
        self.published = []
        self.channels = ["first"]
        self._connection_lock = contextlib.nullcontext()
        self._producer = self
        self.connection = SimpleNamespace(connected=not isinstance(failure, OSError), channel=lambda: "new")

    def reset(self):
        """It goes back to the pool."""

    def _set_current_channel(self, channel):
        self.channels.append(channel)

    def ensure(self, method, recoverable_error_callback, error_callback):
        try:
            method()
        except OSError as error:
            recoverable_error_callback(error)
            raise
        except Exception as error:
            error_callback(error)
            raise

    def publish(self, message, **options):
        if self.failure:
            raise self.failure
        self.published.append((message, options))


def place(connection):
    """A place in oslo.messaging's pool, from which messages are published."""
    pool = SimpleNamespace(get=lambda **_options: connection, put=lambda _connection: None)
    return common.ConnectionContext(pool, common.PURPOSE_SEND, retry=1)


def text(size):
    return {"oslo.message": "x" * size}


def test_a_reply_is_published_to_its_queue_with_mandatory_and_a_time_limit():
    connection = Connection()
    publisher.BoundedPublisher(place(connection), 1e12, 10).direct_send("q", text(10))
    ((message, options),) = connection.published
    assert message == text(10)
    assert options["routing_key"] == "q"
    assert options["mandatory"]
    assert options["confirm_timeout"] > 0


@pytest.mark.parametrize(
    ("failure", "channels"),
    [
        (None, ["first"]),
        (messaging.MessageUndeliverable(None, "", "q", None), ["first", "new"]),
        (OSError("reset"), ["first", None]),
    ],
    ids=["confirmed", "returned", "connection lost"],
)
def test_nothing_more_is_published_on_a_channel_where_a_confirmation_may_be_to_come(failure, channels):
    """amqp may take the late confirmation for that of the next message."""
    connection = Connection(failure)
    with contextlib.suppress(messaging.MessageUndeliverable, OSError):
        publisher.BoundedPublisher(place(connection), 1e12, 10).direct_send("q", text(1))
    assert connection.channels == channels


def test_a_message_that_may_be_sent_once_more_is_reported():
    """oslo.messaging publishes it again after a lost connection; the second one may be refused."""
    failures = []
    for failure in (None, messaging.MessageUndeliverable(None, "", "q", None), OSError("reset")):
        publishing = publisher.BoundedPublisher(
            place(Connection(failure)),
            1e12,
            10,
            on_failure=lambda: failures.append(failure),  # noqa: B023
        )
        with contextlib.suppress(messaging.MessageUndeliverable, OSError):
            publishing.direct_send("q", text(1))
    assert list(map(type, failures)) == [OSError]


def test_the_size_of_a_reply_is_that_of_the_message_that_is_sent():
    text = jsonutils.dumps({"text": 'a "quoted" \\ word', "umlaut": "\u00e4"})
    assert publisher.size_of(text) == len(json.dumps(text)) - 2


def test_a_reply_above_the_limit_is_not_published():
    connection = Connection()
    with pytest.raises(publisher.ReplyTooLarge, match="11 bytes; at most 10"):
        publisher.BoundedPublisher(place(connection), 1e12, 10).direct_send("q", text(11))
    assert not connection.published


@pytest.mark.parametrize(
    ("deadline", "error"), [(0.0, publisher.ReplyTimeout), (1e12, OSError)], ids=["time over", "time left"]
)
def test_a_lost_connection_ends_the_attempt_only_when_the_time_is_over(deadline, error):
    with pytest.raises(error):
        publisher.BoundedPublisher(place(Connection(OSError("reset"))), deadline, 10).direct_send(
            "q", text(1)
        )
