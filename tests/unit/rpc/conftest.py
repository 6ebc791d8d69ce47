import functools
import itertools
import time
import uuid

import oslo_messaging as messaging
import pytest

from scheduler import conf as configuration
from scheduler.rpc import heartbeats, scheduler_endpoint, serializer, transport
from scheduler.rpc.context import RequestContext


class Manager:
    """Notes what it is asked, and answers or raises what it was told to."""

    def __init__(self):
        self.asked = []
        self.answer = None

    def __getattr__(self, name):
        def method(*args):
            self.asked.append((name, *args))
            if isinstance(self.answer, BaseException):
                raise self.answer
            return self.answer(*args) if callable(self.answer) else self.answer

        return method


def make_conf():
    """Options of a scheduler on a bus in memory that nobody else uses."""
    made = configuration.new()
    made([], default_config_files=[])
    made.set_override("transport_url", "fake://")
    made.set_override("control_exchange", uuid.uuid4().hex)
    made.set_override("host", "sched1")
    return made


@pytest.fixture
def conf():
    return make_conf()


@pytest.fixture(scope="module")
def shared():
    """One server for all tests of a file: it takes a second to stop."""
    manager, made = Manager(), make_conf()
    bus = transport.rpc_transport(made)
    # each warning counts as the first one in a long time, and a caller's second is ten milliseconds
    beating = heartbeats.Heartbeats(clock=lambda: time.monotonic() * 100, tick=0.01)
    running = scheduler_endpoint.build(
        made, bus, manager, clock=itertools.count(step=1000).__next__, heartbeats=beating
    )
    running.start()
    yield running, bus, manager
    running.stop()
    running.wait()


@pytest.fixture
def serving(shared):
    return shared[0]


@pytest.fixture
def bus(shared):
    return shared[1]


@pytest.fixture
def manager(shared):
    manager = shared[2]
    manager.asked, manager.answer = [], None
    return manager


@pytest.fixture
def context():
    return RequestContext(user_id="alice", project_id="demo", auth_token="TOKEN", roles=["member"])


@pytest.fixture
def caller():
    """A function that makes a caller on a bus, for a version, namespace or server."""

    def make(bus, version="4.5", **target):
        target = messaging.Target(topic="scheduler", version=version, **target)
        return messaging.get_rpc_client(bus, target, timeout=20, serializer=serializer.ObjectSerializer())

    return make


@pytest.fixture
def client(bus, caller):
    """A function that makes a caller of the shared server."""
    return functools.partial(caller, bus)
