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
        self._config_file = Schedulers(layout).config_file

    @contextlib.contextmanager
    def servers(self, number: int) -> Iterator[None]:
        """Boot servers of several kinds: in a zone, in groups, stopped, paused; delete them in the end."""
        self.delete(PREFIX)
        groups = [self._group(policy) for policy in ("anti-affinity", "soft-anti-affinity")]
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
            self.delete(PREFIX)
            for group in groups:
                self._api.compute("DELETE", f"/os-server-groups/{group}")

    def on(self, host: str) -> list[str]:
        """Return the servers of a host."""
        return [each["id"] for each in self._api.servers(host=host)]

    def delete(self, prefix: str) -> None:
        """Delete the servers whose names begin so."""
        self._api.delete(*(each["id"] for each in self._api.servers(name=prefix)))

    def plan(self, *words: str) -> dict[str, Any]:
        """Return a plan of berth-plan; raises as ``run``."""
        return json.loads(self.run(*words, "-f", "json"))

    def run(self, *words: str) -> str:
        """Run berth-plan, and return what it prints; raises RuntimeError."""
        done = subprocess.run(
            [*map(str, command_of(MODULE, self._config_file)), *words],
            env=environment_of_berth(),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        if done.returncode not in {0, 3}:
            raise RuntimeError(
                f"berth-plan {' '.join(words)} ends with {done.returncode}: {done.stderr[-1000:]}"
            )
        return done.stdout

    def _group(self, policy: str) -> str:
        body = {"server_group": {"name": f"{PREFIX}{policy}", "policy": policy}}
        return self._api.compute("POST", "/os-server-groups", body)["server_group"]["id"]
