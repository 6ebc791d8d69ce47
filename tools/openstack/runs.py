"""``berth-plan --run``: servers of several kinds, interruptions, kills, refusals, and changes by others."""

import argparse
from collections.abc import Iterator
import contextlib
import json
from pathlib import Path
import random
import signal
import subprocess
import time
from typing import Any, NamedTuple

from tools.openstack import planned_cloud
from tools.openstack.api import Api
from tools.openstack.audits import show_audits
from tools.openstack.layout import Layout
from tools.openstack.planned_cloud import TIMEOUT, berth_plan
from tools.openstack.schedulers import Schedulers
from tools.openstack.services import Services

PREFIX = "runs-"
RUNS = ("kinds", "created", "refused", "full", "killed", "ctrl-c", "dead", "balance")

#: Exit statuses of berth-plan.
DONE, STAY, INTERRUPTED, KILLED = 0, 3, 5, -signal.SIGKILL


class Ended(NamedTuple):
    """A run of berth-plan that has ended."""

    status: int
    document: dict[str, Any]
    lines: list[str]


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Drain hosts with --run, and return 1 if one does not end empty or with the reason."""
    Schedulers(layout).replace("berth")
    runs = Runs(layout, options.seed)
    failed = []
    for name in options.only or RUNS:
        begun = time.monotonic()
        right, text = runs.one(name)
        print(
            f"{name}: {text}; {time.monotonic() - begun:.0f} s" + ("" if right else "  NOT AS PROMISED"),
            flush=True,
        )
        failed += [] if right else [name]
    return 0 if show_audits(layout) and not failed else 1


class Runs:
    """Drains of a cloud, each with servers of its own."""

    def __init__(self, layout: Layout, seed: int) -> None:
        """Describe them."""
        self._layout = layout
        self._api = Api(layout)
        self._services = Services(layout)
        self._random = random.Random(seed)
        self._states = layout.directory / "runs"
        self._host = min(layout.hosts)

    def one(self, name: str) -> tuple[bool, str]:
        """Carry one out, and return whether it is as promised, and what came out."""
        self._clean()
        try:
            return {
                "kinds": self._kinds,
                "created": self._created,
                "refused": self._refused,
                "full": self._full,
                "killed": self._killed,
                "ctrl-c": self._ctrl_c,
                "dead": self._dead,
                "balance": self._balance,
            }[name]()
        finally:
            self._clean()

    # -- the runs

    def _kinds(self) -> tuple[bool, str]:
        """Active, stopped, paused and locked servers, and members of a group."""
        group = self._api.make_group(f"{PREFIX}group", "anti-affinity")
        servers = [
            *self._boot(2),
            *self._boot(2, hints={"group": group}, at=None),
            *self._boot(1, state="stopped"),
            *self._boot(1, state="paused"),
        ]
        locked = self._boot(1)
        self._api.act(locked[0], "lock")
        ended = self._run("drain", "--parallel", "2")
        self._api.delete_group(group)
        return self._emptied(ended, [*servers, *locked])

    def _created(self) -> tuple[bool, str]:
        """A server is created on the host while it is emptied."""
        self._boot(4)
        with self._begun("drain") as run:
            run.wait_for("moved")
            self._api.disable(self._host, disabled=False)
            (new,) = self._boot(1, wait=False)
            ended = run.end()
        right, text = self._emptied(ended, [new])
        return right and self._api.host_of(new) != self._host, text

    def _refused(self) -> tuple[bool, str]:
        """Nova moves no suspended server: it stays, with the reason."""
        self._boot(2)
        (stays,) = self._boot(1, state="suspended")
        ended = self._run("drain")
        whys = {one["instance"]: one["why"] for one in ended.document["stays"]}
        right = (
            ended.status == STAY
            and self._api.on(self._host) == [stays]
            and "suspended" in whys.get(stays, "")
        )
        return right and self._undone(), f"status {ended.status}, {whys}"

    def _full(self) -> tuple[bool, str]:
        """The host of the last move takes no more servers by then: the rest is planned again."""
        servers = self._boot(4)
        plan = json.loads(berth_plan(self._layout, "drain", self._host, "-f", "json").stdout)
        last = plan["moves"][-1]["to"]
        with self._begun("drain") as run:
            run.wait_for("disabled")
            self._api.disable(last)
            ended = run.end()
        self._api.disable(last, disabled=False)
        right, text = self._emptied(ended, servers)
        refused = sum(line.startswith(("refused", "planning again")) for line in ended.lines)
        return right, f"{text}; {refused} refused"

    def _killed(self) -> tuple[bool, str]:
        """The command is killed again and again, and started again."""
        servers = [*self._boot(3), *self._boot(3, state="stopped")]
        kills = 0
        while True:
            with self._begun("drain") as run:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    if kills < 6:
                        run.wait_for("disabled", "continuing", "moved")
                        run.process.wait(self._random.uniform(0.1, 6.0))
                    else:
                        run.process.wait(TIMEOUT)
                if run.process.poll() is None:
                    run.process.kill()
                    kills += 1
                ended = run.end()
            if ended.status != KILLED:
                break
        right, text = self._emptied(ended, servers)
        return right and kills > 1, f"{text}; killed {kills} times"

    def _ctrl_c(self) -> tuple[bool, str]:
        """Ctrl-C lets the open move end; the same command goes on."""
        servers = self._boot(4)
        with self._begun("drain") as run:
            run.wait_for("moved")
            run.process.send_signal(signal.SIGINT)
            first = run.end()
        open_ = [one for one in first.document["moves"] if one["state"] in {"requested", "confirming"}]
        left = len(self._api.on(self._host))
        right, text = self._emptied(self._run("drain"), servers)
        said = first.status == INTERRUPTED and not open_ and left == len(first.document["left"]) > 0
        return right and said, f"status {first.status} with {left} left, then {text}"

    def _dead(self) -> tuple[bool, str]:
        """The host is down: first refused, then evacuated, in the end with states that are reset."""
        servers = [*self._boot(2), *self._boot(1, state="stopped"), *self._boot(1, state="paused")]
        self._services[self._host].kill()
        self._api.force_down(self._host)
        try:
            refused = berth_plan(
                self._layout, "drain", self._host, "--run", "--state", str(self._state())
            ).returncode
            first = self._run("drain", "--evacuate")
            stays = [one["why"] for one in first.document["stays"]]
            second = self._run("drain", "--evacuate", "--reset-states")
            left = self._api.on(self._host)
        finally:
            self._services.start(self._host)
            self._api.force_up(self._host)
        right = (refused, first.status, len(stays), second.status, left) == (255, STAY, 1, DONE, [])
        text = f"refused with {refused}; evacuated with {first.status}, {stays}; with a reset {second.status}"
        return right and self._undone() and self._whole(servers), text

    def _balance(self) -> tuple[bool, str]:
        """Moves that help."""
        self._boot(6)
        ended = self._run("balance", "--moves", "3")
        moved = [one for one in ended.document["moves"] if one["state"] == "moved"]
        right = all(self._api.host_of(one["instance"]) == one["to"] for one in moved)
        return right and ended.status == DONE and bool(moved), f"status {ended.status}, {len(moved)} moved"

    # -- what these use

    def _emptied(self, ended: Ended, servers: list[str]) -> tuple[bool, str]:
        moved = sum(one["state"] == "moved" for one in ended.document.get("moves", ()))
        left = self._api.on(self._host)
        right = ended.status == DONE and not left and self._whole(servers)
        text = f"status {ended.status}, {moved} moved, {len(left)} left"
        if not right:
            text += f": {ended.document.get('why')}\n" + "\n".join(ended.lines[-20:])
        return right and self._undone(), text

    def _whole(self, servers: list[str]) -> bool:
        """Whether servers are in no error, and nothing waits for a confirmation."""
        found = [self._api.server(server) for server in servers]
        return all(one["status"] not in {"ERROR", "VERIFY_RESIZE"} for one in found)

    def _undone(self) -> bool:
        done = berth_plan(self._layout, "drain", self._host, "--undo", "--state", str(self._state()))
        (service,) = [one for one in self._api.services() if one["host"] == self._host]
        return service["status"] == "enabled" or "another reason" in done.stdout

    def _boot(
        self, number: int, *, state: str = "active", at: str | None = "", wait: bool = True, **more: Any
    ) -> list[str]:
        """Boot servers on the host (``at`` None: anywhere), and bring them into a state."""
        where = {} if at is None else {"host": at or self._host}
        booted = [self._api.boot(f"{PREFIX}{time.monotonic_ns()}", **where, **more) for _ in range(number)]
        action = {"stopped": "os-stop", "paused": "pause", "suspended": "suspend"}.get(state)
        for server in booted if wait else ():
            self._api.wait(server, "ACTIVE")
            if action:
                self._api.act(server, action)
                self._api.wait(server, {"stopped": "SHUTOFF"}.get(state, state.upper()))
        return booted

    def _clean(self) -> None:
        self._api.delete_named(PREFIX)
        self._states.mkdir(exist_ok=True)
        for file in self._states.iterdir():
            file.unlink()
        self._api.disable(self._host, disabled=False)

    def _state(self) -> Path:
        return self._states / "state.jsonl"

    def _run(self, plan: str, *words: str) -> Ended:
        with self._begun(plan, *words) as run:
            return run.end()

    @contextlib.contextmanager
    def _begun(self, plan: str, *words: str) -> "Iterator[_Process]":
        """Start a run of the host; it is killed in the end if it has not ended."""
        host = [] if plan == "balance" else [self._host]
        options = ["--run", "--state", str(self._state()), "-f", "json", *words]
        command = planned_cloud.command_line(self._layout, plan, *host, *options)
        output = self._states / "output.json"
        with output.open("w") as opened:
            process = subprocess.Popen(
                command,
                env=planned_cloud.environment(self._layout),
                stdout=opened,
                stderr=subprocess.PIPE,
                text=True,
            )
        try:
            yield _Process(process, output)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


class _Process:
    """A run that goes on."""

    def __init__(self, process: "subprocess.Popen[str]", output: Path) -> None:
        self.process = process
        self._output = output
        self._lines: list[str] = []

    def wait_for(self, *words: str) -> None:
        """Wait until a line begins with one of some words, or the run has ended."""
        for line in self.process.stderr or ():
            self._lines.append(line.rstrip())
            if line.startswith(words):
                return

    def end(self) -> Ended:
        """Wait until the run has ended."""
        _, errors = self.process.communicate(timeout=TIMEOUT)
        self._lines += errors.splitlines()
        text = self._output.read_text()
        return Ended(self.process.returncode, json.loads(text) if text else {}, self._lines)
