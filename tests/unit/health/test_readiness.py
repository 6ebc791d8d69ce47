"""The documents of /healthz and /readyz, case by case."""

from datetime import UTC, datetime

import pytest

from scheduler.health.readiness import Health, Readiness
from scheduler.health.reports import CellState, Report, WorkerState
from scheduler.health.supervision import WorkerTable
from tests.support.clock import Clock

GOOD_CELL = CellState("cell1", True, True, 0.5)
LOST_CELL = CellState("cell2", True, False, 700.0)
OLD_CELL = CellState("cell3", True, True, 100.0)
NEW_CELL = CellState("cell4", True, False, None)
DISABLED_CELL = CellState("cell5", False, True, 0.5)


def good(**changes):
    values = {"broker": True, "api_database": True, "placement": True, "cells": (GOOD_CELL,)}
    return WorkerState(**(values | changes))


def readiness(*states, phase="serving", clock=None):
    table = WorkerTable(len(states), lambda: 60.0, clock or Clock())
    table.reported(
        Report(number, 100 + number, phase, 0, state, {})
        for number, state in enumerate(states)
        if state is not None
    )
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Readiness(table, "controller", "1.2.3", lambda: moment)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([good(), good()], Health.PASS),
        ([good(), None], Health.WARN),
        ([None, None], Health.FAIL),
        ([good(), good(broker=False)], Health.WARN),
        ([good(broker=False), good(broker=False)], Health.FAIL),
        ([good(broker=None), good(broker=None)], Health.WARN),
        ([good(api_database=False), good(api_database=False)], Health.WARN),
        ([good(placement=False), good(placement=False)], Health.FAIL),
        ([good(placement=False), good()], Health.WARN),
        ([good(placement=None), good()], Health.WARN),
        ([good(cells=(GOOD_CELL, LOST_CELL))], Health.WARN),
        ([good(cells=(GOOD_CELL, OLD_CELL))], Health.WARN),
        ([good(cells=(LOST_CELL, NEW_CELL))], Health.FAIL),
        ([good(cells=(LOST_CELL, DISABLED_CELL))], Health.FAIL),
        ([good(cells=())], Health.FAIL),
        ([good(decision_stream=True), good(decision_stream=True)], Health.PASS),
        ([good(decision_stream=False), good(decision_stream=False)], Health.WARN),
    ],
    ids=[
        "all is well",
        "one worker does not report",
        "no worker reports",
        "one worker without broker",
        "no worker with broker",
        "broker not known",
        "API database away: requests are answered from what is known",
        "Placement away",
        "Placement away for one worker",
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
def test_the_state_is_the_worst_that_requests_can_notice(states, expected):
    health, document = readiness(*states).ready()
    assert (health, document["status"]) == (expected, str(expected))


@pytest.mark.parametrize("phase", ["starting", "serving"])
def test_why_placement_is_of_no_use_is_told_also_before_requests_are_taken(phase):
    problem = "HTTP 403: the user of [placement] lacks the rights"
    state = good(placement=False, placement_problem=problem)
    health, document = readiness(state, phase=phase).ready()
    assert health is Health.FAIL
    assert document["checks"]["placement:connection"][0]["output"] == problem


def test_the_decision_stream_is_checked_only_if_there_is_one():
    _health, document = readiness(good()).ready()
    assert "decision-stream:connection" not in document["checks"]
    _health, document = readiness(good(decision_stream=False)).ready()
    (check,) = document["checks"]["decision-stream:connection"]
    assert (check["status"], check["output"]) == ("fail", "does not answer; see the log")


@pytest.mark.parametrize("phase", ["starting", "stopping"])
def test_a_worker_that_takes_no_requests_is_not_ready(phase):
    health, document = readiness(good(), phase=phase).ready()
    assert health is Health.FAIL
    (check,) = document["checks"]["workers:serving"]
    assert check["output"] == "workers that take no requests: 1 of 1"


def test_a_check_names_the_worker_the_age_and_the_time():
    clock = Clock()
    checks = readiness(good(cells=(LOST_CELL,)), clock=clock)
    clock.now += 2
    _health, document = checks.ready()
    assert document["checks"]["cell cell2:age"] == [
        {
            "componentId": "worker 0",
            "status": "warn",
            "time": "2026-01-02T03:04:05Z",
            "observedValue": 702.0,
            "observedUnit": "s",
            "output": "its database does not answer; its hosts are not used",
        }
    ]
    assert (document["serviceId"], document["releaseId"]) == ("controller", "1.2.3")


def test_the_daemon_is_alive_until_the_master_cannot_get_a_worker_to_work():
    clock = Clock()
    checks = readiness(good(), clock=clock)
    assert checks.alive()[0] is Health.PASS
    clock.now += 60
    assert checks.alive()[0] is Health.PASS, "the worker is about to be replaced"
    clock.now += 61
    health, document = checks.alive()
    assert (health, document["status"]) == (Health.FAIL, "fail")
