"""Calls to a server of ours on a real RabbitMQ, and how their deliveries end."""

import contextlib
import threading

import kombu
import oslo_messaging as messaging
import pytest

from scheduler.request.past import Past
from scheduler.rpc import scheduler_endpoint, serializer, transport
from scheduler.rpc.context import RequestContext
from tests.support.held_claims import Claims
from tests.support.wire_examples import message
from tests.unit.rpc.conftest import make_conf

ARGUMENTS = message("boot_two_instances")["args"]


class Manager:
    """Claims, waits until it may answer, and answers."""

    def __init__(self, answer=()):
        self.answer = list(answer)
        self.begun = threading.Semaphore(0)
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.claims = []
        self.redelivered = []
        self.casts = []

    def reread_aggregates(self):
        self.casts.append([])

    def select_destinations(self, context, *_arguments):
        claims = Claims()
        self.claims.append(claims)
        self.redelivered.append(context.call.past is Past.REDELIVERED)
        context.call.hold(claims)
        self.begun.release()
        assert self.may_answer.wait(30)
        return self.answer

    @property
    def ends(self):
        return [claims.ends for claims in self.claims]


class Caller(threading.Thread):
    """A call on its way; ``reply`` is the answer or the error once joined."""

    def __init__(self, bus, **options):
        super().__init__(daemon=True)
        target = messaging.Target(topic="scheduler", version="4.5")
        plain = serializer.ObjectSerializer()
        self._client = messaging.get_rpc_client(bus, target, timeout=25, serializer=plain, **options)
        self.reply = None
        self.start()

    @classmethod
    def of(cls, bus):
        """Return the reply to a call."""
        caller = cls(bus)
        caller.join(30)
        return caller.reply

    def run(self):
        try:
            self.reply = self._client.call(RequestContext(), "select_destinations", **ARGUMENTS)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.reply = error


@pytest.fixture
def url(rabbit):
    return rabbit.vhost()


@pytest.fixture
def conf(url):
    made = make_conf()
    made.set_override("transport_url", url)
    made.set_override("kombu_missing_consumer_retry_timeout", 1, "oslo_messaging_rabbit")
    return made


@pytest.fixture
def serve(conf):
    """Start a server for a manager."""
    with contextlib.ExitStack() as started:

        def serve(manager, topic="scheduler", outages=None, rank=0):
            bus = transport.rpc_transport(conf)
            running = scheduler_endpoint.build(conf, bus, manager)
            running.topic, running.outages = topic, outages
            running.rank = rank
            started.callback(bus.cleanup)
            running.start()
            started.callback(running.wait)
            started.callback(running.stop)
            return running

        yield serve


@pytest.fixture
def bus(conf):
    made = transport.rpc_transport(conf)
    connections = made._driver._connection_pool
    yield made
    if made._driver._connection_pool:
        made.cleanup()
    connections.empty()  # a call may have put one back after the test had closed the bus


@pytest.fixture
def broker(url):
    """A channel to look at queues with."""
    with kombu.Connection(url.replace("rabbit://", "amqp://", 1)) as connection:
        yield connection.channel()
