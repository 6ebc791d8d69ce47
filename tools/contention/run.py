"""One contention run, and the command line."""

import argparse
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
import logging
import random
import tempfile
import threading

from tools.contention.actors import (
    FREE_SHARE,
    Actor,
    BerthCaller,
    Deleter,
    Findings,
    Looker,
    OutsideClaimer,
    Scene,
)
from tools.contention.cloud import ContentionCloud
from tools.contention.history import History
from tools.rig import servers, truth

SERVERS = {"mariadb": servers.mariadb, "postgresql": servers.postgresql}


@dataclass(frozen=True)
class Plan:
    """What a run does.

    Attributes:
        seconds: How long it takes.
        hosts: Number of hosts.
        callers: Threads that ask Berth.
        claimers: Threads that claim on their own.
        deleters: Threads that delete.
        seed: Determines the choices of the threads; not their order.
    """

    seconds: float
    hosts: int = 10
    callers: int = 6
    claimers: int = 1
    deleters: int = 2
    seed: int = 1


def run(server: str, plan: Plan) -> Findings:
    """Run on a database server (the URL of a user who may create databases), and return what was found."""
    history, findings = History(), Findings()
    with (
        tempfile.TemporaryDirectory(prefix="berth-contention-") as directory,
        ContentionCloud(server, directory, plan.hosts) as cloud,
    ):
        with cloud.scheduler() as manager:
            _run_actors(Scene(cloud, manager, history, findings), plan)
        for line in truth.check_database(cloud.placement_database, history.expected()).problems:
            findings.add_problem(line)
    return findings


def _run_actors(scene: Scene, plan: Plan) -> None:
    filling = OutsideClaimer(scene, random.Random(plan.seed))
    while scene.free_share() > FREE_SHARE:
        filling.act()
    kinds = [BerthCaller] * plan.callers + [OutsideClaimer] * plan.claimers + [Deleter] * plan.deleters
    actors = [
        kind(scene, random.Random(f"{plan.seed} {kind.__name__} {number}"))
        for number, kind in enumerate([*kinds, Looker])
    ]
    _act(actors, plan.seconds)


def _act(actors: Iterable[Actor], seconds: float) -> None:
    """Let all actors act for so long, or until one fails.

    Raises:
        Exception: What an actor failed with.
    """
    actors, stop = list(actors), threading.Event()

    def loop(actor: Actor) -> None:
        try:
            while not stop.is_set():
                actor.act()
        finally:
            stop.set()

    with ThreadPoolExecutor(len(actors)) as pool:
        threads = [pool.submit(loop, actor) for actor in actors]
        stop.wait(seconds)
        stop.set()
    for thread in threads:
        thread.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run on each server; return 1 if something is wrong."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.ERROR)
    wrong = 0
    plan = Plan(options.seconds, options.hosts, seed=options.seed)
    for kind in options.servers:
        with SERVERS[kind]() as server:
            findings = run(server.url, plan)
        wrong += len(findings.problems)
        print(kind)
        for name, number in sorted(findings.outcomes.items()):
            print(f"  {number:7} {name}")
        for line in findings.problems:
            print(f"  WRONG: {line}")
    return 1 if wrong else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/benchmark contention", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="seconds for each (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=10, help="compute hosts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", nargs="+", default=list(SERVERS), choices=SERVERS)
    return parser.parse_args(arguments)
