"""The parts of berth-scheduler."""

from collections.abc import Iterator
from functools import partial
import math
import random
import secrets
from typing import Any

import msgspec
from oslo_config import cfg

from scheduler import manager
from scheduler.cmd.traffic import requests_in_progress, traffic_counter, with_traffic
from scheduler.conf.partitions import all_partitions, own_partition
from scheduler.daemon.service import Periodic, ServiceParts
from scheduler.health.counters import Counters
from scheduler.health.decisions import DecisionCounter
from scheduler.health.state import ServiceState
from scheduler.logs import RateLimitedLogger
from scheduler.nova_db.partition_hosts import hosts_without_partition
from scheduler.nova_service import first_scheduler, service_record
from scheduler.parts import Outside, put_together
from scheduler.placement import partition_members
from scheduler.rpc import (
    context,
    explain,
    notifications,
    scheduler_endpoint,
    server,
    transport,
)


def all_parts() -> ServiceParts:
    """Return the parts of a scheduler."""
    counters = Counters()
    return ServiceParts(
        manager=partial(make_manager, counters=counters),
        server=partial(make_server, counters=counters),
        periodics=make_periodics,
        explanations=make_explanations,
        read_state=read_state,
        counters=counters,
    )


def make_manager(conf: cfg.ConfigOpts, counters: Counters) -> manager.SchedulerManager:
    """Return a manager, not started.

    Raises:
        BerthError: The options cannot work.
    """
    notifier = notifications.build(conf)
    counter = DecisionCounter(counters)
    parts = put_together(conf, Outside.from_conf(conf))
    return manager.SchedulerManager(conf, notifier, parts, on_decision=counter.count)


def make_server(
    conf: cfg.ConfigOpts,
    serving: manager.SchedulerManager,
    counters: Counters | None = None,
) -> server.Server:
    """Return the RPC server of a scheduler for its manager, not started."""
    made = scheduler_endpoint.build(conf, transport.rpc_transport(conf), serving)
    made.count = traffic_counter(counters or Counters())
    partition = own_partition(conf)
    if partition:
        made.topic = partition.topic
    made.rank = 1 + secrets.randbelow(server.PRIORITY_STEP - 1)
    made.outages = serving.outages
    serving.parts.claims.on_event = made.open_calls.touch
    return made


def make_explanations(
    conf: cfg.ConfigOpts, serving: manager.SchedulerManager, answering: server.Server
) -> Any:
    """Return the server for berth-explain's questions to a manager and its server, not started."""
    decisions = serving.decisions
    answers: dict[str, explain.Answer] = {
        "decision": decisions.decision,
        "decisions": decisions.memory.entries,
        "host_history": decisions.memory.host_history,
        "waiting": lambda: msgspec.to_builtins(requests_in_progress(answering, decisions.open())),
    }
    return explain.build(conf, answering.bus, answers)


def read_state(serving: manager.SchedulerManager | None, answering: server.Server | None) -> ServiceState:
    """Return what metrics and health checks show of a scheduler, as far as it has started."""
    if serving is None:
        return with_traffic(ServiceState(), answering)
    return with_traffic(serving.state(), answering, serving.decisions.open())


def make_periodics(conf: cfg.ConfigOpts, serving: manager.SchedulerManager) -> Iterator[Periodic]:
    """Yield heartbeats and the sweep; discovery and the check of the partition, if configured."""
    engines = serving.hosts.engines
    notifier: Any = serving.notifications
    notify = partial(notifier.service_created, context.RequestContext(is_admin=True))
    row = service_record.OwnService(conf, engines, notify)
    row.beat()
    if conf.report_interval > 0:
        yield Periodic("heartbeat", row.beat, conf.report_interval, service_record.FIRST_BEAT)
    first, every = first_scheduler.FirstScheduler(conf, engines, row.leads), first_scheduler.SWEEP_INTERVAL

    def sweep() -> None:
        serving.parts.claims.doubts.note_given_up(first.builds_given_up())

    yield Periodic("sweep", sweep, every, random.uniform(0, every))
    interval = first_scheduler.interval(conf)
    if interval and conf.periodic_enable:
        delay = random.uniform(0, conf.periodic_fuzzy_delay)
        yield Periodic("host discovery", first.discover_hosts, interval, delay)
    hosts = serving.hosts
    if hosts.partition.name:
        reports = RateLimitedLogger(partition_members.LOG, partition_members.REPORT_INTERVAL)

        def compare() -> None:
            nodes = {row.uuid: row.host for row in hosts.snapshot(math.inf).rows}
            missing = partition_members.missing_hosts(
                serving.parts.placement, hosts.partition.aggregates(), nodes
            )
            stray = hosts_without_partition(
                all_partitions(conf), hosts.engines, hosts.cells, hosts.aggregates
            )
            partition_members.report(reports, hosts.partition.name, missing, stray)

        yield Periodic("partition members", compare, partition_members.INTERVAL, partition_members.FIRST)
