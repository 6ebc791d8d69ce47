"""Plans carried out: what berth-plan says, and what nova then does when it is done."""

import argparse
from collections.abc import Callable
import os
import subprocess
from typing import Any

from tools.openstack.api import Api
from tools.openstack.audits import show_audits
from tools.openstack.layout import Layout
from tools.openstack.lost_hosts import FILLING, LostHosts, filled
from tools.openstack.planned_cloud import TIMEOUT, PlannedCloud, say
from tools.openstack.schedulers import Schedulers

PLANS = ("drain", "balance", "survive", "run", "loss", "capacity")


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Carry out the chosen plans on a cloud with servers; return 1 if one does not come true."""
    Schedulers(layout).replace("berth")
    world = PlannedCloud(layout, options.seed)
    with world.servers(options.servers):
        results = {name: plans_of(layout, world)[name]() for name in options.only or PLANS}
    failed = [name for name, right in results.items() if not right]
    say(f"did not come true: {', '.join(failed)}" if failed else "each plan came true")
    return 0 if show_audits(layout) and not failed else 1


def plans_of(layout: Layout, world: PlannedCloud) -> dict[str, Callable[[], bool]]:
    """Return what carries out each plan, by its name."""
    plans, lost = Plans(layout, world), LostHosts(layout, world)
    every = (plans.drain, plans.balance, lost.survive, lost.run, lost.loss, plans.capacity)
    return dict(zip(PLANS, every, strict=True))


class Plans:
    """Plans of a cloud, each followed to its end."""

    def __init__(self, layout: Layout, world: PlannedCloud) -> None:
        """Describe them for a cloud that is filled."""
        self._layout = layout
        self._api = Api(layout)
        self._world = world

    def drain(self) -> bool:
        """Empty the fullest host by the commands of its plan, run by the openstack client."""
        host = self._world.fullest()
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

    def capacity(self) -> bool:
        """Fill the cloud with servers of one flavor until there is no host for another."""
        planned = self._world.plan("capacity", "--flavor", FILLING)["instances"]
        fit = filled(self._api, planned + 2)
        say(f"capacity of {FILLING}: {planned} planned, {fit} became ACTIVE")
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

    def _client(self) -> dict[str, str]:
        path = f"{self._layout.software / 'client' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**without, **self._layout.credentials(), "PATH": path}
