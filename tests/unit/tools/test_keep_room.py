"""The simulated month: what it counts, and that a seed determines it."""

import re

import pytest

from tools.scenarios.keep_room import FLAVORS, LARGE, POLICIES, Month, arrivals, main, run

HOSTS, DAYS = 10, 12


@pytest.fixture(scope="module")
def found():
    requested = arrivals(HOSTS, DAYS, 0.7, 3)
    return {policy: run(policy, HOSTS, DAYS, requested) for policy in POLICIES}


def test_a_seed_determines_the_requests_and_another_one_others():
    first, again, other = (arrivals(HOSTS, DAYS, 0.7, seed) for seed in (3, 3, 4))
    assert first == again != other
    assert {each.flavor for each in first} <= set(FLAVORS)
    assert [each.day for each in first] == sorted(each.day for each in first)


def test_the_same_requests_come_to_the_same(found):
    requested = arrivals(HOSTS, DAYS, 0.7, 3)
    assert run("keep room", HOSTS, DAYS, requested) == found["keep room"]


def test_room_is_kept_that_novas_defaults_and_filling_first_use(found):
    mean = {policy: sum(one.room) / len(one.room) for policy, one in found.items()}
    assert mean["keep room"] > max(mean["nova's defaults"], mean["fill first"])
    assert {len(one.room) for one in found.values()} == {8}


def test_an_empty_host_has_room_for_two_large_instances():
    assert Month(HOSTS, (), None).room(0.0) == 2 * HOSTS
    assert LARGE.memory_mb == 128 << 10


def test_a_line_for_each_policy_is_printed(capsys):
    assert main(["--hosts", "2", "--days", "11", "--used", "0.3"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+ requests in 11 days on 2 hosts, seed 1", head)
    assert [line[:28].strip() for line in lines] == ["policy", *POLICIES]
