"""Many boots at once through the API: time until they are ACTIVE, and what of it is the scheduler's."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
import re
import statistics

import psutil

from tools.openstack.api import Api, Server
from tools.openstack.layout import Layout
from tools.openstack.programs import show_audits
from tools.openstack.services import Schedulers
from tools.openstack.users import Users
from tools.rig.service import until

CALLERS = 8
PATIENCE = 900
#: oslo.messaging's lines at DEBUG, which the super-conductor of the cloud writes.
CALL = re.compile(r"^(\S+ \S+) .* CALL msg_id: (\w+) exchange '\w+' topic 'scheduler' ")
REPLY = re.compile(r"^(\S+ \S+) .* received reply msg_id: (\w+)")


@dataclass(frozen=True)
class Burst:
    """What one burst took, in seconds.

    Attributes:
        scheduler: The scheduler that served.
        until_active: From the request of each server until it is ACTIVE.
        calls: From each call of the scheduler until its reply.
        cpu: What the processes of the scheduler used.
        failed: Servers that became ERROR, or were not accepted.
    """

    scheduler: str
    until_active: Sequence[float]
    calls: Sequence[float]
    cpu: float
    failed: int


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Let each scheduler serve bursts in turns; return 1 if a server failed or an audit finds something."""
    schedulers, api = Schedulers(layout), Api(layout)
    failed = 0
    for name in ("nova", "berth"):
        schedulers.replace(name)
        found = burst(layout, api, name, options.servers)
        failed += found.failed
        print(line_of(found), flush=True)
    return 0 if show_audits(layout) and not failed else 1


def burst(layout: Layout, api: Api, scheduler: str, servers: int) -> Burst:
    """Boot so many servers at once, wait for all, and delete them."""
    log = layout.directory / "logs" / "super-conductor.log"
    size, cpu = log.stat().st_size, _cpu(layout, scheduler)
    with Users(api, CALLERS) as users:
        booted = [server for server in users.boot("burst-", servers) if server]
    ended = _wait(api, set(booted))
    with log.open() as file:
        file.seek(size)
        calls = call_times(file.read())
    used = _cpu(layout, scheduler) - cpu
    api.delete(*booted)
    active = [seconds_of(each) for each in ended if each.status == "ACTIVE"]
    return Burst(scheduler, active, calls, used, servers - len(active))


def call_times(text: str) -> list[float]:
    """Return how long the calls of the scheduler took that a super-conductor's log has."""
    begun: dict[str, datetime] = {}
    took = []
    for line in text.splitlines():
        if found := CALL.match(line):
            begun[found[2]] = _time(found[1])
        elif (found := REPLY.match(line)) and found[2] in begun:
            took.append((_time(found[1]) - begun.pop(found[2])).total_seconds())
    return took


def seconds_of(server: Server) -> float:
    """Return the time from the creation of a server until it ran."""
    created = datetime.fromisoformat(server.created_at)
    launched = datetime.fromisoformat(server.launched_at).replace(tzinfo=UTC)
    return (launched - created).total_seconds()


def line_of(found: Burst) -> str:
    """Return a burst in one line."""
    active, calls = found.until_active or [0.0], found.calls or [0.0]
    return (
        f"{found.scheduler:6} {len(found.until_active):4} ACTIVE, {found.failed} ERROR; until ACTIVE:"
        f" median {statistics.median(active):.1f} s, longest {max(active):.1f} s;"
        f" {len(found.calls)} calls of the scheduler:"
        f" median {statistics.median(calls) * 1000:.0f} ms, longest {max(calls) * 1000:.0f} ms;"
        f" {found.cpu * 1000 / max(len(found.calls), 1):.0f} ms of CPU each"
    )


def _wait(api: Api, servers: set[str]) -> list[Server]:
    """Wait until all are ACTIVE or ERROR, and return them; raises RuntimeError."""

    def ended() -> list[Server]:
        found = [each for each in api.servers(name="burst-") if each.id in servers]
        return [each for each in found if each.status in {"ACTIVE", "ERROR"}]

    until(lambda: len(ended()) == len(servers), f"not all of {len(servers)} servers are built", PATIENCE)
    return ended()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _cpu(layout: Layout, scheduler: str) -> float:
    master = psutil.Process(Schedulers(layout)[scheduler].pid)
    times = [each.cpu_times() for each in (master, *master.children(recursive=True))]
    return sum(each.user + each.system for each in times)
