from types import SimpleNamespace

import oslo_messaging as messaging
import pytest

from conductor_client.client import SchedulerClient
from scheduler import errors, objects
from scheduler.rpc.errors import for_caller
from scheduler.rpc.serializer import ObjectSerializer
from tests.support.waiting import eventually
from tests.unit.conductor_client.doubles import Scheduler, context, make_selection, make_spec, private_bus


@pytest.fixture(scope="module")
def bus():
    return private_bus()


@pytest.fixture(scope="module")
def scheduler(bus):
    scheduler = Scheduler()
    target = messaging.Target(topic="scheduler", server="here", exchange=bus.exchange)
    server = messaging.get_rpc_server(
        bus.transport,
        target,
        [scheduler],
        serializer=ObjectSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
    server.start()
    yield scheduler
    server.stop()
    server.wait()


def bus_of(client):
    """A bus with such an RPC client."""
    return SimpleNamespace(client=lambda *_topic, **_options: client)


@pytest.fixture
def served(scheduler):
    scheduler.asked.clear()
    return scheduler


def test_objects_come_back_as_objects_in_order(bus, served):
    served.answer = [[make_selection("a"), make_selection("b")], [make_selection("c")]]
    lists = SchedulerClient(bus).select_destinations(
        context(), make_spec(), ["1", "2"], return_alternates=True
    )
    assert [[one.service_host for one in hosts] for hosts in lists] == [["a", "b"], ["c"]]
    assert all(isinstance(one, objects.Selection) for hosts in lists for one in hosts)


def test_the_call_is_the_conductors(bus, served):
    served.answer = []
    SchedulerClient(bus).select_destinations(context(), make_spec(), ["1"])
    (asked,) = served.asked
    assert isinstance(asked.spec_obj, objects.RequestSpec)
    assert (asked.instance_uuids, asked.return_objects, asked.return_alternates) == (["1"], True, False)
    assert asked.context.project_id == "p"


def test_plain_form_is_returned_as_it_is(bus, served):
    served.answer = [{"host": "a", "nodename": "a.example.net", "limits": {}}]
    assert SchedulerClient(bus).select_destinations(context(), make_spec(), ["1"], False) == served.answer


def test_no_valid_host_has_its_own_class(bus, served):
    served.answer = for_caller(errors.NoValidHost("There are not enough hosts available."))
    with pytest.raises(errors.NoValidHost) as caught:
        SchedulerClient(bus).select_destinations(context(), make_spec(), ["1"])
    assert caught.value.reason == "There are not enough hosts available."
    assert str(caught.value) == "No valid host was found. There are not enough hosts available."


def test_other_errors_are_left_alone(bus, served):
    served.answer = ValueError("odd")
    with pytest.raises(ValueError, match="odd"):
        SchedulerClient(bus).select_destinations(context(), make_spec(), ["1"])


@pytest.mark.parametrize(
    ("exc_type", "expected"),
    [
        ("NoValidHost", errors.NoValidHost),
        ("AllocationUpdateFailed", messaging.RemoteError),
    ],
)
def test_errors_of_a_real_broker_are_told_apart_by_name(exc_type, expected):
    def call(*_args, **_arguments):
        raise messaging.RemoteError(exc_type, "No valid host was found. Why", ["trace"])

    client = SchedulerClient(bus_of(SimpleNamespace(call=call)))
    with pytest.raises(expected) as caught:
        client.select_destinations(context(), make_spec(), ["1"])
    assert "Why" in str(caught.value)


def test_a_silent_scheduler_is_given_up():
    with pytest.raises(messaging.MessagingTimeout):
        SchedulerClient(private_bus(), timeout=0.1).select_destinations(context(), make_spec(), ["1"])


def test_news_reach_every_scheduler(bus, served):
    SchedulerClient(bus).sync_instance_info(context(), "a", ["1"])
    assert eventually(lambda: served.asked)
    assert (served.asked[0].host_name, served.asked[0].instance_uuids) == ("a", ["1"])


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("update_aggregates", {"aggregates": []}),
        ("delete_aggregate", {"aggregate": None}),
        ("update_instance_info", {"host_name": "a", "instance_info": None}),
        ("delete_instance_info", {"host_name": "a", "instance_uuid": "1"}),
    ],
)
def test_casts_name_their_arguments(method, arguments):
    sent = []

    class Prepared:
        def cast(self, _context, name, **given):
            sent.append((name, given))

    client = SchedulerClient(bus_of(SimpleNamespace(prepare=lambda fanout: Prepared())))
    getattr(client, method)(context(), *arguments.values())
    assert sent == [(method, arguments)]


def test_time_limits_are_the_configurations(bus, monkeypatch):
    limits, make = [], bus.client
    monkeypatch.setattr(bus, "client", lambda *given, **options: limits.append(options) or make(*given))
    SchedulerClient.from_conf(bus)
    timeout, monitor = bus.conf.long_rpc_timeout, bus.conf.rpc_response_timeout
    assert limits == [{"timeout": timeout, "call_monitor_timeout": monitor}]
