"""Values that follow from more than one option, or from an option and the machine."""

import math
import os

from scheduler.errors import ConfigError


def service_down_time(conf):
    """Seconds without a heartbeat after which a service is down.

    A value not above report_interval would make every service flap; two and a half intervals take its place.
    spec: wire-and-config 6.2
    """
    if conf.service_down_time <= conf.report_interval:
        return int(conf.report_interval * 2.5)
    return conf.service_down_time


def worker_count(conf):
    """Number of worker processes; unset and 0 mean one for each CPU that this process may use."""
    return conf.scheduler.workers or len(os.sched_getaffinity(0))


def caller_patience(conf):
    """Seconds after which nobody waits for an answer: ``long_rpc_timeout``; 0 or less means never."""
    return conf.long_rpc_timeout if conf.long_rpc_timeout > 0 else math.inf


def drain_timeout(conf):
    """Seconds that a stopping worker gives to the requests in progress (spec: wire-and-config 7.5).

    graceful_shutdown_timeout 0 waits for ever, so it sets no bound. Else ten seconds of it are kept for what
    comes after, but no more than a fifth: nova too goes on answering until the alarm ends it.
    """
    limit = conf.graceful_shutdown_timeout
    if limit and conf.manager_shutdown_timeout > limit:
        return limit - min(10, limit // 5)
    return conf.manager_shutdown_timeout


def remarks(conf):
    """Lines to log at start: option values that are not taken as they stand."""
    if not conf.database.connection:
        yield (
            "[database]/connection is not set: this scheduler will not be among nova's services, and cells "
            "whose database URL is a template cannot be reached"
        )
    if conf.service_down_time <= conf.report_interval:
        yield (
            f"service_down_time {conf.service_down_time} is not above report_interval "
            f"{conf.report_interval}; {service_down_time(conf)} is used"
        )
    if drain_timeout(conf) != conf.manager_shutdown_timeout:
        yield (
            f"manager_shutdown_timeout {conf.manager_shutdown_timeout} is above graceful_shutdown_timeout "
            f"{conf.graceful_shutdown_timeout}; {drain_timeout(conf)} is used"
        )


def check_driver(conf):
    """Raises ``ConfigError`` for a servicegroup_driver other than db."""
    if conf.servicegroup_driver != "db":
        raise ConfigError(
            f"[DEFAULT]/servicegroup_driver = {conf.servicegroup_driver} is not supported: "
            "heartbeats are read from the databases only (db)"
        )
