"""The promise, in the short form of the simulation: some histories with fixed seeds.

Histories that once violated it are listed in ``mended_histories.txt``, and run first.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tools.simulation import plan, shrink

ROOT = pathlib.Path(__file__).resolve().parents[3]
MENDED = pathlib.Path(__file__).with_name("mended_histories.txt")
#: Each profile once.
HISTORIES = len(plan.PROFILES)

# Seconds after which a run of the simulation hangs, also that of a campaign.
PATIENCE = 7200
pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE)]

#: Breaks of the product that are noticed within a few histories: of the past, claims, capacity and replies.
NOTICED_SOON = (
    "wanted and not wanted are mixed up",
    "a write replaces what another one wrote",
    "no check for over-commit",
    "a message is acknowledged before its reply",
)


def simulate(*arguments, hash_seed=None):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = hash_seed
    command = [sys.executable, "-W", "ignore", "-m", "tools.scenarios", "simulate", "--faults", *arguments]
    return subprocess.run(  # the status is looked at
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@pytest.fixture(scope="module")
def found(campaign_seed):
    """Violations of the short form, or of many histories in a campaign: what is said of each, by profile."""
    histories = 2000 if campaign_seed else HISTORIES
    limits = ("--seed", str(campaign_seed), "--histories", str(histories), "--jobs", "2")
    done = simulate(*limits, "--also", str(MENDED))
    (histories,) = re.findall(r"^(\d+) histories in .* violate the promise$", done.stdout, re.MULTILINE)[-1:]
    assert int(histories) > HISTORIES, done.stderr
    said = re.findall(r"^(Seed \d+ \((.*?)\) violates the promise: .*)$", done.stdout, re.MULTILINE)
    return [(profile, line) for line, profile in said]


@pytest.mark.campaign(only=False)
@pytest.mark.parametrize("profile", plan.PROFILES)
def test_the_promise_holds(found, profile):
    assert [line for each, line in found if each == profile] == []


@pytest.mark.parametrize(
    ("only", "histories"),
    [("|".join(NOTICED_SOON), 100), pytest.param("", 2000, marks=pytest.mark.campaign)],
    ids=["noticed soon", "all"],
)
def test_breaks_of_the_product_are_noticed(only, histories):
    limits = ("--seed", "600", "--histories", str(histories), "--jobs", "2")
    done = simulate("--breaks", "--only", only, *limits)
    noticed = re.search(r"^(\d+) of \1 breaks were noticed", done.stdout, re.MULTILINE)
    assert noticed, done.stdout
    assert int(noticed[1]) >= len(NOTICED_SOON)


def test_a_seed_is_replayed_exactly_whatever_the_hashes_of_texts():
    first, second = (simulate("--seed", "23", "--trace", hash_seed=seed) for seed in ("1", "2"))
    assert first.stdout.count("\n") > 20, first.stderr
    assert first.stdout == second.stdout


def test_a_failing_history_is_shown_and_made_smaller(tmp_path):
    without_workers = plan.Plan(
        "1 placement",
        "placement",
        plan.Limits(workers=0, hosts=2),
        (plan.Job(0.1, (1, 2)), plan.Job(0.2, (3,))),
        (plan.Event(0.1, "down", {"duration": 3.0}),),
    )
    path, smaller = tmp_path / "plan.json", tmp_path / "smaller.json"
    path.write_text(without_workers.to_json())
    done = simulate("--plan", str(path), "--shrink", "--save", str(smaller))
    assert done.returncode == 1, done.stdout
    assert "VIOLATION unread" in done.stdout
    smallest = plan.Plan.from_json(smaller.read_text())
    assert (len(smallest.jobs), smallest.events) == (1, ())
    again = simulate("--plan", str(smaller), "--histories", "1")
    assert again.returncode == 1
    assert "VIOLATION unread" in again.stdout


def test_a_history_in_which_the_promise_holds_ends_with_status_0():
    done = simulate("--seed", "0", "--histories", "1", "--profile", "placement")
    assert (done.returncode, done.stdout.rstrip().rpartition("\n")[2]) == (0, "The promise held.")


def run_script(text):
    command = [sys.executable, "-W", "ignore", "-c", text]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_nothing_is_kept_of_the_histories_before():
    text = """
import gc
from tools.simulation import command, runtime
command.prepare()
for seed in (8, 11, 14):  # in which processes are killed
    command.run_seed((seed, "kill"))
gc.collect()
print(sum(isinstance(each, runtime.Runtime) for each in gc.get_objects()))
"""
    done = run_script(text)
    assert done.stdout == "1\n", done.stderr  # the last one


def test_a_history_that_does_not_end_violates_the_promise():
    text = """
from tools.simulation import command, runtime
command.prepare()
runtime.MOST_STEPS = 1000
print(command.run_seed((8, "kill"))[1]["violations"])
"""
    done = run_script(text)
    assert done.stdout == "[('endless', 'the history did not end within 1000 steps')]\n", done.stderr


# -- plans ---------------------------------------------------------------------------------------------------


def test_a_plan_is_drawn_from_its_seed_and_survives_json():
    for seed in range(50):
        drawn = plan.draw(seed)
        assert drawn == plan.draw(seed)
        assert plan.Plan.from_json(drawn.to_json()).lines() == drawn.lines()


def test_every_profile_and_every_kind_of_event_is_drawn():
    drawn = [plan.draw(seed) for seed in range(600)]
    assert {one.profile for one in drawn} == set(plan.PROFILES)
    kinds = {kind for profile in plan.PROFILES.values() for kind in profile} - plan.OF_REQUESTS
    assert {event.kind for one in drawn for event in one.events} == kinds


def test_shrinking_keeps_what_fails_and_drops_the_rest():
    drawn = next(one for one in map(plan.draw, range(1000)) if len(one.jobs) > 3 and len(one.events) > 4)
    wanted = drawn.events[2]
    smallest = shrink.shrink(drawn, lambda one: wanted in one.events)
    assert smallest.events == (wanted,)
    assert len(smallest.jobs) == 1
    assert smallest.limits.workers == 1
