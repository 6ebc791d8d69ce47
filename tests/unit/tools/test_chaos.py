"""Chaos without a cloud: which faults are drawn, what counts as recovery, and what is expected of Placement."""

import itertools
import math
import os
import random
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tools.rig import faults
from tools.rig.load import FLAVORS, BootRequest, Call, random_requests
from tools.rig.machine import Clock
from tools.rig.rounds import RECOVERY_LIMIT, Outcome, all_different, is_as_usual, recovery_time
from tools.scenarios import chaos as command
from tools.scenarios.flatness import Sample

LIMIT = 5.0
HEALED = 100.0


def call(sent, seconds, nodes=("node1",), error=""):
    ended = None if seconds is None else sent + seconds
    return Call(BootRequest(["uuid"], FLAVORS[0]), sent, ended, nodes, error)


def outcome(fault="scheduler killed", **changes):
    counts = {"requests": 10, "answered": 9, "refused": 1, "lost": 0, "wrong": 0, "leaked": 0}
    return Outcome(**{"fault": fault, **counts, "recovery": 1.0, "settled": 2.0, "limit": 5.0, **changes})


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        ([call(101, 2), call(101.5, 1), call(103, 2)], 2.5),
        ([call(90, 50)], 0.0),
        ([call(101, 6), call(102, 1)], 7.0),
        ([call(101, 1, nodes=(), error="NoValidHost"), call(104, 1)], 5.0),
        ([call(101, None)], math.inf),
    ],
    ids=["all served", "sent before", "one is slow", "one is refused", "one waits"],
)
def test_recovery_ends_with_the_first_served_and_the_last_not_served_request(calls, seconds):
    assert recovery_time(calls, HEALED, LIMIT) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("calls", "now", "usual"),
    [
        ([call(108, 1), call(109.5, None)], 110, True),
        ([call(101, 1)], 102, False),
        ([call(108, 1), call(101, None)], 110, False),
        ([call(108, 1), call(107, 1, nodes=(), error="NoValidHost")], 110, False),
        ([], 110, False),
    ],
    ids=["served", "too early", "an old one waits", "one is refused", "nothing was sent"],
)
def test_the_service_is_as_usual_after_some_seconds_in_which_all_were_served(calls, now, usual):
    assert is_as_usual(calls, HEALED, now, LIMIT) is usual


@pytest.mark.parametrize(
    ("made", "unanswered"),
    [
        (call(1, 1), False),
        (call(1, 1, nodes=(), error="NoValidHost"), False),
        (call(1, 1, nodes=(), error="MessagingTimeout"), True),
        (call(1, None, nodes=()), True),
    ],
    ids=["hosts", "an error", "a timeout of the caller", "nothing yet"],
)
def test_an_error_of_the_scheduler_is_an_answer_and_a_timeout_is_none(made, unanswered):
    assert made.unanswered is unanswered


def test_each_fault_is_drawn_before_any_is_drawn_again():
    names = ["a", "b", "c"]
    drawn = command.draw(names, 7, random.Random(3))
    assert len(drawn) == 7
    assert sorted(drawn[:3]) == sorted(drawn[3:6]) == names


def test_the_same_seed_draws_the_same_faults():
    first, second = (command.draw([*faults.CHAOS], None, random.Random(3)) for _ in range(2))
    assert first == second
    assert sorted(first) == sorted(faults.CHAOS)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"lost": 1}, False),
        ({"wrong": 1}, False),
        ({"leaked": 1}, False),
        ({"recovery": RECOVERY_LIMIT + 1}, False),
    ],
    ids=str,
)
def test_a_promise_is_broken_by_anything_lost_wrong_leaked_or_late(changes, kept):
    assert outcome(**changes).kept is kept


def test_the_table_has_sums_for_each_fault_and_marks_a_broken_promise(capsys):
    command.print_table([outcome(), outcome(recovery=3.0), outcome("disk full", leaked=2)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == "disk full 1 10 9 1 0 0 2 1.0 2.0 BROKEN".split()
    assert lines[3].split() == "scheduler killed 2 20 18 2 0 0 0 3.0 2.0".split()
    assert lines[4].split()[:3] == ["all", "3", "30"]


@pytest.mark.parametrize(
    ("per_sample", "log", "flat"),
    [(0.0, "INFO a\n", True), (5.0, "INFO a\n", False), (0.0, "2026 ERROR b\n", False)],
    ids=["flat", "memory grows", "an error in the log"],
)
def test_without_a_fault_nothing_grows_and_the_logs_have_no_error(per_sample, log, flat):
    cloud = SimpleNamespace(schedulers=[SimpleNamespace(text=lambda: log)])
    samples = [
        Sample(1000 * number, 900.0 + number, 200.0 + per_sample * number, 20, 50, 10) for number in range(20)
    ]
    assert command.is_flat(cloud, samples) is flat
    assert command.is_flat(cloud, samples[:8]) is False, "too few to say so"


def test_no_two_requests_of_a_load_have_the_same_extra_specs():
    rng = random.Random(1)
    requests = itertools.islice(all_different(random_requests(rng), rng), 50)
    assert len({request.flavor.extra_specs for request in requests}) == 50


def test_a_clock_jumps_for_processes_that_use_it(tmp_path):
    clock = Clock.made(tmp_path)
    if clock is None:
        pytest.skip("there is no C compiler")
    program = "import time; print(time.time(), time.monotonic())"
    clock.shift(-3600)
    environment = {**os.environ, **clock.environment}
    told = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    wall, monotonic = map(float, told.split())
    assert wall == pytest.approx(time.time() - 3600, abs=60)
    assert monotonic == pytest.approx(time.monotonic(), abs=60)


def test_a_cloud_that_is_no_cluster_has_faults_of_its_own():
    """Several have the name of a cluster's."""
    names = sorted(faults.CHAOS.keys() & faults.CLUSTER.keys())
    asked = []
    makers = {name: lambda *_cloud, name=name: asked.append(name) for name in names}
    options = SimpleNamespace(seed=1, minutes=math.inf, seconds=None)
    assert list(command.run(SimpleNamespace(), SimpleNamespace(), makers, names, options)) == []
    assert asked == names != []
