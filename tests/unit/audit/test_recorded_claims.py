import contextlib
import sqlite3
import uuid

import pytest

from scheduler.audit.recorded_claims import RecordedClaim, by_consumer, recorded_claims
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.claims.journal import ClaimJournal, Journal
from scheduler.claims.result import OwnWrite

MADE = ConsumerAllocations({"p": {"resources": {"VCPU": 2}}}, 3, Owner("project", "user"))
HELD = ConsumerAllocations(MADE.allocations, MADE.generation)


@pytest.fixture
def journal(tmp_path):
    claims = ClaimJournal()
    claims.open_page(Journal(tmp_path / "berth-claims-me"), lambda *found: None)
    return claims


@pytest.fixture
def instance():
    return str(uuid.uuid4())


def found(instance):
    return [claim for claim in recorded_claims() if claim.consumer == instance]


def record(journal, instance, *claim):
    """Record a claim that was sent."""
    journal.record_writes({instance: OwnWrite(*claim)})
    journal.mark_sent([instance])


def test_claims_of_a_scheduler_on_this_machine_are_found_once_and_stay(journal, instance):
    record(journal, instance, MADE)
    expected = [RecordedClaim(instance, OwnWrite(HELD))]
    assert found(instance) == expected
    assert found(instance) == expected


def test_a_claim_that_kept_the_source_is_told(journal, instance):
    record(journal, instance, MADE, MADE)
    assert [claim.write.previous for claim in found(instance)] == [HELD]


def test_claims_that_were_answered_are_not_found(journal, instance):
    record(journal, instance, MADE)
    journal.remove_records([instance])
    assert found(instance) == []


def test_claims_that_were_never_sent_are_not_found(journal, instance):
    journal.record_writes({instance: OwnWrite(MADE)})
    assert found(instance) == []


def test_files_that_cannot_be_read_are_passed_over(tmp_path):
    files = tmp_path / "1" / "fd"
    files.mkdir(parents=True)
    (files / "3").symlink_to("/tmp/berth-claims-x/page-0.sqlite (deleted)")
    (files / "5").symlink_to("/tmp/berth-claims-x/page-0.sqlite")
    (files / "4").symlink_to("/dev/null")
    assert list(recorded_claims(tmp_path)) == []


def test_a_journal_with_something_else_than_claims_is_passed_over(journal, instance, tmp_path):
    record(journal, instance, MADE)
    (path,) = (tmp_path / "berth-claims-me").glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE records SET claim = ?", [b"no JSON"])
    assert found(instance) == []


def test_only_the_claims_that_are_asked_for_are_kept():
    first, second = OwnWrite(MADE), OwnWrite(MADE, MADE)
    claims = [RecordedClaim("i", first), RecordedClaim("j", first), RecordedClaim("i", second)]
    assert by_consumer(claims, ["i", "k"]) == {"i": [claims[0], claims[2]], "k": []}


def test_claims_of_a_scheduler_that_does_not_run_are_found_in_its_journal(journal, instance, tmp_path):
    record(journal, instance, MADE)
    kept = tmp_path / "berth-claims-me"
    assert [claim.consumer for claim in recorded_claims(tmp_path / "no processes", kept)] == [instance]
