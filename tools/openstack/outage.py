"""A part of the cloud killed, stopped or frozen for a while in a burst: what becomes of the builds."""

import argparse
from collections import Counter
import contextlib
from dataclasses import dataclass
from functools import partial
import random
import time

from tools.openstack.api import ERRORS, Api
from tools.openstack.layout import Layout
from tools.openstack.programs import show_audits
from tools.openstack.services import Schedulers, Services
from tools.openstack.users import Users
from tools.rig.faults import Fault, broken, stopped

CALLERS = 4
#: Seconds without any change after which a server that is being built is left in BUILD: with a broker that is
#: killed go the messages of nova-api and nova-conductor, and nobody repeats these.
PATIENCE = 180
#: Seconds after which a scheduler has ended what it did for servers that were deleted.
LATE = 10
PARTS = ("scheduler", "rabbitmq", "placement", "mariadb", "keystone")
WAYS = ("kill", "stop", "freeze")


@dataclass(frozen=True)
class Result:
    """What became of the boots of one burst.

    Attributes:
        scheduler: The scheduler that served.
        fault: What was broken, and how.
        refused: Requests that nova's API did not accept.
        states: How many servers ended in each state.
        left: Servers that have allocations in Placement after they were deleted.
    """

    scheduler: str
    fault: str
    refused: int
    states: Counter[str]
    left: int = 0


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Break each chosen part with each scheduler; return 1 if a build failed with Berth."""
    chosen = options.only or [f"{part}:{way}" for part in PARTS for way in WAYS]
    results = []
    deadline = time.monotonic() + options.minutes * 60
    print("scheduler  fault                 ACTIVE  ERROR  other  not accepted  left in Placement")
    for name in options.schedulers:
        Schedulers(layout).replace(name)
        rng = random.Random(options.seed)
        for fault in chosen:
            if time.monotonic() > deadline:
                print(f"no time for {fault} with {name}")
                continue
            results.append(result(layout, name, fault, options, rng))
            print(line_of(results[-1]), flush=True)
    clean = show_audits(layout)
    return 1 if not clean or any(each.states["ERROR"] for each in results if each.scheduler == "berth") else 0


def line_of(result: Result) -> str:
    """Return a row of the table."""
    active, error = result.states["ACTIVE"], result.states["ERROR"]
    other = result.states.total() - active - error
    ended = f"{active:6}  {error:5}  {other:5}"
    return f"{result.scheduler:9}  {result.fault:20}  {ended}  {result.refused:12}  {result.left:17}"


def result(
    layout: Layout, scheduler: str, fault: str, options: argparse.Namespace, rng: random.Random
) -> Result:
    """Let users boot servers while a part is broken, heal it, and wait for all."""
    api, seconds, what = Api(layout), options.seconds, fault.replace(":", " ")
    name = f"outage-{fault.replace(':', '-')}-{rng.getrandbits(32):x}"
    # Half of the boots come before the fault and at its begin, the others while it lasts
    times = sorted(rng.uniform(0, seconds) for _ in range(options.servers))
    _ = api.image, api.flavors  # which gets the token, too
    with Users(api, max(CALLERS, options.servers // 4)) as users:
        booted = users.boot(f"{name}-", options.servers, times)
        time.sleep(seconds / 10)
        with _broken(layout, scheduler, fault)(seconds):
            time.sleep(seconds)
        refused = list(booted).count(None)
    states = _settled(api, name)
    api.delete_named(name)
    time.sleep(LATE)
    left = api.consumers() - {each.id for each in api.servers()}
    api.drop_allocations(left)
    return Result(scheduler, what, refused, states, len(left))


def _broken(layout: Layout, scheduler: str, fault: str) -> Fault:
    part, _, way = fault.partition(":")
    parts, name = (Schedulers(layout), scheduler) if part == "scheduler" else (Services(layout), part)
    if way == "freeze":
        return stopped(parts[name])
    return broken(getattr(parts[name], way), partial(parts.start, name))


def _settled(api: Api, name: str) -> Counter[str]:
    """Wait until no server of the burst is built, or nothing changes any more; return their states."""
    states, deadline = Counter[str](), time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(*ERRORS):
            before, states = states, Counter(each.status for each in api.servers(name=name))
            if not states["BUILD"] or time.monotonic() > deadline:
                return states
            if states != before:
                deadline = time.monotonic() + PATIENCE
        time.sleep(2)
