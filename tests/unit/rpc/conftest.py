import uuid

import pytest

from scheduler import conf as configuration
from scheduler.rpc import scheduler_endpoint
from scheduler.rpc.context import RequestContext
from tests.support.calls import make_call
from tests.support.clock import Clock
from tests.support.wire_examples import spec


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
    """Options of a scheduler on a bus that nobody else uses."""
    made = configuration.new()
    made([], default_config_files=[])
    made.set_override("transport_url", "fake://")
    made.set_override("control_exchange", uuid.uuid4().hex)
    made.set_override("host", "sched1")
    return made


@pytest.fixture
def conf():
    return make_conf()


@pytest.fixture
def manager():
    return Manager()


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def methods(conf, manager, clock):
    """The methods of a scheduler."""
    return scheduler_endpoint.methods(conf, manager, clock)


@pytest.fixture
def ask(methods):
    """Call a method; returns the answer."""

    def ask(method, arguments=None, version="4.5", namespace=None, context=None, **fields):
        frame = {"method": method, "args": arguments or {}, "version": version, "namespace": namespace}
        call = make_call(
            frame | {f"_context_{key}": value for key, value in (context or {}).items()}, **fields
        )
        return methods.call(call)

    return ask


@pytest.fixture
def context():
    return RequestContext(user_id="alice", project_id="demo", auth_token="TOKEN", roles=["member"])


def boot():
    """Return the message of a call for two instances."""
    arguments = {"spec_obj": spec("boot_two_instances")}
    return {"method": "select_destinations", "args": arguments, "version": "4.5"}
