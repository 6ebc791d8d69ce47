"""Servers of several kinds for plans to move, and berth-plan."""

from collections.abc import Iterator
import contextlib
import json
import random
import subprocess
from typing import Any

from tools.openstack.api import Api
from tools.openstack.layout import Layout
from tools.openstack.schedulers import Schedulers
from tools.rig.service import command_of, environment_of_berth

MODULE = "scheduler.operators.plan.main"
TIMEOUT = 900
PREFIX = "plans-"


class PlannedCloud:
    """The cloud with servers whose names begin with ``PREFIX``."""

    def __init__(self, layout: Layout, seed: int) -> None:
        """Describe it; ``servers`` fills it."""
        self._layout = layout
        self._api = Api(layout)
        self._random = random.Random(seed)

    @contextlib.contextmanager
    def servers(self, number: int) -> Iterator[None]:
        """Boot servers of several kinds: in a zone, in groups, stopped, paused; delete them in the end."""
        self._api.delete_named(PREFIX)
        policies = ("anti-affinity", "soft-anti-affinity")
        groups = [self._api.make_group(f"{PREFIX}{policy}", policy) for policy in policies]
        kinds: list[dict[str, Any]] = [
            {},
            {"flavor": "large"},
            {"availability_zone": "az1"},
            {"hints": {"group": groups[0]}},
            {"hints": {"group": groups[1]}},
        ]
        chosen = [kinds[index % len(kinds)] for index in range(number)]
        # As many members as hosts leave none to go to
        members = 0
        for index, kind in enumerate(chosen):
            members += kind is kinds[3]
            if kind is kinds[3] and members > len(self._layout.hosts) // 2:
                chosen[index] = kinds[0]
        try:
            booted = [self._api.boot(f"{PREFIX}{index}", **kind) for index, kind in enumerate(chosen)]
            for server in booted:
                self._api.wait(server, "ACTIVE")
            for server, action, state in zip(
                self._random.sample(booted, 2), ("os-stop", "pause"), ("SHUTOFF", "PAUSED"), strict=True
            ):
                self._api.act(server, action)
                self._api.wait(server, state)
            yield
        finally:
            self._api.delete_named(PREFIX)
            for group in groups:
                self._api.delete_group(group)

    def fullest(self, cell: str | None = None) -> str:
        """Return the host with most servers, of a cell or of all."""
        hosts = [host for host, its in self._layout.hosts.items() if cell in {None, its}]
        return max(hosts, key=lambda host: len(self._api.on(host)))

    def plan(self, *words: str) -> dict[str, Any]:
        """Return a plan of berth-plan; raises as ``run``."""
        return json.loads(self.run(*words, "-f", "json"))

    def run(self, *words: str) -> str:
        """Run berth-plan, and return what it prints; raises RuntimeError."""
        done = berth_plan(self._layout, *words)
        if done.returncode not in {0, 3}:
            raise RuntimeError(
                f"berth-plan {' '.join(words)} ends with {done.returncode}: {done.stderr[-1000:]}"
            )
        return done.stdout


def command_line(layout: Layout, *words: str) -> list[str]:
    """Return the words that start berth-plan."""
    return [*map(str, command_of(MODULE, Schedulers(layout).config_file)), *words]


def environment(layout: Layout) -> dict[str, str]:
    """Return the environment of berth-plan, which has the credentials of the cloud."""
    return {**environment_of_berth(), **layout.credentials()}


def berth_plan(layout: Layout, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run berth-plan to its end, whatever its status is."""
    return subprocess.run(
        command_line(layout, *words),
        env=environment(layout),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)
