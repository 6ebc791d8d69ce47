"""What is given back: only what a recorded claim wrote and nobody has touched since."""

import json

import pytest

from scheduler.audit.findings import Finding, Kind
from scheduler.audit.fix import CHANGED, FREED, GONE, NOT_PROVED, WRITTEN_SINCE, fix
from scheduler.audit.recorded_claims import RecordedClaim
from scheduler.claims.result import OwnWrite
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.errors import PlacementUnanswered
from scheduler.placement.reply import Reply

HELD = {"p": {"resources": {"VCPU": 2}}}
OTHER = {"p": {"resources": {"VCPU": 4}}}


class Client:
    """Placement with one consumer; ``written`` is what was written to it."""

    def __init__(self, allocations=HELD, generation=1, answer=Reply(204)):  # noqa: B008 - it is immutable
        self.held = {"allocations": allocations, "consumer_generation": generation} | dict.fromkeys(
            ("project_id", "user_id"), "x"
        )
        self.answer = answer
        self.written = []

    def get(self, path, version, context=None):
        return Reply(200, json.dumps(self.held).encode())

    def write(self, method, path, version, context, body):
        self.written.append(json.loads(body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def outcome(client, *writes, found_at=1, kind=Kind.NO_INSTANCE):
    finding = Finding(kind, "i", "a", "", "", generation=found_at)
    (fixed,) = fix([finding], [RecordedClaim("i", write) for write in writes], AllocationWriter(client))
    return fixed.outcome


def claim(allocations=HELD, generation=1, previous=None):
    return OwnWrite(ConsumerAllocations(allocations, generation), previous)


def test_what_a_recorded_claim_wrote_is_given_back_with_the_generation_that_was_read():
    client = Client()
    assert outcome(client, claim(OTHER), claim()) == FREED
    (body,) = client.written
    assert (body["allocations"], body["consumer_generation"]) == ({}, 1)


@pytest.mark.parametrize(
    ("client", "writes", "found_at", "expected"),
    [
        pytest.param(Client(), [], 1, NOT_PROVED, id="no recorded claim"),
        pytest.param(Client({}), [claim()], 1, GONE, id="nothing held any more"),
        pytest.param(Client(OTHER), [claim()], 1, CHANGED, id="other amounts"),
        pytest.param(Client(generation=4), [claim()], 4, CHANGED, id="the same amounts by another writer"),
        pytest.param(
            Client(generation=4), [claim(generation=4)], 1, WRITTEN_SINCE, id="claimed since it was found"
        ),
        pytest.param(
            Client(),
            [claim(previous=ConsumerAllocations(OTHER, 0))],
            1,
            CHANGED,
            id="the claim kept the source",
        ),
    ],
)
def test_nothing_is_given_back_without_proof(client, writes, found_at, expected):
    assert outcome(client, *writes, found_at=found_at) == expected
    assert client.written == []


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.NO_INSTANCE, Kind.NO_HOST}))
def test_what_may_be_held_is_not_given_back(kind):
    client = Client()
    assert outcome(client, claim(), kind=kind) == ""
    assert client.written == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Reply(409, b"conflict"), "Not fixed: Placement answers 409: conflict"),
        (
            PlacementUnanswered("no answer"),
            "Not fixed: no clear response (no answer) and no effect; Placement does not answer any write",
        ),
    ],
    ids=["refused", "unknown"],
)
def test_a_write_that_was_not_granted_is_told(answer, expected):
    assert outcome(Client(answer=answer), claim()) == expected
