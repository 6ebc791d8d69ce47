import orjson
import pytest

from scheduler.placement.client import Reply
from scheduler.placement.outcomes import (
    Outcome,
    cause_of,
    expected_generation,
    outcome_of,
    refused_resource,
)

RP = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"
CONFLICT = "placement.concurrent_update"
NO_ROOM = "Unable to allocate inventory: Unable to create allocation for 'VCPU' on resource provider '{}'. The requested amount would {}."
GONE = f"Allocation for resource provider '{RP}' that does not exist."


def error(status, detail="", code="placement.undefined_code"):
    return Reply(status, orjson.dumps({"errors": [{"status": status, "detail": detail, "code": code}]}))


RESPONSES = [
    (Reply(204), Outcome.DONE),
    (
        error(409, "consumer generation conflict - expected 1 but got None", CONFLICT),
        Outcome.CHANGED,
    ),
    (
        error(409, "There was\n\n consumer generation\n conflict - expected", CONFLICT),
        Outcome.CHANGED,
    ),
    (error(409, "Another thread concurrently updated", CONFLICT), Outcome.CONTENDED),
    (error(409, NO_ROOM.format(RP, "exceed the capacity")), Outcome.REFUSED),
    (error(409, NO_ROOM.format(RP, "violate inventory constraints")), Outcome.REFUSED),
    (error(409, "anything"), Outcome.REFUSED),
    (error(400, GONE), Outcome.GONE),
    (error(400, "No such resource class CUSTOM_X"), Outcome.REFUSED),
    (error(400, "JSON does not validate: None is not of type 'string'"), Outcome.INVALID),
    (error(400, "Malformed consumer_uuid: x"), Outcome.INVALID),
    (error(403, "no"), Outcome.DENIED),
    (error(404, "no"), Outcome.DENIED),
    (error(406, "no"), Outcome.DENIED),
    (Reply(401, b"Unauthorized"), Outcome.DENIED),
    (Reply(403, b"<html>"), Outcome.DENIED),
    (Reply(200, b"{}"), Outcome.UNKNOWN),
    (Reply(302), Outcome.UNKNOWN),
    (Reply(400, b"<html>"), Outcome.UNKNOWN),
    (Reply(409, b""), Outcome.UNKNOWN),
    (Reply(409, b'{"errors": []}'), Outcome.UNKNOWN),
    (Reply(409, b'{"errors": "none"}'), Outcome.UNKNOWN),
    (Reply(409, b'{"errors": ["none"]}'), Outcome.UNKNOWN),
    (Reply(409, b"[1]"), Outcome.UNKNOWN),
    (Reply(429, b"slowly"), Outcome.UNKNOWN),
    (error(500, "deadlock"), Outcome.UNKNOWN),
    (Reply(502, b"<html>"), Outcome.UNKNOWN),
    (Reply(503, b"\xff\xfe"), Outcome.UNKNOWN),
]


@pytest.mark.parametrize(("reply", "outcome"), RESPONSES)
def test_each_response_has_one_outcome(reply, outcome):
    assert outcome_of(reply) is outcome


REFUSED_RESOURCES = [
    (NO_ROOM.format(RP, "exceed the capacity"), ("VCPU", RP)),
    (f"Inventory for 'CUSTOM_X' on resource provider '{RP}' invalid.", ("CUSTOM_X", RP)),
    (GONE, ("", RP)),
    ("something else", ("", "")),
]


@pytest.mark.parametrize(("detail", "expected"), REFUSED_RESOURCES)
def test_a_refusal_names_class_and_provider(detail, expected):
    assert refused_resource(error(409, detail)) == expected


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("expected 0 but got None", 0),
        ("expected 12 but got null", 12),
        ("expected null but got 0", None),
        ("expected None but got 0", None),
        ("something else", None),
    ],
)
def test_expected_generation(text, generation):
    assert expected_generation(error(409, f"consumer generation conflict - {text}")) == generation


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (error(409, "no\n\n room"), "no room"),
        (Reply(502, b"<html>\r\nBad Gateway"), "<html> Bad Gateway"),
        (Reply(503), ""),
    ],
    ids=["error of Placement", "page of a proxy", "empty body"],
)
def test_the_cause_is_one_line(reply, cause):
    assert cause_of(reply) == cause
