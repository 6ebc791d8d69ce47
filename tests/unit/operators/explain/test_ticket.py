"""A decision for a ticket and for the user."""

import json

import pytest

from scheduler.decisions.cause_code import CauseCode
from scheduler.decisions.document import Error
from scheduler.operators.explain.ticket import FOR_USERS, OF_OPERATOR, for_ticket, for_user
from tests.unit.operators.explain.test_main import config, make_trace, run, scheduler, trace

__all__ = ["config", "run", "scheduler", "trace"]  # fixtures

#: Words that only operators know; the user's text has none of them.
OF_OPERATORS = ("h1", "h2", "h3", "Filter", "Placement", "aggregate", "cell1", "az1", "nova", "host")


def test_five_lines_say_what_was_requested_and_why_there_is_no_host():
    lines = for_ticket(make_trace().decision)
    assert len(lines) == 5
    assert lines[0].startswith("Request req-1: build of i, flavor ")
    assert lines[0].endswith("project p")
    assert lines[1].startswith("Decided: ")
    assert lines[2] == "Result: no host (NoValidHost)"
    assert lines[3].startswith("Cause: RamFilter rejected 2 of 2 hosts: ")
    assert lines[3].endswith("(resources)")
    assert lines[4].startswith("Remedy: Add capacity")


def test_the_user_is_told_the_cause_without_hosts_and_rules():
    first, advice = for_user(make_trace().decision)
    assert "for 1 instance of" in first
    assert first.endswith("found no place: the cloud has no room for an instance of this size at the moment.")
    assert advice.startswith("Choose a smaller flavor")
    assert not [word for word in OF_OPERATORS if word in f"{first} {advice}"]


@pytest.mark.parametrize("code", CauseCode)
def test_no_text_for_users_names_what_is_the_operators(code):
    texts = " ".join(FOR_USERS.get(code, OF_OPERATOR))
    assert not [word for word in OF_OPERATORS if word in texts]


def test_an_outage_is_no_cause():
    decision = make_trace().decision
    decision.error, decision.summary = (
        Error("PlacementUnavailable", "h1: timed out"),
        "Placement is unavailable",
    )
    assert for_ticket(decision)[3] == "Cause: Placement is unavailable"
    first, advice = for_user(decision)
    assert first.endswith("was not served: a part of the cloud was unavailable.")
    assert advice == "Try again."


def test_a_request_with_a_host():
    decision = make_trace().decision
    decision.error = None
    assert for_ticket(decision)[2].startswith("Result: scheduled to")
    assert for_user(decision)[0].endswith("has got a place.")


def test_the_command_prints_the_lines(run, scheduler):
    status, output, _ = run("why", "req-1")
    assert (status, len(output.splitlines())) == (0, 5)
    status, output, _ = run("why", "req-1", "--user")
    assert (status, len(output.splitlines())) == (0, 2)
    assert "found no place" in output
    status, output, _ = run("why", "req-1", "-f", "json")
    found = json.loads(output)
    assert (found["cause"], len(found["lines"])) == ("resources", 5)
    assert run("why", "req-2")[0] == 1
