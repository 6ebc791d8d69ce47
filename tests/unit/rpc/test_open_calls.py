"""What is listed of calls that are not answered yet."""

from types import SimpleNamespace

import pytest

from scheduler.bounds.waits import Wait
from scheduler.rpc.calls import State
from scheduler.rpc.open_calls import LONGEST, describe


def call(**fields):
    values = {
        "unique_id": "u",
        "ctxt": {"request_id": "req-1", "auth_token": "secret", "service_catalog": ["secret"]},
        "message": {"method": "select_destinations", "args": {"instance_uuids": ["i1", "i2"]}},
        "received": 5.0,
        "state": State.WAITS_FOR_THREAD,
        "replying_since": 0.0,
        "reply_q": "reply_1",
    }
    return SimpleNamespace(**(values | fields))


@pytest.mark.parametrize(
    ("fields", "missing_since", "step", "wait"),
    [
        ({}, None, "queue", Wait("a free thread", 5.0)),
        ({"state": State.RUNS}, None, "start", None),
        (
            {"state": State.RUNS, "replying_since": 8.0},
            None,
            "reply",
            Wait("RabbitMQ, which has to confirm the reply", 8.0),
        ),
        (
            {"state": State.RUNS, "replying_since": 8.0},
            9.0,
            "reply",
            Wait("reply queue reply_1, which does not exist", 9.0),
        ),
        ({"state": State.RUNS}, 9.0, "reply", Wait("reply queue reply_1, which does not exist", 9.0)),
    ],
    ids=["in the queue", "begun", "being answered", "undelivered", "without a reply queue"],
)
def test_what_a_call_waits_for(fields, missing_since, step, wait):
    found = describe(call(**fields), missing_since)
    assert (found.step, found.wait) == (step, wait)
    assert (found.request_id, found.instance_uuids, found.received_at) == ("req-1", ("i1", "i2"), 5.0)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "fields",
    [
        {"ctxt": None, "message": None},
        {"ctxt": {"request_id": 5}, "message": {"args": {"instance_uuids": "abc"}}},
        {"ctxt": {}, "message": {"args": ["x"]}},
    ],
)
def test_a_message_of_any_form_can_be_listed(fields):
    found = describe(call(**fields), None)
    assert (found.request_id, found.instance_uuids) == ("", ())


def test_what_anyone_may_send_is_cut():
    sent = {"args": {"instance_uuids": ["x" * 1000, 7]}}
    found = describe(call(ctxt={"request_id": "r" * 1000}, message=sent), None)
    assert (len(found.request_id), found.instance_uuids) == (LONGEST, ("x" * LONGEST, ""))
