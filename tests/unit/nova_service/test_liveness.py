from datetime import datetime, timedelta

import pytest

from scheduler import conf as options
from scheduler.conf.derived import check_driver
from scheduler.errors import ConfigError
from scheduler.hosts.rows import ServiceRow
from scheduler.nova_service.host_discovery import is_up

NOW = datetime(2026, 1, 2, 3, 4, 5)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"last_seen_up": ago(59)}, True),
        ({"last_seen_up": ago(60)}, True),
        ({"last_seen_up": ago(61), "updated_at": NOW}, False),
        ({"created_at": ago(10)}, True),
        ({"last_seen_up": ago(61), "created_at": NOW}, False),
        ({"last_seen_up": ago(0), "forced_down": True}, False),
        ({"last_seen_up": ago(-59)}, True),
        ({"last_seen_up": ago(-63)}, False),
        ({}, False),
    ],
)
def test_is_up(columns, expected):
    assert is_up(ServiceRow(1, "u", "h", **columns), NOW, 60) is expected


def test_only_the_database_driver():
    conf = options.new()
    conf([], default_config_files=[])
    check_driver(conf)
    conf.set_override("servicegroup_driver", "mc")
    with pytest.raises(ConfigError, match="servicegroup_driver = mc"):
        check_driver(conf)
