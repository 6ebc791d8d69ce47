import contextlib
import json

import pytest

from scheduler.placement.allocations import (
    NOTHING,
    AllocationsApi,
    ConsumerAllocations,
    Owner,
    allocations_body,
    claim_body,
    claim_body_beside,
    emptying_body,
)
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable
from tests.support.clock import Clock
from tests.unit.claims.builders import OWNER, A, B, candidate


class Client:
    """A client to which Placement always gives the same response."""

    def __init__(self, status=200, body=b""):
        self.reply = Reply(status, body)
        self.sent = []

    def get(self, path, version, context=None):
        self.sent.append(("GET", path, version, context))
        return self.reply

    def write(self, method, path, version, context=None, body=None):
        self.sent.append((method, path, version, context, body and json.loads(body)))
        return self.reply


def test_allocations_are_read_with_generation_and_owner():
    body = {
        "allocations": {A: {"resources": {"VCPU": 1}, "generation": 7}},
        "consumer_generation": 3,
        "project_id": "project",
        "user_id": "user",
    }
    client = Client(200, json.dumps(body).encode())
    held = AllocationsApi(client).get_allocations("a/b", "context")
    assert held == ConsumerAllocations({A: {"resources": {"VCPU": 1}}}, 3, OWNER)
    assert client.sent == [("GET", "/allocations/a%2Fb", "1.28", "context")]


def test_an_unknown_consumer_holds_nothing():
    assert AllocationsApi(Client(200, b'{"allocations": {}}')).get_allocations("i") == NOTHING


UNCLEAR = {
    "server error": (500, b"{}"),
    "page of a proxy": (502, b"<html>"),
    "no allocations": (200, b"{}"),
    "no generation": (200, b'{"allocations": {"p": {"resources": {}}}}'),
    "allocations of another shape": (200, b'{"allocations": []}'),
    "resources missing": (200, b'{"allocations": {"p": {}}}'),
}


@pytest.mark.parametrize(("status", "body"), UNCLEAR.values(), ids=UNCLEAR.keys())
def test_a_response_that_does_not_tell_is_none(status, body):
    with pytest.raises(PlacementUnreachable, match=f"answers {status}"):
        AllocationsApi(Client(status, body)).get_allocations("i")


@pytest.mark.parametrize(
    ("status", "body", "root"),
    [(200, b'{"root_provider_uuid": "r"}', "r"), (404, b"{}", None)],
    ids=["known provider", "missing provider"],
)
def test_the_root_of_a_provider(status, body, root):
    assert AllocationsApi(Client(status, body)).get_root_provider("p") == root


def test_the_root_of_a_provider_that_placement_does_not_tell():
    with pytest.raises(PlacementUnreachable, match="answers 503"):
        AllocationsApi(Client(503)).get_root_provider("p")


def test_writes_go_to_their_paths_at_their_versions():
    client = Client(204)
    api = AllocationsApi(client)
    api.put_allocations("i", {"a": 1}, "context")
    api.post_allocations({"i": {}}, "context")
    assert client.sent == [
        ("PUT", "/allocations/i", "1.36", "context", {"a": 1}),
        ("POST", "/allocations", "1.36", "context", {"i": {}}),
    ]


HELD = ConsumerAllocations(candidate(B).allocations, 5, Owner("other", None))
MINE = {"project_id": "project", "user_id": "user"}
THEIRS = {"project_id": "other", "user_id": None}
BODIES = {
    "plain": (
        allocations_body(HELD.allocations, OWNER, None),
        {"allocations": candidate(B).allocations, **MINE, "consumer_generation": None},
    ),
    "claim": (
        claim_body(candidate(A), OWNER, 0),
        {"allocations": candidate(A).allocations, **MINE, "consumer_generation": 0, "mappings": {"": [A]}},
    ),
    "claim without mappings": (
        claim_body(AllocationCandidate.of(A, (A,), candidate(A).allocations, {}), OWNER, None),
        {"allocations": candidate(A).allocations, **MINE, "consumer_generation": None},
    ),
    "claim beside the source": (
        claim_body_beside(HELD, candidate(A), OWNER),
        {
            "allocations": {**candidate(A).allocations, **candidate(B).allocations},
            **MINE,
            "consumer_generation": 5,
        },
    ),
    "what was held before": (
        allocations_body(HELD.allocations, HELD.owner, 9),
        {"allocations": candidate(B).allocations, **THEIRS, "consumer_generation": 9},
    ),
    "emptying": (emptying_body(HELD), {"allocations": {}, **THEIRS, "consumer_generation": 5}),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_bodies(body, expected):
    assert body == expected


def test_a_provider_of_source_and_destination_keeps_its_old_amounts():
    source = ConsumerAllocations({A: {"resources": {"VCPU": 9}}}, 1, OWNER)
    assert claim_body_beside(source, candidate(A), OWNER)["allocations"] == source.allocations


REFUSED_BODY = b'{"errors": [{"status": 409, "code": "placement.undefined_code", "detail": "no room"}]}'


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        (Reply(204), True),
        (Reply(409, REFUSED_BODY), False),
        (Reply(502, b"<html>"), None),
        (PlacementUnreachable("refused"), False),
        (PlacementUnanswered("reset"), None),
    ],
    ids=["done", "refused", "unclear", "not sent", "no response"],
)
def test_each_write_is_reported_with_its_outcome(answer, done):
    class Answering(Client):
        def write(self, *_arguments):
            clock.now += 3
            if isinstance(answer, Exception):
                raise answer
            return answer

    clock, told = Clock(7.0), []
    api = AllocationsApi(Answering(), clock)
    api.written = lambda bodies, begun, *, done: told.append((list(bodies), begun, done))
    body = claim_body(candidate(A), OWNER, None)
    for write in (
        lambda: api.put_allocations("i", body),
        lambda: api.post_allocations({"i": body, "j": body}),
    ):
        with contextlib.suppress(PlacementSilent):
            write()
    assert told == [([body], 7.0, done), ([body, body], 10.0, done)]
