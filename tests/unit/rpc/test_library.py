"""What is taken for granted of oslo.messaging, kombu and amqp, and how a version that lacks it is refused."""

import contextlib
import inspect
import subprocess
import sys
from unittest.mock import Mock

from amqp.channel import Channel
from amqp.exceptions import ChannelError
import kombu
from oslo_messaging._drivers import amqpdriver, impl_rabbit, pool
import pytest

from scheduler.rpc import library


def test_the_names_that_are_used_exist():
    assert library.missing() == []


@pytest.mark.parametrize(
    ("owner", "used", "lacking"),
    [
        ("_drivers.renamed", ("Timeout",), "_drivers.renamed"),
        ("_drivers.amqpdriver:Renamed", (), "_drivers.amqpdriver:Renamed"),
        ("_drivers.common", ("Timeout", "renamed"), "_drivers.common.renamed"),
        (
            "_drivers.impl_rabbit:Consumer.__init__",
            ("callback", "_renamed"),
            "_drivers.impl_rabbit:Consumer.__init__._renamed",
        ),
    ],
)
def test_a_name_that_is_missing_is_told(owner, used, lacking):
    assert library.missing({owner: used}) == [lacking]


@pytest.mark.slow
def test_a_start_with_another_version_ends_with_one_line():
    start = """
from oslo_messaging._drivers import impl_rabbit
del impl_rabbit.RabbitDriver
from scheduler.rpc import server
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("oslo.messaging ")
    assert "cannot be used: it lacks _drivers.impl_rabbit:RabbitDriver (tried with" in line


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (amqpdriver.ReplyWaiter.__init__, ["self.conn.declare_direct_consumer(reply_q, self)"]),
        (pool.ConnectionPool.create, ["self.connection_cls("]),
        (impl_rabbit.Consumer.consume, ["if conn.channel != self._declared_on:", "self.queue.consume("]),
        (impl_rabbit.Connection.consume, ["recoverable_error_callback=_recoverable_error_callback"]),
        (impl_rabbit.Connection.consume, ["if tag in self._new_tags:", "consumer.consume(self, tag=tag)"]),
        (impl_rabbit.Connection.declare_consumer, ["consumer.declare(self)"]),
        (impl_rabbit.Connection.__init__, ["'confirm_publish': True"]),
        (impl_rabbit.Connection._set_current_channel, ["on_return=self.on_return"]),
        (impl_rabbit.Connection.ensure, ["method()"]),
        (Channel.__init__, ["self.cancel_callbacks"]),
        (Channel._remove_tag, ["self.cancel_callbacks.pop"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_the_library_sets_and_calls_what_is_relied_on(function, texts):
    source = inspect.getsource(function)
    assert [text for text in texts if text not in source] == []


def test_kombu_passes_the_time_limit_of_a_confirmation_on():
    assert "confirm_timeout" in inspect.signature(kombu.Producer.publish).parameters


def test_few_owners_of_private_names_are_used():
    assert (
        len(
            {owner.removesuffix(".__init__").removesuffix("._set_current_channel") for owner in library.NAMES}
        )
        == 8
    )


class Patient(impl_rabbit.Connection):
    """A connection that calls a method again after an error, until its time is over at one of the channel."""

    def __init__(self):
        """Connect to nothing."""

    def ensure(self, method, *_arguments, **_options):
        while True:
            try:
                return method()
            except OSError:
                continue
            except ChannelError as error:
                raise library.Timeout from error


class Reading(library.ReadingConnection, Patient):
    """The same, with what it counts."""

    def __init__(self):
        Patient.__init__(self)
        self._consumers, self._new_tags = {"of calls": 1, "of replies": 2}, set()


@pytest.mark.parametrize(
    ("errors", "losses"),
    [
        ([], 0),
        ([library.Timeout()], 0),
        ([OSError("reset")], 1),
        ([OSError("reset"), OSError("refused"), library.Timeout()], 2),
        ([ChannelError("the broker has closed the channel")], 1),
    ],
)
def test_each_error_of_the_broker_counts_as_a_loss_of_the_channel(errors, losses):
    """A channel that the broker closes is opened again, with delivery tags that begin anew, and no consumer."""
    reading, method = Reading(), Mock(side_effect=[*errors, None])
    with contextlib.suppress(library.Timeout):
        reading.ensure(method)
    assert reading.losses == losses
    assert reading._new_tags == ({1, 2} if losses else set())
