"""ComputeFilter (spec: filters-and-weighers 2.3)."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.filters.compute_filter import ComputeFilter
from tests.builders import make_host
from tests.unit.filters.asking import ask, ask_all, make_conf, make_request, why

NOW = datetime(2026, 1, 1, 12, 0, 0)


def rule_of(conf):
    """The filter at ``NOW``."""
    return ComputeFilter(conf, clock=NOW.replace(tzinfo=UTC).timestamp)


def seen(seconds_ago, **columns):
    return make_host("h").service(last_seen_up=NOW - timedelta(seconds=seconds_ago), **columns)


def never_seen(created_seconds_ago):
    created = None if created_seconds_ago is None else NOW - timedelta(seconds=created_seconds_ago)
    return make_host("h").service(last_seen_up=None, created_at=created)


# rows 10 and 11, times as text and with a zone, are settled when the service is read
@pytest.mark.parametrize(
    ("row", "host", "passes"),
    [
        (1, seen(5), True),
        (2, seen(5, disabled=True), False),
        (3, seen(5, forced_down=True), False),
        (4, seen(60), True),
        (5, seen(61), False),
        (6, seen(-61), False),
        (7, seen(-30), True),
        (8, never_seen(10), True),
        (9, never_seen(3600), False),
        ("no time at all", never_seen(None), False),
        ("seen whenever the table was read", seen(300, alive=True), True),
    ],
)
def test_table(row, host, passes):
    assert ask(rule_of, host, make_request()) is passes


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (seen(5, disabled=True, disabled_reason="disk broken"), "service disabled (disk broken)"),
        (seen(5, forced_down=True), "service forced down"),
        (seen(75), "service last seen 75 s ago, limit 60 s"),
        (never_seen(3600), "service last seen 3600 s ago, limit 60 s"),
        (never_seen(None), "service never seen"),
    ],
)
def test_reasons(host, reason):
    assert why(rule_of, host, make_request()) == reason


@pytest.mark.parametrize(
    ("down_time", "interval", "age", "passes"),
    [(20, 10, 20, True), (20, 10, 21, False), (10, 10, 25, True), (10, 10, 26, False), (5, 11, 27, True)],
)
def test_a_down_time_not_above_the_interval_becomes_two_and_a_half_intervals(
    down_time, interval, age, passes
):
    options = {"_service_down_time": down_time, "_report_interval": interval}
    assert ask(rule_of, seen(age), make_request(), **options) is passes


def test_the_down_time_in_force_is_that_of_the_moment():
    conf = make_conf()
    rule = rule_of(conf)
    assert ask_all(rule, [seen(90)], make_request()) == [False]
    conf.set_override("service_down_time", 100)
    assert ask_all(rule, [seen(90)], make_request()) == [True]


def test_services_that_are_down_are_named_in_one_warning(caplog):
    hosts = [make_host(f"h{number}").service(last_seen_up=NOW - timedelta(hours=1)) for number in range(12)]
    hosts.append(seen(5))
    assert ask_all(rule_of(make_conf()), hosts, make_request()) == [False] * 12 + [True]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert warnings[0].startswith("Compute services that are down: 12 (h0, h1, h2")
    assert "h11" not in warnings[0]
