"""Whether a service is alive (spec: host-state-and-cells 4.1, 4.2).

The filter applies the same rule to whole columns; this is for single rows.
"""

from datetime import datetime
from typing import Any

from oslo_config import cfg

from scheduler.conf.derived import service_down_time
from scheduler.errors import ConfigError


def down_time(conf: cfg.ConfigOpts) -> float:
    """Seconds without a heartbeat after which a service is down (spec: host-state-and-cells 4.1)."""
    return service_down_time(conf)


def is_up(service: Any, now: datetime, down_time: float) -> bool:
    """Whether a row of ``services`` was seen within ``down_time`` seconds of ``now`` (naive UTC), either way.

    A service that was never seen counts as seen when it was created.
    """
    seen = service.last_seen_up or service.created_at
    return not service.forced_down and seen is not None and abs((now - seen).total_seconds()) <= down_time


def check_driver(conf: cfg.ConfigOpts) -> None:
    """Raises ``ConfigError`` for a servicegroup_driver other than db."""
    if conf.servicegroup_driver != "db":
        raise ConfigError(
            f"[DEFAULT]/servicegroup_driver = {conf.servicegroup_driver} is not supported: "
            "heartbeats are read from the databases only (db)"
        )
