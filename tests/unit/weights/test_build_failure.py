"""Failed builds that fade, in hours counted by hand."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.weights.build_failure import BuildFailureWeigher
from tests.builders import make_host, make_table, uuid_of
from tests.support.options import make_conf
from tests.unit.weights.weighing import make_request, scores

START = datetime(2026, 1, 1, 12)
HOUR = timedelta(hours=1)


def seconds(moment):
    return moment.replace(tzinfo=UTC).timestamp()


def failing(*failures, updated=START):
    return [
        make_host(f"h{number}").failed_builds(count).set(updated=updated)
        for number, count in enumerate(failures, 1)
    ]


def raw(table, now, half_life=3600.0, pending=None, project=None):
    """The raw weight of each host."""
    view = HostView.of(table, np.arange(len(table)), pending=pending)
    conf = make_conf(berth__build_failure_half_life=half_life)
    request = make_request(project_id=project)
    weigher = BuildFailureWeigher(conf, lambda: seconds(now))
    return weigher.prepare(request).weigh(view).tolist()


FADED = {
    "at once": (timedelta(), [0, 1, 3, 8]),
    "after less than the half life": (HOUR / 2, [0, 1, 2, 6]),
    "after the half life": (HOUR, [0, 0, 1, 4]),
    "after two": (2 * HOUR, [0, 0, 1, 2]),
    "after three": (3 * HOUR, [0, 0, 0, 1]),
    "after four": (4 * HOUR, [0, 0, 0, 0]),
    "a clock that is behind": (-HOUR, [0, 1, 3, 8]),
}


@pytest.mark.parametrize(("age", "expected"), FADED.values(), ids=FADED)
def test_failures_fade_to_whole_ones(age, expected):
    assert raw(make_table(failing(0, 1, 3, 8)), START + age) == expected


def test_without_a_half_life_they_stay():
    assert raw(make_table(failing(0, 1, 3, 8)), START + 1000 * HOUR, half_life=0.0) == [0, 1, 3, 8]


def test_a_host_whose_failures_have_faded_is_as_good_as_any():
    table = make_table(failing(0, 1))
    view = HostView.of(table, np.arange(2))
    weigher = BuildFailureWeigher(
        make_conf(berth__build_failure_half_life=3600.0), lambda: seconds(START + HOUR)
    )
    assert scores([weigher], view).totals().tolist() == [0, 0]


def newer(table, hosts):
    return make_table(hosts, previous=table)


def test_other_reports_of_a_host_do_not_make_its_failures_younger():
    table = newer(make_table(failing(2)), failing(2, updated=START + HOUR))
    assert raw(table, START + 2 * HOUR) == [0]


@pytest.mark.parametrize("count", [3, 1], ids=["more", "fewer, after a success"])
def test_another_number_of_failures_is_a_failure_since(count):
    table = newer(make_table(failing(2)), failing(count, updated=START + HOUR))
    assert raw(table, START + HOUR) == [count]


def test_failures_keep_their_age_when_hosts_come_and_go():
    later = failing(0, 2, updated=START + HOUR)
    table = newer(make_table(failing(0, 2)), [later[1], make_host("new")])
    assert raw(table, START + 2 * HOUR) == [0, 0]


def test_the_host_that_failed_last_for_a_project_comes_last(clock):
    pending = PendingPlacements(clock)
    first = make_table(failing(0, 0, 7))
    second = make_table(failing(1, 0, 7, updated=START + HOUR / 4), previous=first)
    third = make_table(failing(1, 1, 7, updated=START + HOUR / 2), previous=second)
    pending.builds.note(uuid_of("h1"), "p")
    pending.builds.note(uuid_of("h2"), "p")
    pending.builds.note(uuid_of("h3"), "another")
    for table in (first, second, third):
        pending.builds.follow(table)
    found = raw(third, START + HOUR / 2, pending=pending, project="p")
    assert found[1] > found[0] > found[2]
    assert raw(third, START + HOUR / 2, pending=pending, project="another") == [1, 1, 5]
    faded = raw(third, START + 9 * HOUR, pending=pending, project="p")
    assert faded == [0, 0, 0]


def test_a_failure_long_after_a_build_was_sent_is_not_that_build(clock):
    pending = PendingPlacements(clock)
    pending.builds.follow(make_table(failing(0)))
    pending.builds.note(uuid_of("h1"), "p")
    clock.now += 1000
    table = make_table(failing(1))
    pending.builds.follow(table)
    assert pending.builds.failed_for("p", table).tolist() == [0]
