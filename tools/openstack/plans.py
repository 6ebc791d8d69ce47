"""Plans of berth-plan, carried out: each situation, what is done with its plan, and what must hold then."""

import argparse
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
import contextlib
import itertools
import json
import os
from pathlib import Path
import random
import signal
import subprocess
import time
from typing import Any, NamedTuple

from tools.openstack.api import ERRORS, EVACUATED, Api
from tools.openstack.layout import Layout
from tools.openstack.programs import TIMEOUT, Done, berth, environment, run, run_berth, show_audits
from tools.openstack.services import Schedulers, Services
from tools.openstack.users import Users
from tools.rig.service import ANY

MODULE = "scheduler.operators.programs berth-plan"
PREFIX = "plans-"
#: Exit statuses of berth-plan.
DONE, STAY, INTERRUPTED, REFUSED, KILLED = 0, 3, 5, 255, -signal.SIGKILL
#: What servers of each kind are asked for with; a policy stands for a group that has it.
WISHES: Mapping[str, dict[str, Any]] = {
    "large": {"flavor": "large"},
    "zone": {"availability_zone": "az1"},
    "apart": {"policy": "anti-affinity"},
    "rather apart": {"policy": "soft-anti-affinity"},
}
#: How servers of a kind become what they are, and the state that they have then.
STATES = {
    "stopped": ("stop_server", "SHUTOFF"),
    "paused": ("pause_server", "PAUSED"),
    "suspended": ("suspend_server", "SUSPENDED"),
    "locked": ("lock_server", "ACTIVE"),
}
#: So large that a cloud is full soon.
FILLING = "quarter"
CALLERS = 4
KILLS = 6

Held = tuple[bool, str]


class Situation(NamedTuple):
    """A row of the table.

    Attributes:
        carry_out: Makes the plan and does what it says; returns whether what must hold holds, and a text.
        servers: Kinds of the servers on the host to be emptied; none: the cloud is filled with all kinds.
    """

    carry_out: Callable[["World"], Held]
    servers: tuple[str, ...] = ()


class Ended(NamedTuple):
    """A run of berth-plan that has ended."""

    status: int
    document: dict[str, Any]
    lines: list[str]


class Running:
    """A run of berth-plan that goes on."""

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


class World:
    """The cloud with servers of several kinds, one host of which is emptied, and berth-plan.

    Attributes:
        host: The host that is emptied.
        servers: Those that were booted, in order.
    """

    def __init__(self, layout: Layout, seed: int) -> None:
        """Describe it."""
        self.layout = layout
        self.api = Api(layout)
        self.services = Services(layout)
        self.random = random.Random(seed)
        self.host = min(layout.hosts)
        self.servers: list[str] = []
        self._groups: dict[str, str] = {}
        self._directory = layout.directory / "runs"

    # -- servers

    @contextlib.contextmanager
    def filled(self, number: int) -> Iterator[None]:
        """Boot servers of several kinds wherever the scheduler places them; delete them in the end."""
        kinds = list(itertools.islice(itertools.cycle(["active", *WISHES]), number))
        # As many members as hosts leave none to go to
        for index in [index for index, kind in enumerate(kinds) if kind == "apart"][
            len(self.layout.hosts) // 2 :
        ]:
            kinds[index] = "active"
        with self._cleaned():
            booted = self.boot(kinds, None)
            for server, kind in zip(self.random.sample(booted, 2), ("stopped", "paused"), strict=True):
                self._become(server, kind)
            yield

    @contextlib.contextmanager
    def with_servers(self, kinds: Sequence[str]) -> Iterator[None]:
        """Boot servers on the host, and delete them in the end; no kinds: the cloud is filled already."""
        with self._cleaned() if kinds else contextlib.nullcontext():
            if kinds:
                self.boot(kinds, self.host)
            else:
                self.host = self.fullest()
            yield

    def boot(self, kinds: Sequence[str], host: str | None, *, wait: bool = True) -> list[str]:
        """Boot servers on a host (members of groups and None: anywhere), and make of them what they are."""
        booted = []
        for kind in kinds:
            more = dict(WISHES.get(kind, {}))
            if policy := more.pop("policy", ""):
                more["scheduler_hints"] = {"group": self._group(policy)}
            elif host:
                more["host"] = host
            booted.append(self.api.boot(f"{PREFIX}{time.monotonic_ns()}", **more))
        self.servers += booted
        for server, kind in zip(booted, kinds, strict=True):
            if wait:
                self.api.wait(server, "ACTIVE")
                if kind in STATES:
                    self._become(server, kind)
        return booted

    def _become(self, server: str, kind: str) -> None:
        act, state = STATES[kind]
        getattr(self.api.compute, act)(server)
        self.api.wait(server, state)

    def _group(self, policy: str) -> str:
        if policy not in self._groups:
            made = self.api.compute.create_server_group(name=f"{PREFIX}{policy}", policy=policy)
            self._groups[policy] = made.id
        return self._groups[policy]

    @contextlib.contextmanager
    def _cleaned(self) -> Iterator[None]:
        self._clean()
        try:
            yield
        finally:
            self._clean()

    def _clean(self) -> None:
        self.api.delete_named(PREFIX)
        for group in self._groups.values():
            self.api.compute.delete_server_group(group)
        self._groups, self.servers = {}, []
        self._directory.mkdir(exist_ok=True)
        for file in self._directory.iterdir():
            file.unlink()
        self.api.disable(self.host, disabled=False)

    def fullest(self, cell: str | None = None) -> str:
        """Return the host with most servers, of a cell or of all."""
        hosts = [host for host, its in self.layout.hosts.items() if cell in {None, its}]
        return max(hosts, key=lambda host: len(self.api.on(host)))

    def whole(self) -> bool:
        """Return whether servers are in no error, and nothing waits for a confirmation."""
        found = [self.api.compute.get_server(server) for server in self.servers]
        return all(one.status not in {"ERROR", "VERIFY_RESIZE"} for one in found)

    def evacuated(self, server: str) -> bool:
        """Evacuate a server, and return whether that went well."""
        try:
            self.api.evacuate(server)
        except ERRORS as error:
            print(error, flush=True)
            return False
        return True

    # -- berth-plan

    def berth_plan(self, *words: str, allowed: Container[int] = (DONE, STAY)) -> Done:
        """Run berth-plan to its end; raises RuntimeError."""
        return run_berth(self.layout, MODULE, *words, allowed=allowed)

    def plan(self, *words: str) -> dict[str, Any]:
        """Return a plan of berth-plan; raises RuntimeError."""
        return json.loads(self.berth_plan(*words, "-f", "json").stdout)

    def survival(self, host: str) -> dict[str, Any]:
        """Return what the plan says of the loss of a host; raises RuntimeError."""
        (answer,) = [each for each in self.plan("survive")["answers"] if each["domain"] == host]
        return answer

    @contextlib.contextmanager
    def begun(self, *words: str) -> Iterator[Running]:
        """Start a run; it is killed in the end if it has not ended."""
        options = ["--run", "--state", self._state, "-f", "json"]
        command, variables = berth(self.layout, MODULE, *words, *options)
        output = self._directory / "output.json"
        with output.open("w") as opened:
            process = subprocess.Popen(
                command, env=variables, stdout=opened, stderr=subprocess.PIPE, text=True
            )
        try:
            yield Running(process, output)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def drain(self, *words: str) -> Ended:
        """Let a run empty the host."""
        with self.begun("drain", self.host, *words) as begun:
            return begun.end()

    def undone(self) -> tuple[int, bool]:
        """Undo the drain; return its status, and whether the host is enabled, or why it is not is said."""
        done = self.berth_plan("drain", self.host, "--undo", "--state", self._state, allowed=ANY)
        enabled = self.api.service(self.host).status == "enabled"
        return done.returncode, enabled or "another reason" in done.stdout

    def emptied(self, ended: Ended) -> Held:
        """Return whether a run has emptied the host, and what it says."""
        moved = sum(one["state"] == "moved" for one in ended.document.get("moves", ()))
        left = self.api.on(self.host)
        right = ended.status == DONE and not left and self.whole()
        text = f"status {ended.status}, {moved} moved, {len(left)} left"
        if not right:
            text += f": {ended.document.get('why')}\n" + "\n".join(ended.lines[-20:])
        return right and self.undone()[1], text

    @property
    def _state(self) -> str:
        return str(self._directory / "state.json")


def room(api: Api, number: int) -> int:
    """Boot so many servers of the flavor that fills; delete them, and return how many were ACTIVE."""
    with Users(api, CALLERS) as users:
        booted = [each for each in users.boot(f"{PREFIX}fill-", number, flavor=FILLING) if each]
    active = 0
    try:
        for server in booted:
            with contextlib.suppress(*ERRORS):
                active += bool(api.wait(server, "ACTIVE", patience=TIMEOUT))
    finally:
        api.delete(*booted)
    return active


# -- what is done with a plan


def by_commands(world: World) -> Held:
    """The commands of the plan, run by the openstack client, empty the host."""
    plan = world.plan("drain", world.host)
    script = "set -e\n" + world.berth_plan("drain", world.host, "--commands").stdout
    path = f"{world.layout.software / 'client' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    client = environment(**world.layout.credentials(), PATH=path)
    world.api.disable(world.host)
    try:
        done = run("bash", "-c", script, variables=client, allowed=ANY)
    finally:
        world.api.disable(world.host, disabled=False)
    planned, stay = len(plan["moves"]), len(plan["without_place"])
    right = sum(world.api.host_of(move["instance"]) == move["to"] for move in plan["moves"])
    left = len(world.api.on(world.host))
    text = (
        f"{plan['instances']} servers on {world.host}, {planned} moves planned, {right} on the planned host;"
        f" {left} stay, {stay} by the plan; the script ends with status {done.returncode}"
        f"{': ' + done.stderr[-1000:] if done.returncode else ''}"
    )
    return not done.returncode and right == planned and left == stay, text


def by_moves(world: World) -> Held:
    """Each move of a balance ends on its host."""
    plan = world.plan("balance", "--moves", "6")
    right = 0
    for move in plan["moves"]:
        act = world.api.live_migrate if move["way"] == "live" else world.api.migrate
        right += act(move["instance"], move["to"]).compute_host == move["to"]
    before, after = (plan[when]["memory_used_deviation_percent"] for when in ("before", "after"))
    text = (
        f"{len(plan['moves'])} moves planned, {right} ended on the planned host;"
        f" standard deviation of the memory in use {before} % before, {after} % planned"
    )
    return right == len(plan["moves"]), text


def lost(world: World) -> Held:
    """The fullest host of each cell is killed: as many servers are evacuated as the plan says."""
    right, texts = True, []
    for cell in sorted(set(world.layout.hosts.values())):
        host = world.fullest(cell)
        answer, servers = world.survival(host), world.api.on(host)
        with world.services.dead(host, world.api):
            evacuated = sum(map(world.evacuated, servers))
        by_hand = sum(answer["by_hand"].values())
        right &= evacuated == answer["placed"] - by_hand and answer["instances"] == len(servers)
        texts.append(
            f"{host}: {answer['instances']} servers, {answer['placed']} placed by the plan,"
            f" {by_hand} of them by hand, {evacuated} of {len(servers)} evacuated"
        )
    return right, "; ".join(texts)


def evacuated(world: World) -> Held:
    """A run that evacuates is refused while the host is up; then it empties it, at last with reset states."""
    by_hand = sum(world.survival(world.host)["by_hand"].values())
    alive = world.drain("--evacuate").status
    with world.services.dead(world.host, world.api):
        plain = world.drain().status
        first = world.drain("--evacuate")
        stays, left = [one["why"] for one in first.document["stays"]], len(world.api.on(world.host))
        second = world.drain("--evacuate", "--reset-states")
        last = len(world.api.on(world.host))
    status, enabled = world.undone()
    text = (
        f"{by_hand} servers by hand; status {alive} while {world.host} was up, {plain} without --evacuate;"
        f" {first.status} with {left} left {stays}; {second.status} with --reset-states, {last} left;"
        f" {status} of --undo"
    )
    for each in (first, second):
        text += "\n".join(["", *each.lines[-20:]]) if each.status not in {DONE, STAY} else ""
    held = (alive, plain, first.status, left, len(stays), second.status, last, status)
    wanted = (REFUSED, REFUSED, STAY if by_hand else DONE, by_hand, by_hand, DONE, 0, DONE)
    return held == wanted and enabled and world.whole(), text


def less_room(world: World) -> Held:
    """Without the host that matters most as many more fit as the plan says; without another, no fewer."""
    (planned,) = [one for one in world.plan("capacity", "--all")["flavors"] if one["flavor"] == FILLING]
    worst, headroom = planned["worst_loss"], planned["headroom"]
    other = max(world.layout.hosts, key=lambda host: (host != worst, host))
    fit = {host: _room_without(world, host, headroom + 4) for host in (worst, other)}
    text = (
        f"after the loss of the host that matters most, {worst}: {headroom} of {FILLING} planned,"
        f" {fit[worst]} became ACTIVE; after the loss of {other}: {fit[other]}"
    )
    return fit[worst] == headroom <= fit[other], text


def _room_without(world: World, host: str, number: int) -> int:
    """Return how many servers fit after a host is lost and all its servers are evacuated."""
    order = [move["instance"] for move in world.plan("drain", host)["moves"]]
    servers = sorted(world.api.on(host), key=lambda each: order.index(each) if each in order else -1)
    with world.services.dead(host, world.api):
        for server in servers:
            if world.api.compute.get_server(server).status not in EVACUATED:
                world.api.compute.reset_server_state(server, "error")
            if not world.evacuated(server):
                print(f"server {server} has no place after the loss of {host}", flush=True)
        return room(world.api, number)


def full(world: World) -> Held:
    """As many servers of a flavor become ACTIVE as the plan says, and no more."""
    planned = world.plan("capacity", "--flavor", FILLING)["instances"]
    fit = room(world.api, planned + 2)
    return fit == planned, f"{planned} of {FILLING} planned, {fit} became ACTIVE"


def drained(world: World) -> Held:
    """The host is empty."""
    return world.emptied(world.drain("--parallel", "2"))


def created(world: World) -> Held:
    """A server that is created on the host while it is emptied is moved too."""
    with world.begun("drain", world.host) as begun:
        begun.wait_for("moved")
        world.api.disable(world.host, disabled=False)
        (new,) = world.boot(["active"], world.host, wait=False)
        ended = begun.end()
    right, text = world.emptied(ended)
    return right and world.api.host_of(new) != world.host, text


def refused(world: World) -> Held:
    """Nova moves no suspended server: it stays, with the reason."""
    ended = world.drain()
    stays = world.servers[-1]
    whys = {one["instance"]: one["why"] for one in ended.document["stays"]}
    alone = world.api.on(world.host) == [stays]
    right = ended.status == STAY and alone and "suspended" in whys.get(stays, "")
    return right and world.undone()[1], f"status {ended.status}, {whys}, {len(world.api.on(world.host))} left"


def planned_again(world: World) -> Held:
    """The host of the last move takes no more servers by then: the rest is planned again."""
    last = world.plan("drain", world.host)["moves"][-1]["to"]
    with world.begun("drain", world.host) as begun:
        begun.wait_for("disabled")
        world.api.disable(last)
        ended = begun.end()
    world.api.disable(last, disabled=False)
    right, text = world.emptied(ended)
    refused = sum(line.startswith(("refused", "failed")) for line in ended.lines)
    return right, f"{text}; {refused} refused"


def killed(world: World) -> Held:
    """The command is killed again and again, and started again: the host is empty in the end."""
    kills = 0
    while True:
        with world.begun("drain", world.host) as begun:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if kills < KILLS:
                    begun.wait_for("disabled", "continuing", "moved")
                begun.process.wait(world.random.uniform(0.1, 6.0) if kills < KILLS else TIMEOUT)
            if begun.process.poll() is None:
                begun.process.kill()
                kills += 1
            ended = begun.end()
        if ended.status != KILLED:
            break
    right, text = world.emptied(ended)
    return right and kills > 1, f"{text}; killed {kills} times"


def interrupted(world: World) -> Held:
    """Ctrl-C lets the open move end; the same command goes on."""
    with world.begun("drain", world.host) as begun:
        begun.wait_for("moved")
        begun.process.send_signal(signal.SIGINT)
        first = begun.end()
    open_ = [one for one in first.document["moves"] if one["state"] == "requested"]
    left = len(world.api.on(world.host))
    right, text = world.emptied(world.drain())
    said = first.status == INTERRUPTED and not open_ and left == len(first.document["left"]) > 0
    return right and said, f"status {first.status} with {left} left, then {text}"


def balanced(world: World) -> Held:
    """A run of a balance makes moves, each to its host."""
    with world.begun("balance", "--moves", "3") as begun:
        ended = begun.end()
    moved = [one for one in ended.document["moves"] if one["state"] == "moved"]
    right = all(world.api.host_of(one["instance"]) == one["to"] for one in moved)
    return right and ended.status == DONE and bool(moved), f"status {ended.status}, {len(moved)} moved"


PLANS = {
    "drain": Situation(by_commands),
    "balance": Situation(by_moves),
    "survive": Situation(lost),
    "run": Situation(evacuated),
    "loss": Situation(less_room),
    "capacity": Situation(full),
}
#: ``berth-plan --run``.
RUNS = {
    "kinds": Situation(drained, ("active",) * 2 + ("apart",) * 2 + ("stopped", "paused", "locked")),
    "created": Situation(created, ("active",) * 4),
    "refused": Situation(refused, ("active",) * 2 + ("suspended",)),
    "full": Situation(planned_again, ("active",) * 4),
    "killed": Situation(killed, ("active",) * 3 + ("stopped",) * 3),
    "ctrl-c": Situation(interrupted, ("active",) * 4),
    "dead": Situation(evacuated, ("active",) * 2 + ("stopped", "paused")),
    "balance": Situation(balanced, ("active",) * 6),
}
SITUATIONS = {"plans": PLANS, "runs": RUNS}


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Carry plans out, each in its situation; return 1 if one does not come true."""
    Schedulers(layout).replace("berth")
    world, table, failed = World(layout, options.seed), SITUATIONS[options.command], []
    with world.filled(options.servers) if options.command == "plans" else contextlib.nullcontext():
        for name in options.only or table:
            begun = time.monotonic()
            with world.with_servers(table[name].servers):
                right, text = table[name].carry_out(world)
            failed += [] if right else [name]
            ended = f"{time.monotonic() - begun:.0f} s" + ("" if right else "  NOT AS PROMISED")
            print(f"{name}: {text}; {ended}", flush=True)
    print(f"did not come true: {', '.join(failed)}" if failed else "each plan came true", flush=True)
    return 0 if show_audits(layout) and not failed else 1
