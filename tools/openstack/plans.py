"""Plans carried out: what berth-plan says, and what nova then does when it is done."""

import argparse
from concurrent.futures import ThreadPoolExecutor
import os
import subprocess
from typing import Any

from tools.openstack.api import Api, ApiError, NotReachedError
from tools.openstack.audits import show_audits
from tools.openstack.layout import Layout
from tools.openstack.planned_cloud import PREFIX, TIMEOUT, PlannedCloud
from tools.openstack.schedulers import Schedulers
from tools.openstack.services import Services

CALLERS = 4
#: So large that a cloud is full soon.
FILLING = "quarter"
PLANS = ("drain", "balance", "survive", "capacity")


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Carry out the chosen plans on a cloud with servers; return 1 if one does not come true."""
    Schedulers(layout).replace("berth")
    world = PlannedCloud(layout, options.seed)
    plans = Plans(layout, world)
    with world.servers(options.servers):
        results = [getattr(plans, name)() for name in options.only or PLANS]
    return 0 if show_audits(layout) and all(results) else 1


class Plans:
    """Plans of a cloud, each followed to its end."""

    def __init__(self, layout: Layout, world: PlannedCloud) -> None:
        """Describe them for a cloud that is filled."""
        self._layout = layout
        self._services = Services(layout)
        self._api = Api(layout)
        self._world = world

    def drain(self) -> bool:
        """Empty the fullest host by the commands of its plan, run by the openstack client."""
        host = self._fullest()
        plan = self._world.plan("drain", host)
        script = "set -e\n" + self._world.run("drain", host, "--commands")
        self._api.disable(host)
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                env=self._client(),
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT,
            )
        finally:
            self._api.disable(host, disabled=False)
        right = sum(self._api.host_of(move["instance"]) == move["to"] for move in plan["moves"])
        left = len(self._api.on(host))
        say(
            f"drain {host}: {plan['instances']} servers, {len(plan['moves'])} moves planned,"
            f" {right} on the planned host; {left} stay, {len(plan['without_place'])} by the plan;"
            f" the script ends with status {done.returncode}"
        )
        if done.returncode:
            say(done.stderr[-1000:])
        return not done.returncode and right == len(plan["moves"]) and left == len(plan["without_place"])

    def balance(self) -> bool:
        """Follow the moves of a balance."""
        plan = self._world.plan("balance", "--moves", "6")
        right = sum(self._follow(move) for move in plan["moves"])
        deviation = [plan[when]["memory_used_deviation_percent"] for when in ("before", "after")]
        say(
            f"balance: {len(plan['moves'])} moves planned, {right} ended on the planned host;"
            f" standard deviation of the memory in use {deviation[0]} % before, {deviation[1]} % planned"
        )
        return right == len(plan["moves"])

    def survive(self) -> bool:
        """Kill the fullest host of each cell in turn, and evacuate its servers through the API."""
        results = []
        for cell in sorted(set(self._layout.hosts.values())):
            host = self._fullest(cell)
            (answer,) = [each for each in self._world.plan("survive")["answers"] if each["domain"] == host]
            servers = self._api.on(host)
            self._services[host].kill()
            self._api.force_down(host)
            try:
                placed = sum(self._evacuated(server, host) for server in servers)
            finally:
                self._services.start(host)
                self._api.force_up(host)
            by_hand = sum(answer["by_hand"].values())
            say(
                f"survive {host}: {answer['instances']} servers, {answer['placed']} placed by the plan,"
                f" {by_hand} of them by hand, {placed} of {len(servers)} evacuated"
            )
            results.append(placed == answer["placed"] - by_hand and answer["instances"] == len(servers))
        return all(results)

    def capacity(self) -> bool:
        """Fill the cloud with servers of one flavor until there is no host for another."""
        planned = self._world.plan("capacity", "--flavor", FILLING)["instances"]
        with ThreadPoolExecutor(CALLERS) as pool:
            names = [f"{PREFIX}fill-{number}" for number in range(planned + 2)]
            booted = list(pool.map(lambda name: self._api.boot(name, FILLING), names))
        fit = sum(map(self._became_active, booted))
        say(f"capacity of {FILLING}: {planned} planned, {fit} of {len(booted)} became ACTIVE")
        self._api.delete_named(f"{PREFIX}fill-")
        return fit == planned

    # -- what these use

    def _follow(self, move: dict[str, Any]) -> bool:
        server, host = move["instance"], move["to"]
        if move["way"] == "live":
            self._api.act(server, "os-migrateLive", {"host": host, "block_migration": "auto"})
            self._api.wait(server, "ACTIVE", "PAUSED")
        else:
            self._api.act(server, "migrate", {"host": host})
            self._api.wait(server, "VERIFY_RESIZE")
            self._api.act(server, "confirmResize")
            self._api.wait(server, "SHUTOFF", "ACTIVE")
        return self._api.host_of(server) == host

    def _evacuated(self, server: str, host: str) -> bool:
        try:
            self._api.act(server, "evacuate", {})
            found = self._api.wait(server, "ACTIVE", "SHUTOFF")
        except (ApiError, NotReachedError) as error:
            say(str(error))
            return False
        return found["OS-EXT-SRV-ATTR:host"] != host

    def _became_active(self, server: str) -> bool:
        try:
            self._api.wait(server, "ACTIVE", patience=TIMEOUT)
        except NotReachedError:
            return False
        return True

    def _fullest(self, cell: str | None = None) -> str:
        hosts = [host for host, its in self._layout.hosts.items() if cell in {None, its}]
        return max(hosts, key=lambda host: len(self._api.on(host)))

    def _client(self) -> dict[str, str]:
        path = f"{self._layout.software / 'client' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**without, **self._layout.credentials(), "PATH": path}


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)
