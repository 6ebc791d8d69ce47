"""The documents of /healthz and /readyz, case by case."""

from datetime import UTC, datetime

import pytest

from scheduler.health.readiness import Health, Readiness
from scheduler.health.state import CellState, ServiceState

GOOD_CELL = CellState("cell1", True, True, 0.5)
LOST_CELL = CellState("cell2", True, False, 700.0)
OLD_CELL = CellState("cell3", True, True, 100.0)
NEW_CELL = CellState("cell4", True, False, None)
DISABLED_CELL = CellState("cell5", False, True, 0.5)


def good(**changes):
    values = {"broker": True, "api_database": True, "placement": True, "cells": (GOOD_CELL,)}
    return ServiceState(**(values | changes))


def readiness(state, serving=True):
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Readiness(lambda: (serving, state), "controller", "1.2.3", lambda: moment)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (good(), Health.PASS),
        (good(broker=False), Health.FAIL),
        (good(broker=None), Health.WARN),
        (good(api_database=False), Health.WARN),
        (good(placement=False), Health.FAIL),
        (good(placement=None), Health.WARN),
        (good(cells=(GOOD_CELL, LOST_CELL)), Health.WARN),
        (good(cells=(GOOD_CELL, OLD_CELL)), Health.WARN),
        (good(cells=(LOST_CELL, NEW_CELL)), Health.FAIL),
        (good(cells=(LOST_CELL, DISABLED_CELL)), Health.FAIL),
        (good(cells=()), Health.FAIL),
        (good(decision_stream=True), Health.PASS),
        (good(decision_stream=False), Health.WARN),
    ],
    ids=[
        "all is well",
        "no broker",
        "broker not known",
        "API database away: requests are answered from what is known",
        "Placement away",
        "Placement not asked yet",
        "one cell lost",
        "one cell old",
        "all cells lost",
        "only a disabled cell left",
        "no cell",
        "decisions are shared",
        "decisions are not shared although they should be: requests are answered as by a single scheduler",
    ],
)
def test_the_state_is_the_worst_that_requests_can_notice(state, expected):
    health, document = readiness(state).ready()
    assert (health, document["status"]) == (expected, str(expected))


@pytest.mark.parametrize("serving", [False, True])
def test_why_placement_is_of_no_use_is_told_also_before_requests_are_taken(serving):
    problem = "HTTP 403: the user of [placement] lacks the rights"
    state = good(placement=False, placement_problem=problem)
    health, document = readiness(state, serving).ready()
    assert health is Health.FAIL
    assert document["checks"]["placement:connection"][0]["output"] == problem


def test_the_decision_stream_is_checked_only_if_there_is_one():
    _health, document = readiness(good()).ready()
    assert "decision-stream:connection" not in document["checks"]
    _health, document = readiness(good(decision_stream=False)).ready()
    (check,) = document["checks"]["decision-stream:connection"]
    assert (check["status"], check["output"]) == ("warn", "does not answer; see the log")


def test_a_daemon_that_takes_no_requests_is_not_ready():
    health, document = readiness(good(), serving=False).ready()
    assert health is Health.FAIL
    (check,) = document["checks"]["daemon:serving"]
    assert check["output"] == "takes no requests"


def test_a_check_has_the_age_and_the_time():
    _health, document = readiness(good(cells=(LOST_CELL,))).ready()
    assert document["checks"]["cell cell2:age"] == [
        {
            "componentId": "daemon",
            "status": "warn",
            "time": "2026-01-02T03:04:05Z",
            "observedValue": 700.0,
            "observedUnit": "s",
            "output": "its database does not answer; its hosts are not used",
        }
    ]
    assert (document["serviceId"], document["releaseId"]) == ("controller", "1.2.3")


def test_a_daemon_that_answers_is_alive():
    health, document = readiness(ServiceState(), serving=False).alive()
    assert (health, document["status"]) == (Health.PASS, "pass")
