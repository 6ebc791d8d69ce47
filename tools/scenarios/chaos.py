"""Load real schedulers on real servers, break one part after another, and compare replies with Placement."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
import itertools
import logging
import random
import time

from tools.rig import command, faults
from tools.rig.rounds import CALLERS, LONGEST, SHORTEST, Outcome, Rounds
from tools.rig.world import Daemon, RunningWorld, World
from tools.scenarios import flatness
from tools.scenarios.flatness import Sample

COLUMNS = ("requests", "answered", "refused", "lost", "wrong", "leaked")
#: What makes requests outlive a restart of the broker.
QUEUES = {
    "classic": "amqp_durable_queues = true\n",
    "quorum": "rabbit_quorum_queue = true\nrabbit_transient_quorum_queue = true\n",
}
PATIENCE = 90  # seconds that requests wait during an outage: a minute, and the start of a database server
MOST_PROBLEMS = 5  # lines of each round that are printed


def world(queues: str, hosts: int = 12) -> World:
    """Return what is broken: two daemons that reach servers of all kinds through proxies."""
    return World(
        hosts,
        databases="mixed",
        proxied=True,
        options=f"[berth]\noutage_patience = {PATIENCE}\n",
        queues=QUEUES[queues],
        daemons=tuple(
            Daemon(f"controller{number}", breakable=True, own_clock=number == 2) for number in (1, 2)
        ),
    )


def draw(names: Sequence[str], rounds: int | None, rng: random.Random) -> list[str]:
    """Return which faults to run: all of them in some order, again and again, up to so many rounds."""
    wanted = len(names) if rounds is None else rounds
    drawn: list[str] = []
    while len(drawn) < wanted:
        drawn += rng.sample(names, len(names))
    return drawn[:wanted]


def print_table(outcomes: Iterable[Outcome]) -> None:
    """Print one line for each fault: sums over its rounds, and the longest recovery."""
    by_fault: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_fault.setdefault(outcome.fault, []).append(outcome)
    rows = [*sorted(by_fault.items()), ("all", [each for rounds in by_fault.values() for each in rounds])]
    print(f"\n{'fault':26}", *(f"{title:>8}" for title in ("rounds", *COLUMNS, "back (s)", "tidy (s)")))
    for name, rounds in rows:
        sums = [len(rounds), *(sum(getattr(each, column) for each in rounds) for column in COLUMNS)]
        times = [max(each.recovery for each in rounds), max(each.settled for each in rounds)]
        cells = [*(f"{number:8}" for number in sums), *(f"{seconds:8.1f}" for seconds in times)]
        print(f"{name:26}", *cells, *([] if all(each.kept for each in rounds) else [" BROKEN"]))


def main(arguments: list[str] | None = None) -> int:
    """Run the rounds, print a line for each and a table; return 1 if a promise was broken."""
    options = _parse(arguments)
    drawn: Iterable[str] = draw(options.only or [*faults.CHAOS], options.rounds, random.Random(options.seed))
    watched = options.only == [faults.NOTHING] and options.rounds is None
    if watched:
        drawn = itertools.repeat(faults.NOTHING)
    with command.running("chaos", options.directory) as directory:
        logging.disable(logging.CRITICAL)  # of the callers' libraries, which tell of each lost connection
        started = time.monotonic()
        with RunningWorld(world(options.queues), directory) as cloud:
            seconds = time.monotonic() - started
            print(f"A cloud with {options.queues} queues, started in {seconds:.0f} s", flush=True)
            if not all(disk.mounted for disk in cloud.disks):
                print("No tmpfs can be mounted: no full disks")
            if not cloud.clock:
                print("There is no C compiler: no clock jumps")
            samples: list[Sample] = []
            rounds = run(cloud, Rounds(cloud, options.callers), faults.CHAOS, drawn, options)
            outcomes = list(_measured(cloud, rounds, samples))
            flat = not watched or is_flat(cloud, samples)
    print_table(outcomes)
    return 0 if flat and all(outcome.kept for outcome in outcomes) else 1


def is_flat(cloud: RunningWorld, samples: Sequence[Sample]) -> bool:
    """Print what grew without a fault, and the errors of the logs; return whether there is neither."""
    try:
        growths = flatness.judge(samples)
    except ValueError as error:
        print(f"Not judged: {error}")
        return False
    errors = [line for each in cloud.schedulers for line in each.text().splitlines() if " ERROR " in line]
    for line in (*growths, *errors[:MOST_PROBLEMS]):
        print(line)
    return all(each.flat for each in growths) and not errors


def run(
    cloud: RunningWorld,
    rounds: Rounds,
    makers: Mapping[str, faults.Maker],
    names: Iterable[str],
    options: argparse.Namespace,
) -> Iterator[Outcome]:
    """Run a round for each fault, as long as the time permits, and yield its outcome, which is printed.

    Raises:
        RuntimeError: A scheduler has ended.
    """
    end = time.monotonic() + options.minutes * 60
    for number, name in enumerate(names, 1):
        # of its own for each round: what a round draws does not depend on how many requests others sent
        rng = random.Random(f"{options.seed} {number} {name}")
        fault = makers[name](cloud, rng)
        if fault is None:
            continue
        if time.monotonic() > end:
            print(f"The time is over after {number - 1} rounds")
            return
        seconds = faults.LOST_FOR if "quorum" in name else options.seconds
        outcome = rounds.run(name, fault, rng, seconds or LONGEST, seconds or SHORTEST)
        print(
            f"{number:3} {name}: {outcome.answered} of {outcome.requests} answered,"
            f" as usual within {outcome.limit:.1f} s,"
            f" back after {outcome.recovery:.1f} s (at most {outcome.recovery_limit:.0f}),"
            f" tidy after {outcome.settled:.1f} s",
            flush=True,
        )
        for line in outcome.problems[:MOST_PROBLEMS]:
            print(f"      {line}", flush=True)
        yield outcome
        for scheduler in cloud.schedulers:
            if scheduler.status is not None:
                text = f"A scheduler has ended with status {scheduler.status}; see {scheduler.log}"
                raise RuntimeError(text)


def _measured(cloud: RunningWorld, outcomes: Iterable[Outcome], samples: list[Sample]) -> Iterator[Outcome]:
    """Take a sample after each round without a fault; else processes end while they are measured."""
    started, requests = time.monotonic(), 0
    for outcome in outcomes:
        requests += outcome.requests
        if outcome.fault == faults.NOTHING:
            pids = [each.pid for each in cloud.schedulers]
            samples.append(Sample.take(pids, requests, time.monotonic() - started))
        yield outcome


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/berth chaos", __doc__)
    parser.share(callers=CALLERS, minutes=240.0, seed=1, directory=None)
    parser.add("--rounds", None, "rounds to run (default: one for each fault)", type=int)
    only = {"action": "append", "choices": faults.CHAOS, "metavar": "FAULT"}
    text = f"this fault; may be repeated. {faults.NOTHING}: load for --minutes, and what grows meanwhile"
    parser.add("--only", None, text, **only)
    parser.add("--queues", "classic", "queues of the broker", choices=sorted(QUEUES))
    lasts = f"how long each fault lasts (default: {SHORTEST:g} to {LONGEST:g})"
    parser.add("--seconds", None, lasts, type=float)
    return parser.parse_args(arguments)
