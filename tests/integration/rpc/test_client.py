"""Calls of a router to schedulers on a real RabbitMQ, and what becomes of replies that nobody waits for."""

import pytest

from scheduler.errors import NoValidHost, ReturnedToBroker
from scheduler.rpc import transport
from scheduler.rpc.bus import Bus
from scheduler.rpc.client import Client, NoReply
from scheduler.rpc.errors import for_caller
from scheduler.rpc.methods import Methods
from scheduler.rpc.server import Server
from tests.integration.rpc.conftest import ARGUMENTS, Manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

TOPIC = "berth.scheduler.p"
MESSAGE = {
    "method": "select_destinations",
    "args": ARGUMENTS,
    "version": "4.5",
    "_context_user_id": "u",
    "_context_is_admin": False,
}
PATIENT = 20.0, 60.0


@pytest.fixture
def calling(conf):
    """A client that is started."""
    bus = Bus(transport.rpc_transport(conf), 16 << 20)
    server = Server(conf, bus, Methods({}), "router", 1)
    made = Client(bus, server.on_connection)
    server.start()
    yield made
    server.stop()
    server.wait()
    bus.close()


def test_a_call_is_answered(serve, calling):
    manager, heard = Manager(["there"]), []
    serve(manager, topic=TOPIC)
    for again in (False, True):
        reply = calling.call(TOPIC, MESSAGE, *PATIENT, lambda: heard.append(1), again=again)
        assert reply == ["there"]
    assert manager.redelivered == [False, True]
    assert len(heard) >= 2
    assert eventually(lambda: manager.ends == [["kept"]] * 2)


def test_an_error_is_replied_with_its_class(serve, calling):
    class Refusing(Manager):
        def select_destinations(self, *_arguments):
            raise NoValidHost("no room", final=True)

    serve(Refusing(), topic=TOPIC)
    failure = calling.call(TOPIC, MESSAGE, *PATIENT)
    expected = for_caller(NoValidHost("no room", final=True))
    assert failure == ("NoValidHost", "nova.exception", str(expected), expected.kwargs)


def test_a_scheduler_that_takes_long_is_heard_of(serve, calling):
    manager, heard = Manager(["there"]), []
    manager.may_answer.clear()
    serve(manager, topic=TOPIC)

    def hear():
        heard.append(1)
        if len(heard) == 3:  # longer than the client is silent for
            manager.may_answer.set()

    assert calling.call(TOPIC, MESSAGE, 4.0, 60.0, hear) == ["there"]
    assert len(heard) == 4


def test_without_a_queue_there_is_no_reply(calling):
    with pytest.raises(NoReply, match="no queue"):
        calling.call("berth.absent", MESSAGE, *PATIENT)


def test_what_nobody_has_taken_in_time_is_not_found_by_a_scheduler_that_starts_later(serve, calling, broker):
    serve(Manager(), topic=TOPIC).stop()
    with pytest.raises(NoReply, match="was heard for 1 seconds"):
        calling.call(TOPIC, MESSAGE, 1.0, 60.0)
    assert eventually(lambda: broker.queue_declare(TOPIC, passive=True).message_count == 0)


def test_a_scheduler_whose_caller_has_given_up_gives_back_what_it_claimed(serve, calling):
    """It is not heard of: a heartbeat is due after a second only."""
    manager = Manager(["late"])
    manager.may_answer.clear()
    serve(manager, topic=TOPIC)
    with pytest.raises(NoReply):
        calling.call(TOPIC, MESSAGE, 0.5, 60.0)
    manager.may_answer.set()
    assert eventually(lambda: manager.ends == [["released"]])
    assert calling.call(TOPIC, MESSAGE, *PATIENT) == ["late"], "others go on"


def test_many_calls_at_once_have_each_their_reply(serve, calling):
    class Echo(Manager):
        def select_destinations(self, context, *_arguments):
            return [context.user_id]

    serve(Echo(), topic=TOPIC)
    with client_threads(40) as pool:
        replies = pool.map(
            lambda n: calling.call(TOPIC, MESSAGE | {"_context_user_id": f"u{n}"}, *PATIENT), range(200)
        )
        assert list(replies) == [[f"u{n}"] for n in range(200)]


def client_threads(number):
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(number)


def test_replies_are_read_again_after_the_connection_was_lost(serve, calling):
    serve(Manager(["there"]), topic=TOPIC)
    calling._on_connection(lambda each: each.connection.connection.transport.sock.shutdown(2))

    def answered():
        try:
            return calling.call(TOPIC, MESSAGE, 2.0, 60.0) == ["there"]
        except (NoReply, ReturnedToBroker):
            return False

    assert eventually(answered, 30)


def test_calls_are_read_again_after_a_loss_that_is_met_where_reply_queues_are_made(calling):
    """Calls come on the connection of the replies."""
    ping = {"method": "ping", "args": {"arg": ""}, "namespace": transport.BASE_NAMESPACE, "version": "1.1"}
    assert calling.call("router", ping, *PATIENT)

    def lose_and_make(reading):
        reading.connection.connection.transport.sock.shutdown(2)
        calling._make_queues(reading)

    calling._on_connection(lose_and_make)

    def answered():
        try:
            return calling.call("router", ping, 2.0, 60.0)
        except (NoReply, ReturnedToBroker):
            return False

    assert eventually(answered, 30)
