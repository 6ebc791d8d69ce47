"""What callers get for whatever they send: a value, and the log one line."""

import ipaddress
import logging

from oslo_context import context as oslo_context
from oslo_serialization import jsonutils
import pytest

from scheduler import errors
from scheduler.rpc import scheduler_endpoint
from scheduler.rpc.calls import Event
from scheduler.rpc.context import RequestContext
from scheduler.rpc.errors import of_failure
from scheduler.rpc.methods import Answer, Method, Methods
from scheduler.rpc.wire import Frame
from tests.support.calls import make_call
from tests.support.wire_examples import as_json, message, settled, spec

UUIDS = ["7900ba8a-8511-4a08-8212-8b095944aa3f", "2b54e988-4739-4ca3-96e9-82b0ebb53539"]
SPEC = spec("boot_two_instances")


def failure_of(answer):
    """Return name and text of the error that is sent."""
    sent = jsonutils.loads(answer.failure)
    return sent["class"], sent["message"]


def logged(caplog):
    return [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_answer_is_what_nova_s_scheduler_sends(ask, manager):
    from scheduler import objects

    sent = message("reply_boot_two_instances")["result"]
    manager.answer = [[objects.hydrate(item) for item in found] for found in sent]
    arguments = {
        "spec_obj": SPEC,
        "instance_uuids": UUIDS,
        "return_objects": True,
        "return_alternates": True,
    }
    answer = ask("select_destinations", arguments, context={"user_id": "alice"})
    assert settled(jsonutils.loads(jsonutils.dumps(answer.result))) == settled(sent)
    (name, seen_by, asked, uuids, return_objects, return_alternates) = manager.asked[0]
    assert (name, seen_by.user_id) == ("select_destinations", "alice")
    assert as_json(asked) == settled(SPEC)
    assert (uuids, return_objects, return_alternates) == (UUIDS, True, True)


@pytest.mark.parametrize("version", ["4.0", "4.3", "4.4", "4.5"])
def test_versions_served(ask, manager, version):
    manager.answer = [{"host": "h"}]
    assert ask("select_destinations", {"spec_obj": SPEC}, version).result == [{"host": "h"}]
    assert manager.asked[0][3:] == (None, False, False)


@pytest.mark.parametrize("version", ["3.0", "4.6", "5.0", "1.0", None])
def test_versions_refused(ask, version):
    assert failure_of(ask("select_destinations", version=version))[0] == "UnsupportedVersion"


@pytest.mark.parametrize(
    "method", ["reset", "start", "stop", "init_host", "_manager", "__init__", "__class__", "ping", "casts"]
)
def test_other_methods_cannot_be_called(ask, manager, method):
    assert failure_of(ask(method))[0] == "NoSuchMethod"
    assert manager.asked == []


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_base_api(ask, version):
    base = {"version": version, "namespace": "baseapi"}
    assert ask("ping", {"arg": {"a": [1]}}, **base).result == {"service": "scheduler", "arg": {"a": [1]}}
    assert ask("get_backdoor_port", **base) == Answer(None)


def test_base_api_of_a_later_version(ask):
    assert failure_of(ask("ping", {"arg": 1}, "1.2", "baseapi"))[0] == "UnsupportedVersion"


@pytest.mark.parametrize("enabled", [True, False])
def test_rpc_ping(conf, manager, enabled):
    conf.set_override("rpc_ping_enabled", enabled)
    served = scheduler_endpoint.methods(conf, manager)
    answer = served.call(make_call({"method": "oslo_rpc_server_ping", "args": {}}))
    assert answer.result == "pong" if enabled else failure_of(answer)[0] == "UnsupportedVersion"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"spec_obj": None},
        {"spec_obj": "x"},
        {"spec_obj": {}},
        {"spec_obj": {"nova_object.name": "RequestSpec"}},
        {"spec_obj": {"nova_object.name": "Unheard"}},
        {"spec_obj": [[[[]]]]},
        {"spec_obj": "x" * 10_000_000},
        {"request_spec": "x"},
        {"unknown": 1},
        {"context": 1},
        {"self": 1},
        {"instance_uuids": "x", "spec_obj": SPEC},
        {"instance_uuids": ["x" * 10_000_000], "spec_obj": SPEC},
    ],
)
def test_bad_input_is_answered_and_logged_once(ask, manager, caplog, arguments):
    name, text = failure_of(ask("select_destinations", arguments))
    assert name in {"Invalid", "ObjectActionError"}
    assert len(text) < 500
    (record,) = logged(caplog)
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert manager.asked == []


@pytest.mark.parametrize(
    "frame",
    [
        {"method": None},
        {"method": 5},
        {"method": "rabbit://nova:password@controller"},
        {"args": []},
        {"args": None},
        {"version": "4"},
        {"version": "4.x"},
        {"version": 4.5},
        {"version": "9" * 5000 + ".1"},
        {"namespace": ["x"]},
    ],
    ids=str,
)
def test_a_message_that_cannot_be_read_is_refused_without_a_traceback(methods, caplog, frame):
    refused = []
    methods.on_refusal = lambda: refused.append(1)
    sent = {"method": "ping", "args": {"arg": 1}, "version": "1.1", "namespace": "baseapi"}
    assert failure_of(methods.call(make_call(sent | frame)))[0] == "Invalid"
    (record,) = logged(caplog)
    assert "rejected" in record.getMessage()
    assert not record.exc_info
    assert refused == [1]


@pytest.mark.parametrize(("method", "version"), [("no_such_method", "4.5"), ("ping", "5.0")])
def test_calls_that_nothing_takes_are_logged_once_in_an_interval(ask, caplog, clock, method, version):
    for _ in range(100):
        ask(method, version=version)
    assert [record.levelno for record in logged(caplog)] == [logging.WARNING]
    clock.now += 1000
    ask(method, version=version)
    assert "99 more like this" in caplog.records[-1].getMessage()


@pytest.mark.parametrize(
    ("raised", "kind", "level"),
    [
        (errors.NoValidHost("x"), "NoValidHost", logging.DEBUG),
        (errors.RequestFilterFailed("x"), "NoValidHost", logging.DEBUG),
        (errors.PlacementUnavailable("x"), "PlacementAPIConnectFailure", logging.DEBUG),
        (errors.AllocationUpdateFailed("c", "e"), "AllocationUpdateFailed", logging.WARNING),
        (of_failure("NoValidHost", "nova.exception", "x", {}), "NoValidHost", logging.DEBUG),
        (ValueError("x"), "ValueError", logging.ERROR),
        (ValueError(object()), "InternalError", logging.ERROR),
        (SystemExit(3), "InternalError", logging.ERROR),
        (KeyboardInterrupt(), "InternalError", logging.ERROR),
        (GeneratorExit(), "InternalError", logging.ERROR),
    ],
)
def test_errors_of_the_manager(ask, manager, caplog, raised, kind, level):
    caplog.set_level(logging.DEBUG, logger="nova.scheduler.rpc.methods")
    manager.answer = raised
    assert failure_of(ask("select_destinations", {"spec_obj": SPEC}))[0] == kind
    assert [record.levelno for record in caplog.records] == [level]


def test_no_valid_host_is_what_nova_raises(ask, manager):
    manager.answer = errors.NoValidHost("There are not enough hosts available.")
    sent = jsonutils.loads(ask("select_destinations", {"spec_obj": SPEC}).failure)
    text = "No valid host was found. There are not enough hosts available."
    assert (sent["module"], sent["class"], sent["args"]) == ("nova.exception", "NoValidHost", [text])
    assert sent["kwargs"] == {"reason": "There are not enough hosts available.", "code": 500}


def test_an_exception_on_the_way_to_the_method_is_answered(ask, monkeypatch):
    def fail(self):
        raise SystemExit

    monkeypatch.setattr(RequestContext, "update_store", fail)
    name, text = failure_of(ask("ping", {"arg": 1}, "1.1", "baseapi"))
    assert (name, "SystemExit" in text) == ("InternalError", True)


def test_a_hint_that_a_rule_cannot_read_is_one_line_of_the_log_in_an_interval(ask, manager, caplog):
    """Any user can send one with each build; the caller gets an error of nova's."""

    def read_hint(*_):
        with errors.faults_of_request():
            ipaddress.ip_network("10.0.0.0/33")

    manager.answer = read_hint
    for _ in range(20):
        assert failure_of(ask("select_destinations", {"spec_obj": SPEC}))[0] == "Invalid"
    (record,) = logged(caplog)
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert "ValueError: '10.0.0.0/33' does not appear to be an IPv4" in record.getMessage()


def test_the_context_is_that_of_the_thread(ask, manager):
    seen = []
    manager.answer = lambda context, *_: seen.append((oslo_context.get_current(), context)) or []
    ask("select_destinations", {"spec_obj": SPEC}, context={"request_id": "req-1"})
    ((current, given),) = seen
    assert current is given
    assert given.request_id == "req-1"


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_request_that_another_scheduler_can_answer_is_returned_to_the_broker(ask, manager, is_acknowledged):
    manager.answer = errors.ReturnedToBroker("it stops")
    answer = ask("select_destinations", {"spec_obj": SPEC}, is_acknowledged=is_acknowledged)
    assert (answer.event, bool(answer.failure)) == (
        (None, True) if is_acknowledged else (Event.RETURNED, False)
    )


def test_a_method_may_take_a_call_as_it_is():
    served = Methods({"m": Method("1.0", lambda call, /, **given: [call.frame.msg_id, given], reads=False)})
    call = make_call({"method": "m", "args": {"spec_obj": SPEC, "call": 1}})
    assert served.call(call).result == [call.frame.msg_id, {"spec_obj": SPEC, "call": 1}]


# -- casts


#: What each cast is to the manager, and which of its arguments that is told.
CASTS = {
    "fanout_update_aggregates": ("reread_aggregates",),
    "fanout_delete_aggregate": ("reread_aggregates",),
    "fanout_update_instance_info": ("reread_instances", lambda sent: [uuid_of_first(sent)]),
    "fanout_delete_instance_info": ("forget_instance", lambda sent: sent["instance_uuid"]),
    "fanout_sync_instance_info": (),
}


def uuid_of_first(sent):
    return sent["instance_info"]["nova_object.data"]["objects"][0]["nova_object.data"]["uuid"]


@pytest.mark.parametrize("name", CASTS)
def test_casts(methods, manager, name):
    sent = message(name)
    methods.cast(Frame(sent))
    asked = [
        (method, *(told(sent["args"]) for told in rest)) for method, *rest in filter(None, [CASTS[name]])
    ]
    assert manager.asked == asked


@pytest.mark.parametrize("name", CASTS)
def test_what_is_cast_can_be_called(methods, name):
    assert methods.call(make_call(message(name))) == Answer(None)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("update_instance_info", {"host_name": "h", "instance_info": []}),
        ("update_instance_info", {"host_name": "h", "instance_info": {"nova_object.data": {"objects": [1]}}}),
        ("update_instance_info", {"host_name": "h", "instance_info": {"nova_object.data": {"objects": 5}}}),
        ("update_instance_info", {}),
        ("delete_instance_info", {"host_name": "h", "instance_uuid": None}),
        ("delete_instance_info", None),
        ("select_destinations", {"spec_obj": SPEC}),
        ("reset", {}),
        (None, {}),
        (["x"], {}),
    ],
)
def test_casts_that_cannot_be_read_are_one_line_of_the_log(methods, manager, caplog, method, arguments):
    refused = []
    methods.on_refusal = lambda: refused.append(1)
    for _ in range(3):
        methods.cast(Frame({"method": method, "args": arguments}))
    (record,) = logged(caplog)
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert refused == [1] * 3
    assert manager.asked == []


def test_an_error_of_a_cast_does_not_end_the_thread_that_reads(methods, manager, caplog):
    manager.answer = SystemExit(1)
    methods.cast(Frame({"method": "update_aggregates", "args": {}}))
    assert [record.levelno for record in logged(caplog)] == [logging.ERROR]


def test_all_instances_of_a_large_host_are_read(methods, manager):
    many = message("fanout_update_instance_info")
    (one,) = many["args"]["instance_info"]["nova_object.data"]["objects"]
    one["nova_object.data"]["user_data"] = "x" * 65535
    many["args"]["instance_info"]["nova_object.data"]["objects"] = [one] * 200
    methods.cast(Frame(many))
    assert len(manager.asked[0][1]) == 200
