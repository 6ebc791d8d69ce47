from hypothesis import given
from hypothesis import strategies as st
from oslo_context import context as oslo_context
import pytest

from scheduler.rpc.context import RequestContext
from tests.support.wire_examples import message

EXAMPLE = {
    key.removeprefix("_context_"): value
    for key, value in message("boot_two_instances").items()
    if key.startswith("_context_")
}


def test_example_round_trip():
    assert RequestContext.from_dict(EXAMPLE).to_dict() == EXAMPLE


def test_attributes():
    context = RequestContext.from_dict(EXAMPLE)
    assert context.user_id == EXAMPLE["user_id"]
    assert context.request_id == context.global_id == EXAMPLE["request_id"]
    assert context.auth_token == EXAMPLE["auth_token"]
    assert context.roles == ["member", "reader"]
    assert context.service_catalog[0]["type"] == "placement"


def test_global_id():
    assert (
        RequestContext.from_dict({"request_id": "req-1", "global_request_id": "req-2"}).global_id == "req-2"
    )


def test_empty():
    context = RequestContext.from_dict({})
    assert context.request_id.startswith("req-")
    assert (context.user_id, context.is_admin, context.roles, context.read_deleted) == (None, False, [], "no")
    assert context.timestamp


@pytest.mark.parametrize(
    ("values", "attribute", "found"),
    [
        ({"user": "u"}, "user_id", "u"),
        ({"user": "old", "user_id": "new"}, "user_id", "new"),
        ({"tenant": "t"}, "project_id", "t"),
        ({"project": "p"}, "project_id", "p"),
        ({"is_admin": None}, "is_admin", False),
        ({"is_admin": True}, "is_admin", True),
        ({"roles": "admin"}, "roles", []),
        ({"roles": None}, "roles", []),
        ({"read_deleted": 5}, "read_deleted", "no"),
        ({"service_catalog": None}, "service_catalog", []),
        ({"trace_info": {"hmac_key": "k"}, "client_timeout": 60, "unheard": 1}, "user_id", None),
    ],
)
def test_tolerance(values, attribute, found):
    assert getattr(RequestContext.from_dict(values), attribute) == found


@pytest.mark.parametrize("key", ["request_id", "global_request_id", "user_id", "project_id", "user_domain"])
def test_what_a_client_sends_cannot_forge_a_line_of_the_log(key):
    context = RequestContext.from_dict({key: "x] \n2026-11-23 ERROR forged\x1b[2J" + "y" * 10_000})
    line = f"%({key})s %(user_identity)s %(global_request_id)s" % (
        context.get_logging_values() | {"user_id": context.user_id}
    )
    assert line.isprintable()
    assert len(line) < 2000


@pytest.mark.parametrize("key", ["request_id", "global_request_id"])
@pytest.mark.parametrize("sent", ["a\nb", " a b", "caf\u00e9 \u4e2d", "x" * 100_000, "\ud800", "a\x00"])
def test_a_request_id_can_be_sent_in_a_header(key, sent):
    found = RequestContext.from_dict({key: sent}).global_id
    assert found.isascii()
    assert found.isprintable()
    assert found == found.strip()
    assert 0 < len(found) <= 255


@pytest.mark.parametrize("sent", ["", " "])
def test_without_a_request_id_one_is_made(sent):
    assert RequestContext.from_dict({"request_id": sent}).request_id.startswith("req-")


def test_elevated():
    context = RequestContext.from_dict(EXAMPLE)
    elevated = context.elevated()
    assert elevated.is_admin
    assert elevated.roles == ["member", "reader", "admin"]
    assert elevated.elevated().roles == ["member", "reader", "admin"]
    assert (context.is_admin, context.roles) == (False, ["member", "reader"])
    assert elevated.request_id == context.request_id


def test_copies_do_not_become_the_thread_s_context():
    context = RequestContext.from_dict(EXAMPLE)
    context.update_store()
    context.elevated()
    context.redacted_copy()
    RequestContext.from_dict({})
    assert oslo_context.get_current() is context


def test_redacted_copy():
    redacted = RequestContext.from_dict(EXAMPLE).redacted_copy().to_dict()
    assert (redacted["auth_token"], redacted["service_catalog"], redacted["remote_address"]) == (
        None,
        [],
        None,
    )
    assert redacted["timestamp"] != EXAMPLE["timestamp"]
    same = EXAMPLE.keys() - {"auth_token", "service_catalog", "remote_address", "timestamp"}
    assert {key: redacted[key] for key in same} == {key: EXAMPLE[key] for key in same}


def test_no_token_in_logs():
    values = RequestContext.from_dict(EXAMPLE).get_logging_values()
    assert EXAMPLE["auth_token"] not in str(values)
    assert values["user_name"] == "alice"


values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.lists(st.text(max_size=3))
    | st.just({})
)


@given(st.dictionaries(st.sampled_from(sorted(EXAMPLE)) | st.text(max_size=5), values))
def test_anything_makes_a_context(given_values):
    context = RequestContext.from_dict(given_values)
    assert isinstance(context.to_dict()["request_id"], str)
    context.elevated().get_logging_values()
