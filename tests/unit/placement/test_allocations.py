import json

import pytest

from scheduler.placement.allocations import NOTHING, AllocationReader, ConsumerAllocations
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementUnreachable
from tests.unit.claims.builders import OWNER, A


class Client:
    """A client to which Placement always gives the same response."""

    def __init__(self, status=200, body=b""):
        self.reply = Reply(status, body)
        self.sent = []

    def get(self, path, version, context=None):
        self.sent.append(("GET", path, version, context))
        return self.reply


def test_allocations_are_read_with_generation_and_owner():
    body = {
        "allocations": {A: {"resources": {"VCPU": 1}, "generation": 7}},
        "consumer_generation": 3,
        "project_id": "project",
        "user_id": "user",
    }
    client = Client(200, json.dumps(body).encode())
    held = AllocationReader(client).read("a/b", "context")
    assert held == ConsumerAllocations({A: {"resources": {"VCPU": 1}}}, 3, OWNER)
    assert client.sent == [("GET", "/allocations/a%2Fb", "1.28", "context")]


def test_an_unknown_consumer_holds_nothing():
    assert AllocationReader(Client(200, b'{"allocations": {}}')).read("i") == NOTHING


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
        AllocationReader(Client(status, body)).read("i")


@pytest.mark.parametrize(
    ("status", "body", "root"),
    [(200, b'{"root_provider_uuid": "r"}', "r"), (404, b"{}", None)],
    ids=["known provider", "missing provider"],
)
def test_the_root_of_a_provider(status, body, root):
    assert AllocationReader(Client(status, body)).root_of("p") == root


def test_the_root_of_a_provider_that_placement_does_not_tell():
    with pytest.raises(PlacementUnreachable, match="answers 503"):
        AllocationReader(Client(503)).root_of("p")
