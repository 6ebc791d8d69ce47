import ipaddress
import logging

import kombu.serialization
from oslo_context import context as oslo_context
import oslo_messaging as messaging
from oslo_messaging._drivers import common
from oslo_utils import uuidutils
import pytest

from scheduler import errors, objects
from scheduler.logs import RateLimitedLogger
from scheduler.rpc import calls, checks, endpoints, scheduler_endpoint
from scheduler.rpc.context import RequestContext
from scheduler.rpc.endpoints import Unreadable
from tests.support.clock import Clock
from tests.support.wire_examples import message, spec

UUID = "7900ba8a-8511-4a08-8212-8b095944aa3f"
OTHER = "2b54e988-4739-4ca3-96e9-82b0ebb53539"


def make_endpoint(manager, largest_reply=16 << 20, most_selections=1):
    return scheduler_endpoint.Scheduler(
        manager, RateLimitedLogger(endpoints.LOG), largest_reply, lambda: most_selections
    )


@pytest.fixture
def endpoint(manager):
    return make_endpoint(manager)


def sent_error(call, *args, **kwargs):
    with pytest.raises(messaging.ExpectedException) as caught:
        call(*args, **kwargs)
    return caught.value.exc_info[1]


def select(endpoint, **arguments):
    arguments = {"spec_obj": objects.hydrate(spec("boot_two_instances"))} | arguments
    return endpoint.select_destinations(RequestContext(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ({}, (None, False, False)),
        ({"instance_uuids": [UUID, OTHER]}, ([UUID, OTHER], False, False)),
        ({"instance_uuids": []}, ([], False, False)),
        ({"return_objects": True, "return_alternates": True}, (None, True, True)),
        ({"return_objects": None, "return_alternates": 0}, (None, False, False)),
    ],
)
def test_select_destinations(endpoint, manager, arguments, seen):
    manager.answer = ["x"]
    assert select(endpoint, **arguments) == ["x"]
    assert manager.asked[0][3:] == seen


def test_legacy_form(endpoint, manager):
    endpoint.select_destinations(
        RequestContext(),
        request_spec={"num_instances": 2, "instance_type": {"vcpus": 3}},
        filter_properties={"ignore_hosts": ["a"]},
    )
    asked = manager.asked[0][2]
    assert (asked.num_instances, asked.vcpus, asked.ignore_hosts) == (2, 3, ["a"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"spec_obj": None}, "spec_obj"),
        ({"spec_obj": objects.Flavor()}, "spec_obj"),
        ({"spec_obj": objects.RequestSpec(flavor=objects.Flavor(), num_instances=-1)}, "num_instances"),
        ({"spec_obj": objects.RequestSpec(flavor=objects.Flavor(), num_instances=10**9)}, "num_instances"),
        (
            {"spec_obj": objects.RequestSpec(flavor=objects.Flavor(memory_mb=2**31), num_instances=1)},
            "spec_obj.flavor.memory_mb must be 0 to",
        ),
        (
            {"spec_obj": objects.RequestSpec(flavor=objects.Flavor(vcpus=-1), num_instances=1)},
            "spec_obj.flavor.vcpus must be 0 to",
        ),
        ({"instance_uuids": UUID}, "instance_uuids"),
        ({"instance_uuids": {UUID: 1}}, "instance_uuids"),
        ({"instance_uuids": [1]}, "instance_uuids"),
        ({"instance_uuids": [None]}, "instance_uuids"),
        ({"instance_uuids": ["x"]}, "no UUID"),
        ({"instance_uuids": ["../" + UUID]}, "no UUID"),
        ({"instance_uuids": [UUID, UUID]}, "twice"),
        (
            {
                "spec_obj": objects.RequestSpec(
                    flavor=objects.Flavor(), num_instances=1, availability_zone="z" * 256
                )
            },
            "spec_obj.availability_zone has more than 255 characters",
        ),
        ({"instance_uuids": [UUID] * (checks.MOST_INSTANCES + 1)}, "at most"),
        ({"return_objects": "yes"}, "return_objects"),
        ({"return_alternates": []}, "return_alternates"),
    ],
)
def test_select_destinations_refuses(endpoint, manager, caplog, arguments, text):
    failure = sent_error(select, endpoint, **arguments)
    assert type(failure).__name__ == "Invalid"
    assert text in str(failure)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert manager.asked == []


@pytest.mark.parametrize(
    ("flags", "most"),
    [
        ({"return_objects": True, "return_alternates": True}, 4821),
        ({"return_objects": True}, 14463),
    ],
    ids=["alternates", "no alternates"],
)
def test_a_request_whose_reply_would_not_fit_into_a_message_is_refused(manager, flags, most):
    endpoint = make_endpoint(manager, most_selections=3)
    uuids = [uuidutils.generate_uuid() for _ in range(most + 1)]
    select(endpoint, instance_uuids=uuids[:most], **flags)
    assert len(manager.asked) == 1
    failure = sent_error(select, endpoint, instance_uuids=uuids, **flags)
    assert type(failure).__name__ == "Invalid"
    assert f"at most {most} are accepted" in str(failure)
    assert len(manager.asked) == 1


@pytest.mark.parametrize(
    ("flags", "most"), [({"return_objects": True}, 86), ({}, 400)], ids=["objects", "dicts"]
)
def test_a_request_without_instances_is_measured_by_their_number(manager, flags, most):
    endpoint = make_endpoint(manager, 100_000)
    wanted = objects.hydrate(spec("boot_two_instances"))
    wanted.num_instances = most
    select(endpoint, spec_obj=wanted, **flags)
    wanted.num_instances = most + 1
    failure = sent_error(select, endpoint, spec_obj=wanted, **flags)
    assert f"at most {most} are accepted" in str(failure)


def test_the_assumed_size_of_a_selection_is_that_of_a_recorded_reply():
    rows = message("reply_boot_two_instances")["result"]
    body = kombu.serialization.dumps(common.serialize_msg({"result": rows * 100}))[2]
    assert len(body) / sum(map(len, rows)) / 100 == pytest.approx(checks.SELECTION_SIZE, rel=0.02)


def test_request_without_a_flavor(endpoint, manager):
    failure = sent_error(endpoint.select_destinations, RequestContext())
    assert (type(failure).__name__, str(failure)) == (
        "ObjectActionError",
        "RequestSpec.flavor is needed, but was not sent",
    )
    assert manager.asked == []


AGGREGATE = objects.Aggregate(id=1)


@pytest.mark.parametrize("aggregates", [[AGGREGATE], objects.AggregateList(objects=[AGGREGATE]), AGGREGATE])
def test_update_aggregates(endpoint, manager, aggregates):
    endpoint.update_aggregates(RequestContext(), aggregates=aggregates)
    assert manager.asked[0][2] == [AGGREGATE]


INSTANCES = objects.InstanceList(objects=[objects.Instance(uuid=UUID)])


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("update_aggregates", {"aggregates": None}),
        ("update_aggregates", {"aggregates": [1]}),
        ("update_aggregates", {"aggregates": [objects.Aggregate(name="no id")]}),
        ("update_aggregates", {"aggregates": objects.Flavor()}),
        ("delete_aggregate", {"aggregate": None}),
        ("delete_aggregate", {"aggregate": objects.Aggregate()}),
        ("update_instance_info", {"host_name": "h", "instance_info": []}),
        ("update_instance_info", {"host_name": "", "instance_info": INSTANCES}),
        ("update_instance_info", {"host_name": None, "instance_info": INSTANCES}),
        (
            "update_instance_info",
            {"host_name": "h", "instance_info": objects.InstanceList(objects=[objects.Instance()])},
        ),
        ("delete_instance_info", {"host_name": "h", "instance_uuid": None}),
        ("delete_instance_info", {"host_name": ["h"], "instance_uuid": UUID}),
        ("sync_instance_info", {"host_name": "h", "instance_uuids": UUID}),
        ("sync_instance_info", {"host_name": "h", "instance_uuids": [1]}),
    ],
)
def test_casts_refuse(endpoint, manager, caplog, method, arguments):
    failure = sent_error(getattr(endpoint, method), RequestContext(), **arguments)
    assert type(failure).__name__ in {"Invalid", "ObjectActionError"}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert manager.asked == []


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("select_destinations", {"unknown": 1}),
        ("sync_instance_info", {"host_name": "h"}),
        ("sync_instance_info", {}),
        ("delete_aggregate", {"aggregate": AGGREGATE, "more": 1}),
    ],
)
def test_wrong_names_of_arguments(endpoint, manager, caplog, method, arguments):
    assert isinstance(sent_error(getattr(endpoint, method), RequestContext(), **arguments), TypeError)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert manager.asked == []


def test_unreadable_argument(endpoint, manager):
    assert str(sent_error(select, endpoint, spec_obj=Unreadable(errors.InvalidRequest("bad")))) == "bad"
    assert manager.asked == []


@pytest.mark.parametrize(
    ("raised", "kind", "level"),
    [
        (errors.NoValidHost("x"), "NoValidHost", logging.DEBUG),
        (errors.RequestFilterFailed("x"), "NoValidHost", logging.DEBUG),
        (errors.AllocationUpdateFailed("c", "e"), "AllocationUpdateFailed", logging.WARNING),
        (ValueError("x"), "ValueError", logging.ERROR),
        (ValueError(object()), "InternalError", logging.ERROR),
    ],
)
def test_errors_of_the_manager(endpoint, manager, caplog, raised, kind, level):
    caplog.set_level(logging.DEBUG, logger="nova.scheduler.rpc.endpoints")
    manager.answer = raised
    assert type(sent_error(select, endpoint)).__name__ == kind
    assert [record.levelno for record in caplog.records] == [level]


def test_a_hint_that_a_rule_cannot_read_is_one_line_of_the_log_in_an_interval(endpoint, manager, caplog):
    """Any user can send one with each build; the caller gets an error of nova's."""

    def read_hint(*_):
        with errors.faults_of_request():
            ipaddress.ip_network("10.0.0.0/33")

    manager.answer = read_hint
    for _ in range(20):
        assert type(sent_error(select, endpoint)).__name__ == "Invalid"
    (record,) = [each for each in caplog.records if each.levelno > logging.DEBUG]
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert "ValueError: '10.0.0.0/33' does not appear to be an IPv4" in record.getMessage()


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_an_exception_that_ends_threads_becomes_an_internal_error(endpoint, manager, caplog, raised):
    manager.answer = raised
    failure = sent_error(select, endpoint)
    assert type(failure).__name__ == "InternalError"
    assert type(raised).__name__ in str(failure)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_refused_messages_of_one_kind_are_logged_once_in_an_interval(manager, caplog):
    clock = Clock()
    warnings = RateLimitedLogger(logging.getLogger("refused"), clock=clock)
    endpoint = scheduler_endpoint.Scheduler(manager, warnings, 16 << 20, lambda: 1)
    for _ in range(100):
        sent_error(select, endpoint, instance_uuids=["x"])
        sent_error(select, endpoint, unknown=1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    clock.now += 1000
    sent_error(select, endpoint, instance_uuids=["x"])
    assert "99 more like this" in caplog.records[-1].getMessage()


def test_the_context_is_that_of_the_thread(endpoint, manager):
    seen = []
    manager.answer = lambda *_: seen.append(oslo_context.get_current())
    context = RequestContext(request_id="req-1")
    endpoint.delete_aggregate(context, aggregate=AGGREGATE)
    assert seen == [context]


def test_only_the_documented_methods_are_there():
    public = {
        name for name in vars(scheduler_endpoint.Scheduler) | vars(endpoints.Base) if not name.startswith("_")
    }
    assert public - {"target"} == {
        "select_destinations",
        "update_aggregates",
        "delete_aggregate",
        "update_instance_info",
        "delete_instance_info",
        "sync_instance_info",
        "ping",
        "get_backdoor_port",
    }


@pytest.mark.parametrize("can_be_requeued", [True, False], ids=["late acknowledgement", "acknowledged"])
def test_a_request_that_another_scheduler_can_answer_is_returned_to_the_broker(
    endpoint, manager, can_be_requeued
):
    manager.answer = errors.ReturnedToBroker("it stops")
    current = calls.Call(can_be_requeued=lambda: can_be_requeued)
    token = calls.CURRENT.set(current)
    try:
        with pytest.raises(calls.Requeued if can_be_requeued else messaging.ExpectedException):
            select(endpoint)
    finally:
        calls.CURRENT.reset(token)


@pytest.mark.parametrize("reason", [calls.Lost("lost"), calls.Requeued("comes again")])
def test_a_request_that_is_not_answered_here_ends_without_an_answer(endpoint, manager, caplog, reason):
    manager.answer = reason
    with pytest.raises(type(reason)):
        select(endpoint)
    assert caplog.text == ""
