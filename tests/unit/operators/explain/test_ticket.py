"""A decision for a ticket and for the user."""

import json

import pytest

from scheduler.decisions.cause_code import CauseCode
from scheduler.decisions.document import Constraint, Error, Failing, Why
from scheduler.decisions.failure_cause import cause_of
from scheduler.operators.explain.ticket import for_ticket, for_user
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
    assert lines[3].startswith("Cause: 2 hosts are rejected only by RamFilter: ")
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
    texts = " ".join(code.for_users)
    assert not [word for word in OF_OPERATORS if word in texts]


def sets(*failing, placed=0):
    """Why of hosts that fail constraints: number of hosts, their names and kinds."""
    constraints = list({one: None for _, each in failing for one in each})
    return Why(
        sum(hosts for hosts, _ in failing), placed=placed, instances=placed + 1,
        constraints=[Constraint(*one) for one in constraints],
        failing=[Failing([constraints.index(one) for one in each], hosts) for hosts, each in failing],
    )  # fmt: skip


MEMORY, GROUP = ("2048 MEMORY_MB", "amount"), ("group 1 (1 VGPU)", "group")


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (sets((300, [MEMORY])), "the cloud has no room for an instance of this size"),
        (sets((1, [MEMORY]), (92, [("the forced host h1", "host")])), "no place that the request allows has room"),
        (sets((1, [MEMORY]), (92, [("SameHostFilter", "filter", "", "SameHostFilter")])), "no place that the"),
        (sets((300, [MEMORY]), placed=3), "there is room for 3 instances of it"),
        (sets((300, [GROUP])), "a device, bandwidth or accelerator"),
    ],
)  # fmt: skip
def test_the_user_reads_whether_the_whole_cloud_lacks_room(why, words):
    decision = make_trace().decision
    decision.why, decision.error = why, Error("NoValidHost", "No valid host was found. ")
    decision.cause = cause_of(decision)
    first, advice = for_user(decision)
    assert words in first
    assert not [word for word in OF_OPERATORS if word in f"{first} {advice}"]


@pytest.mark.parametrize(
    ("kind", "remedy", "words"),
    [
        ("CallerLeft", "None is needed", "nobody waited for it any more"),
        ("HostsUnknown", "Try again when", "a part of the cloud was unavailable"),
        ("AllocationUpdateFailed", "See the log line", "the cloud has a fault"),
        ("KeyError", "See the log line", "the cloud has a fault"),
    ],
)
def test_an_error_that_is_no_refusal_is_shown_as_what_it_is(kind, remedy, words):
    decision = make_trace().decision
    decision.error, decision.cause, decision.summary = Error(kind, "h1"), None, "h1"
    assert remedy in for_ticket(decision)[4]
    assert words in for_user(decision)[0]


def test_an_outage_is_no_cause():
    decision = make_trace().decision
    decision.error, decision.cause = Error("PlacementUnavailable", "h1: timed out"), None
    decision.summary = "Placement is unavailable"
    assert for_ticket(decision)[3] == "Cause: Placement is unavailable"
    first, advice = for_user(decision)
    assert first.endswith("was not served: a part of the cloud was unavailable.")
    assert advice == "Try again."


def test_a_request_with_a_host():
    decision = make_trace().decision
    decision.error = decision.cause = None
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
