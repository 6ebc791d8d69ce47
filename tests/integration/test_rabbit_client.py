"""The client against a scheduler's endpoints over a real RabbitMQ."""

import threading
import time
import uuid

import oslo_messaging as messaging
import pytest

from conductor_client.bus import Bus
from conductor_client.client import SchedulerClient
from scheduler import errors, objects
from scheduler.rpc import scheduler_endpoint, transport
from tests.unit.conductor_client.doubles import context, make_conf, make_selection, make_spec

pytestmark = pytest.mark.rabbitmq


class Manager:
    """Answers with what it is given, when it is told to."""

    def __init__(self):
        self.answer = None
        self.delay = 0
        self.heard = []
        self.news = threading.Event()

    def select_destinations(self, _context, spec, instance_uuids, return_objects, return_alternates):
        time.sleep(self.delay)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def reread_instances(self, uuids):
        self.heard.append(uuids)
        self.news.set()


@pytest.fixture(scope="module")
def conf(rabbit):
    made = make_conf(rpc_response_timeout=4)
    made.set_override("transport_url", rabbit.vhost())
    return made


@pytest.fixture(scope="module")
def manager(conf):
    made = Manager()
    connection = transport.rpc_transport(conf)
    serving = scheduler_endpoint.build(conf, connection, made)
    serving.start()
    yield made
    serving.stop()
    serving.wait()
    connection.cleanup()


@pytest.fixture(scope="module")
def bus(conf, manager):
    made = Bus(conf)
    yield made
    made.close()


@pytest.fixture
def client(bus, manager):
    manager.delay = 0
    return SchedulerClient.from_conf(bus)


def select(client, *more):
    return client.select_destinations(context(), make_spec(), [str(uuid.uuid4())], *more)


def test_selections(client, manager):
    manager.answer = [[make_selection("a"), make_selection("b")]]
    ((chosen, alternate),) = select(client, True, True)
    assert isinstance(chosen, objects.Selection)
    assert (chosen.service_host, alternate.service_host) == ("a", "b")
    assert chosen.allocation_request == manager.answer[0][0].allocation_request


def test_plain_dicts(client, manager):
    manager.answer = [{"host": "a", "nodename": "a.example.net", "limits": {}}]
    assert select(client, False) == manager.answer


def test_no_valid_host(client, manager):
    manager.answer = errors.NoValidHost("There are not enough hosts available.")
    with pytest.raises(errors.NoValidHost) as caught:
        select(client)
    assert caught.value.reason == "There are not enough hosts available."


def test_an_internal_error(client, manager):
    manager.answer = errors.AllocationUpdateFailed("i", "changed")
    with pytest.raises(messaging.RemoteError) as caught:
        select(client)
    assert caught.value.exc_type == "AllocationUpdateFailed"


def test_signs_of_life_carry_a_long_call_over_the_monitors_limit(client, manager):
    manager.delay = 6
    manager.answer = []
    assert select(client) == []


def test_news_of_instances(client, manager):
    instance = str(uuid.uuid4())
    client.update_instance_info(
        context(), "a", objects.InstanceList(objects=[objects.Instance(uuid=instance)])
    )
    assert manager.news.wait(60)
    assert manager.heard == [[instance]]
