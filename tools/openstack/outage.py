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
from tools.rig.faults import broken, stopped

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
    for name in options.schedulers:
        Schedulers(layout).replace(name)
        outage = Outage(layout, name, options)
        for fault in chosen:
            if time.monotonic() > deadline:
                print(f"no time for {fault} with {name}")
                continue
            part, _, way = fault.partition(":")
            results.append(outage.result(part, way))
            print(line_of(results[-1]), flush=True)
    print("scheduler  fault                 ACTIVE  ERROR  other  not accepted  left in Placement")
    for each in sorted(results, key=lambda each: chosen.index(each.fault.replace(" ", ":"))):
        print(line_of(each))
    clean = show_audits(layout)
    return 1 if not clean or any(each.states["ERROR"] for each in results if each.scheduler == "berth") else 0


def line_of(result: Result) -> str:
    """Return a row of the table."""
    active, error = result.states["ACTIVE"], result.states["ERROR"]
    other = result.states.total() - active - error
    ended = f"{active:6}  {error:5}  {other:5}"
    return f"{result.scheduler:9}  {result.fault:20}  {ended}  {result.refused:12}  {result.left:17}"


class Outage:
    """One burst with one fault in it."""

    def __init__(self, layout: Layout, scheduler: str, options: argparse.Namespace) -> None:
        """Describe it; ``result`` runs it."""
        self._services = Services(layout)
        self._schedulers = Schedulers(layout)
        self._scheduler = scheduler
        self._api = Api(layout)
        self._seconds, self._servers = options.seconds, options.servers
        self._random = random.Random(options.seed)

    def result(self, part: str, way: str) -> Result:
        """Let users boot servers while the part is broken, heal it, and wait for all."""
        name = f"outage-{part}-{way}-{self._random.getrandbits(32):x}"
        # Half of the boots come before the fault and at its begin, the others while it lasts
        times = sorted(self._random.uniform(0, self._seconds) for _ in range(self._servers))
        _ = self._api.image, self._api.flavors  # which gets the token, too
        with Users(self._api, max(CALLERS, self._servers // 4)) as users:
            booted = users.boot(f"{name}-", self._servers, times)
            time.sleep(self._seconds / 10)
            with self._broken(part, way):
                time.sleep(self._seconds)
            refused = list(booted).count(None)
        found = self._settled(name)
        self._api.delete_named(name)
        time.sleep(LATE)
        left = self._api.consumers() - {each.id for each in self._api.servers()}
        self._api.drop_allocations(left)
        return Result(self._scheduler, f"{part} {way}", refused, found, len(left))

    def _broken(self, part: str, way: str) -> contextlib.AbstractContextManager[None]:
        scheduler = part == "scheduler"
        service = self._schedulers[self._scheduler] if scheduler else self._services[part]
        if way == "freeze":
            return stopped(service)(self._seconds)
        starts = self._schedulers if scheduler else self._services
        start = partial(starts.start, self._scheduler if scheduler else part)
        return broken(getattr(service, way), start)(self._seconds)

    def _settled(self, name: str) -> Counter[str]:
        """Wait until no server of the burst is built, or nothing changes any more; return their states."""
        states, deadline = Counter[str](), time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(*ERRORS):
                before, states = states, Counter(each.status for each in self._api.servers(name=name))
                if not states["BUILD"] or time.monotonic() > deadline:
                    return states
                if states != before:
                    deadline = time.monotonic() + PATIENCE
            time.sleep(2)
