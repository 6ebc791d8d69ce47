"""What is released: only what a spool has an entry for, and nobody has written to since."""

import json

import pytest

from scheduler.claims.spool import Entry, Kept
from scheduler.claims.spool_file import SpoolFile
from scheduler.operators.audit.findings import Finding, Kind
from scheduler.operators.audit.fix import CHANGED, FREED, GONE, NOT_PROVED, WRITTEN_SINCE, fix
from scheduler.operators.audit.spooled import spooled
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.errors import PlacementUnanswered
from scheduler.placement.reply import Reply

HELD = {"p": {"resources": {"VCPU": 2}}}


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


def outcome(client, entry=None, found_at=1, kind=Kind.NO_INSTANCE):
    finding = Finding(kind, "i", "a", "", "", generation=found_at)
    (fixed,) = fix([finding], {"i": entry} if entry else {}, AllocationWriter(client))
    return fixed.outcome


ENTRY = Entry("i", 0.0, 0.0)


def test_what_a_spool_has_is_released_with_the_generation_that_was_read():
    client = Client(generation=3)
    assert outcome(client, ENTRY, found_at=3) == FREED
    (body,) = client.written
    assert (body["allocations"], body["consumer_generation"]) == ({}, 3)


@pytest.mark.parametrize(
    ("client", "entry", "found_at", "expected"),
    [
        pytest.param(Client(), None, 1, NOT_PROVED, id="no entry"),
        pytest.param(Client({}), ENTRY, 1, GONE, id="nothing held any more"),
        pytest.param(
            Client(generation=4), Entry("i", 0.0, 0.0, generation=1), 4, CHANGED, id="another generation"
        ),
        pytest.param(Client(generation=4), ENTRY, 1, WRITTEN_SINCE, id="claimed since it was found"),
        pytest.param(
            Client(), Entry("i", 0.0, 0.0, kept=Kept(frozenset({"p"}))), 1, CHANGED, id="it keeps its source"
        ),
    ],
)
def test_nothing_is_released_without_proof(client, entry, found_at, expected):
    assert outcome(client, entry, found_at=found_at) == expected
    assert client.written == []


def test_the_entries_of_all_files_are_read_and_those_that_cannot_be_are_told(tmp_path, caplog):
    file = SpoolFile(tmp_path)
    file.append([ENTRY.to_line(), Entry("j", 0.0, 0.0).to_line(), {"consumer": "j", "settled": True}])
    (tmp_path / "bad.jsonl").mkdir()
    assert list(spooled(tmp_path)) == ["i"]
    assert "bad.jsonl" in caplog.text
    assert spooled(None) == {}


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.NO_INSTANCE, Kind.NO_HOST}))
def test_what_may_be_held_is_not_given_back(kind):
    client = Client()
    assert outcome(client, ENTRY, kind=kind) == ""
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
    assert outcome(Client(answer=answer), ENTRY) == expected
