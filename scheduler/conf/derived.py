"""Values that are derived from several options, or from an option and the machine."""

from collections.abc import Iterator
import math

from oslo_config import cfg

from scheduler.conf.files import tls_file_problems
from scheduler.conf.log_output import log_output
from scheduler.conf.misspelt import misspelt_options
from scheduler.errors import ConfigError

FILTER, CHANCE, CACHING = "filter_scheduler", "chance_scheduler", "caching_scheduler"

# Values of [scheduler]/driver in older releases of nova, with those of today.
FORMER_DRIVERS = {
    "nova.scheduler.caching_scheduler.CachingScheduler": "caching_scheduler",
    "nova.scheduler.chance.ChanceScheduler": "chance_scheduler",
    "nova.scheduler.filter_scheduler.FilterScheduler": "filter_scheduler",
}

# Seconds in which a scheduler replies to a call that the broker took from another scheduler.
TIME_TO_ANSWER = 15

# Seconds of the broker's heartbeat, unless it is set: the broker drops a frozen scheduler after one to two
# times as long, and redelivers its requests. The shortest is for callers that wait for much less than
# a minute: with less, a busy scheduler could seem to be frozen.
HEARTBEAT, SHORTEST_HEARTBEAT = 7, 5

# Maximum age in seconds of host data for requests that do not wait for a query.
MIRROR_HOST_STATE_MAX_AGE = 1.0


def service_down_time(conf: cfg.ConfigOpts) -> int:
    """Return the seconds without a heartbeat after which a service is down (spec: wire-and-config 6.2).

    With a value not above report_interval every service would be down between two heartbeats; two and a half
    intervals are used instead.
    """
    if conf.service_down_time <= conf.report_interval:
        return int(conf.report_interval * 2.5)
    return conf.service_down_time


def caller_patience(conf: cfg.ConfigOpts) -> float:
    """Return the seconds that a caller waits for the reply: ``long_rpc_timeout``; infinity for 0 or less."""
    return conf.long_rpc_timeout if conf.long_rpc_timeout > 0 else math.inf


def drain_timeout(conf: cfg.ConfigOpts) -> int:
    """Return the seconds that a stopping daemon waits for requests in progress (spec: wire-and-config 7.5).

    graceful_shutdown_timeout 0 means no limit. Otherwise ten seconds of it, but at most a fifth, are kept for
    the end of the process.
    """
    limit = conf.graceful_shutdown_timeout
    if limit and conf.manager_shutdown_timeout > limit:
        return limit - min(10, limit // 5)
    return conf.manager_shutdown_timeout


def driver(conf: cfg.ConfigOpts) -> str:
    """Return how hosts are chosen: ``filter_scheduler`` or ``chance_scheduler``."""
    return CHANCE if conf.scheduler.driver == CHANCE else FILTER


def host_state_max_age(conf: cfg.ConfigOpts) -> float:
    """Return the maximum age in seconds of the host data that requests use with the mirror.

    With the mirror, reading the hosts would be all that a request waits for.
    """
    configured: float | None = conf.berth.host_state_max_age
    return MIRROR_HOST_STATE_MAX_AGE if configured is None else configured


def remarks(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield warnings to log at start about options that are replaced, missing or unknown."""
    yield from misspelt_options(conf)
    yield from lost_log(conf)
    if not conf.database.connection:
        yield (
            "[database]/connection is not set: this scheduler will not be listed as a nova service, and "
            "cells whose database URL is a template cannot be reached"
        )
    yield from tls_file_problems(conf, "neutron")
    if (conf.scheduler.workers or 0) > 1:
        yield (
            f"[scheduler]/workers = {conf.scheduler.workers}: one process is started, as one scheduler "
            "decides at a time. Further schedulers are for controllers that fail: start a daemon on each"
        )
    yield from _heartbeat_remarks(conf)
    if conf.scheduler.driver == CACHING:
        yield "[scheduler]/driver = caching_scheduler: filter_scheduler is used, which caches as well"
    elif conf.scheduler.driver in FORMER_DRIVERS:
        yield (
            f"[scheduler]/driver = {conf.scheduler.driver} is a name of an older release of nova; {FILTER} "
            f"is used. Today's name is {FORMER_DRIVERS[conf.scheduler.driver]}"
        )
    elif conf.scheduler.driver not in {FILTER, CHANCE}:
        yield f"[scheduler]/driver = {conf.scheduler.driver} is not known; {FILTER} is used"
    if conf.service_down_time <= conf.report_interval:
        yield (
            f"[DEFAULT]/service_down_time {conf.service_down_time} is not above [DEFAULT]/report_interval "
            f"{conf.report_interval}, so computes would count as down between two heartbeats; "
            f"service_down_time {service_down_time(conf)} is used"
        )
    if drain_timeout(conf) != conf.manager_shutdown_timeout:
        yield (
            f"[DEFAULT]/manager_shutdown_timeout {conf.manager_shutdown_timeout} is above "
            f"[DEFAULT]/graceful_shutdown_timeout {conf.graceful_shutdown_timeout}, after which a stopping "
            f"daemon ends: it waits only {drain_timeout(conf)} seconds for its requests to end"
        )


def lost_log(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a warning if no line of the log is written anywhere."""
    output = log_output(conf)
    if output is not None and not output.places:
        yield (
            f"[DEFAULT]/log_config_append = {conf.log_config_append} gives no handler that writes to the "
            "logger nova.scheduler, nova or root: all lines of the log are lost"
        )


def longest_heartbeat(conf: cfg.ConfigOpts) -> int:
    """Return the longest heartbeat_timeout_threshold (seconds) with which callers outlast a frozen scheduler.

    The broker needs one to two times the threshold to notice it and to redeliver its requests; then another
    scheduler has to reply.
    """
    return (conf.rpc_response_timeout - TIME_TO_ANSWER) // 2


def default_heartbeat(conf: cfg.ConfigOpts) -> int:
    """Return the heartbeat_timeout_threshold that is used if none is set, in seconds."""
    return max(SHORTEST_HEARTBEAT, min(HEARTBEAT, longest_heartbeat(conf)))


def set_heartbeat_default(conf: cfg.ConfigOpts) -> None:
    """Make the broker notice a frozen scheduler before its callers time out."""
    conf.set_default("heartbeat_timeout_threshold", default_heartbeat(conf), "oslo_messaging_rabbit")


def _heartbeat_remarks(conf: cfg.ConfigOpts) -> Iterator[str]:
    threshold, longest = conf.oslo_messaging_rabbit.heartbeat_timeout_threshold, longest_heartbeat(conf)
    if 0 < threshold <= longest:
        return
    needed = 2 * SHORTEST_HEARTBEAT + TIME_TO_ANSWER
    advice = (
        f"Leave it unset, or set it to {default_heartbeat(conf)}"
        if longest >= SHORTEST_HEARTBEAT
        else f"Set [DEFAULT]/rpc_response_timeout to {needed} or more"
    )
    yield (
        f"[oslo_messaging_rabbit]/heartbeat_timeout_threshold {threshold or 'off'} is too long if a "
        f"scheduler freezes: callers wait for {conf.rpc_response_timeout} seconds. {advice}"
    )


def check_driver(conf: cfg.ConfigOpts) -> None:
    """Check that servicegroup_driver is db.

    Raises:
        ConfigError: It is another one.
    """
    if conf.servicegroup_driver != "db":
        raise ConfigError(
            f"[DEFAULT]/servicegroup_driver = {conf.servicegroup_driver} is not supported: "
            "heartbeats are read from the databases only (db)"
        )
