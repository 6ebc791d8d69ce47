import math

import pytest

from scheduler import conf as options
from scheduler.conf.derived import check_driver, host_state_max_age, set_heartbeat_default
from scheduler.errors import ConfigError


def conf(**values):
    found = options.new()
    found([], default_config_files=[], default_config_dirs=[])
    for name, value in values.items():
        found.set_override(name, value)
    set_heartbeat_default(found)
    return found


@pytest.mark.parametrize(
    ("down", "report", "expected"),
    [(60, 10, 60), (11, 10, 11), (10, 10, 25), (5, 10, 25), (60, 0, 60), (60, 61, 152), (1, 1, 2)],
)
def test_service_down_time(down, report, expected):
    assert options.service_down_time(conf(service_down_time=down, report_interval=report)) == expected


@pytest.mark.parametrize(
    ("manager", "graceful", "expected"),
    [(160, 180, 160), (180, 180, 180), (160, 100, 90), (160, 10, 8), (160, 5, 4), (160, 0, 160), (0, 180, 0)],
)
def test_drain_timeout(manager, graceful, expected):
    found = conf(manager_shutdown_timeout=manager, graceful_shutdown_timeout=graceful)
    assert options.drain_timeout(found) == expected


@pytest.mark.parametrize(("configured", "expected"), [(None, 1.0), (2.5, 2.5), (0.0, 0.0)], ids=str)
def test_host_state_may_be_old_where_no_query_is_waited_for(configured, expected):
    found = conf()
    found.set_override("host_state_max_age", configured, "berth")
    assert host_state_max_age(found) == expected


@pytest.mark.parametrize(("timeout", "expected"), [(1800, 1800), (0, math.inf), (-1, math.inf)])
def test_caller_patience(timeout, expected):
    assert options.caller_patience(conf(long_rpc_timeout=timeout)) == expected


def test_remarks_name_what_is_not_taken_as_it_stands():
    with_database = conf()
    with_database.set_override("connection", "sqlite://", "database")
    with_database.set_override("workers", 1, "scheduler")
    assert list(options.remarks(with_database)) == []
    without = conf(service_down_time=5, graceful_shutdown_timeout=100)
    without.set_override("workers", 1, "scheduler")
    absent, *found = options.remarks(without)
    assert absent.startswith("[database]/connection is not set")
    names = ["[DEFAULT]/service_down_time", "[DEFAULT]/manager_shutdown_timeout"]
    assert [line.split()[0] for line in found] == names
    assert "service_down_time 25 is used" in found[0]
    assert "graceful_shutdown_timeout 100" in found[1]
    assert "waits only 90 seconds for its requests" in found[1]


@pytest.mark.parametrize(("workers", "warned"), [(None, False), (0, False), (1, False), (5, True)])
def test_one_process_is_started_and_it_is_said_where_more_are_wanted(workers, warned):
    found = options.load([], default_config_files=[])
    found.set_override("workers", workers, "scheduler")
    lines = [
        line for line in options.remarks(found) if line.startswith("[scheduler]/workers = 5: one process")
    ]
    assert len(lines) == warned


@pytest.mark.parametrize(
    ("threshold", "patience", "advice"),
    [
        (60, 60, ["60 is too long", "Leave it unset, or set it to 7"]),
        (23, 60, ["23 is too long", "set it to 7"]),
        (22, 60, None),
        (7, 60, None),
        (60, 135, None),
        (15, 27, ["15 is too long", "callers wait for 27 seconds", "set it to 6"]),
        (5, 24, ["5 is too long", "Set [DEFAULT]/rpc_response_timeout to 25 or more"]),
        (0, 60, ["off is too long"]),
    ],
)
def test_the_broker_must_miss_a_frozen_scheduler_before_callers_leave(threshold, patience, advice):
    found = conf(rpc_response_timeout=patience)
    found.set_override("heartbeat_timeout_threshold", threshold, "oslo_messaging_rabbit")
    lines = [line for line in options.remarks(found) if "heartbeat_timeout_threshold" in line]
    assert len(lines) == (advice is not None)
    assert [text for text in advice or () if text not in lines[0]] == []


def test_only_the_database_driver_of_service_groups_is_accepted():
    check_driver(conf())
    with pytest.raises(ConfigError, match="servicegroup_driver = mc"):
        check_driver(conf(servicegroup_driver="mc"))
