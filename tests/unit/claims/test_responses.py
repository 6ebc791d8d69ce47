import orjson
import pytest

from scheduler.claims.responses import Verdict, culprit, expected_generation, judge
from scheduler.placement.client import Reply

RP = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"
CONFLICT = "placement.concurrent_update"
NO_ROOM = "Unable to allocate inventory: Unable to create allocation for 'VCPU' on resource provider '{}'. The requested amount would {}."
GONE = f"Allocation for resource provider '{RP}' that does not exist."


def error(status, detail="", code="placement.undefined_code"):
    return Reply(status, orjson.dumps({"errors": [{"status": status, "detail": detail, "code": code}]}))


JUDGED = [
    (Reply(204), Verdict.DONE),
    (
        error(409, "consumer generation conflict - expected 1 but got None", CONFLICT),
        Verdict.CONSUMER_CONFLICT,
    ),
    (
        error(409, "There was\n\n consumer generation\n conflict - expected", CONFLICT),
        Verdict.CONSUMER_CONFLICT,
    ),
    (error(409, "Another thread concurrently updated", CONFLICT), Verdict.CONCURRENT),
    (error(409, NO_ROOM.format(RP, "exceed the capacity")), Verdict.REFUSED),
    (error(409, NO_ROOM.format(RP, "violate inventory constraints")), Verdict.REFUSED),
    (error(409, "anything"), Verdict.REFUSED),
    (error(400, GONE), Verdict.GONE),
    (error(400, "No such resource class CUSTOM_X"), Verdict.REFUSED),
    (error(400, "JSON does not validate: None is not of type 'string'"), Verdict.INVALID),
    (error(400, "Malformed consumer_uuid: x"), Verdict.INVALID),
    (error(403, "no"), Verdict.DENIED),
    (error(404, "no"), Verdict.DENIED),
    (error(406, "no"), Verdict.DENIED),
    (Reply(401, b"Unauthorized"), Verdict.DENIED),
    (Reply(403, b"<html>"), Verdict.DENIED),
    (Reply(200, b"{}"), Verdict.UNKNOWN),
    (Reply(302), Verdict.UNKNOWN),
    (Reply(400, b"<html>"), Verdict.UNKNOWN),
    (Reply(409, b""), Verdict.UNKNOWN),
    (Reply(409, b'{"errors": []}'), Verdict.UNKNOWN),
    (Reply(409, b'{"errors": "none"}'), Verdict.UNKNOWN),
    (Reply(409, b'{"errors": ["none"]}'), Verdict.UNKNOWN),
    (Reply(409, b"[1]"), Verdict.UNKNOWN),
    (Reply(429, b"slowly"), Verdict.UNKNOWN),
    (error(500, "deadlock"), Verdict.UNKNOWN),
    (Reply(502, b"<html>"), Verdict.UNKNOWN),
    (Reply(503, b"\xff\xfe"), Verdict.UNKNOWN),
]


@pytest.mark.parametrize(("reply", "verdict"), JUDGED)
def test_judge(reply, verdict):
    assert judge(reply) is verdict


CULPRITS = [
    (NO_ROOM.format(RP, "exceed the capacity"), ("VCPU", RP)),
    (f"Inventory for 'CUSTOM_X' on resource provider '{RP}' invalid.", ("CUSTOM_X", RP)),
    (GONE, ("", RP)),
    ("something else", ("", "")),
]


@pytest.mark.parametrize(("detail", "expected"), CULPRITS)
def test_culprit(detail, expected):
    assert culprit(error(409, detail)) == expected


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
