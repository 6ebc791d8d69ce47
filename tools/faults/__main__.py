"""The command line of chaos: draw faults by seed, run a round for each, and print a table."""

import argparse
from collections.abc import Iterable, Sequence
import contextlib
import dataclasses
import logging
from pathlib import Path
import random
import sys
import tempfile
import time

from tools.faults.load import CALLERS
from tools.faults.rounds import LONGEST, RECOVERY_LIMIT, SHORTEST, Outcome, Rounds
from tools.rig import faults, servers
from tools.rig.chaos_cloud import QUEUES, ChaosCloud

COLUMNS = ("requests", "answered", "refused", "lost", "wrong", "leaked")
MOST_PROBLEMS = 5  # lines of each round that are printed


def main(arguments: list[str] | None = None) -> int:
    """Run the rounds, print a line for each and a table; return 1 if a promise was broken."""
    options = _parse(arguments)
    servers.stop_on_sigterm()
    logging.disable(logging.CRITICAL)  # of the callers' libraries, which tell of each lost connection
    drawn = draw(options.only or list(faults.NAMES), options.rounds, random.Random(options.seed))
    with contextlib.ExitStack() as stack:
        directory = options.directory or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="berth-chaos-")
        )
        started = time.monotonic()
        cloud = stack.enter_context(ChaosCloud(directory, options.queues))
        seconds = time.monotonic() - started
        print(f"A cloud with {options.queues} queues, started in {seconds:.0f} s", flush=True)
        print_conditions(cloud)
        outcomes = list(_run(cloud, drawn, options))
    print_table(outcomes)
    return 0 if all(outcome.kept for outcome in outcomes) else 1


def draw(names: Sequence[str], rounds: int | None, rng: random.Random) -> list[str]:
    """Return which faults to run: all of them in some order, again and again, up to so many rounds."""
    wanted = len(names) if rounds is None else rounds
    drawn: list[str] = []
    while len(drawn) < wanted:
        drawn += rng.sample(names, len(names))
    return drawn[:wanted]


def print_conditions(cloud: ChaosCloud) -> None:
    """Print what this machine cannot do."""
    if not all(disk.mounted for disk in cloud.disks):
        print("No tmpfs can be mounted: a limit for the size of files stands in for a full disk")
    if not cloud.clock:
        print("There is no C compiler: no clock jumps")


def print_table(outcomes: Iterable[Outcome]) -> None:
    """Print one line for each fault: sums over its rounds, and the longest recovery."""
    by_fault: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_fault.setdefault(outcome.fault, []).append(outcome)
    titles = [f"{title:>8}" for title in ("rounds", *COLUMNS, "back (s)", "tidy (s)")]
    print(f"\n{'fault':26}{' '.join(titles)}")
    for fault, rounds in sorted(by_fault.items()):
        print(_row(fault, rounds))
    print(_row("all", [outcome for rounds in by_fault.values() for outcome in rounds]))


def _row(name: str, rounds: Sequence[Outcome]) -> str:
    sums = [sum(dataclasses.asdict(outcome)[column] for outcome in rounds) for column in COLUMNS]
    times = [max(getattr(outcome, field) for outcome in rounds) for field in ("recovery", "settled")]
    cells = [f"{number:8}" for number in (len(rounds), *sums)] + [f"{seconds:8.1f}" for seconds in times]
    return f"{name:26}{' '.join(cells)}{'' if all(outcome.kept for outcome in rounds) else '  BROKEN'}"


def _run(cloud: ChaosCloud, drawn: Sequence[str], options: argparse.Namespace) -> Iterable[Outcome]:
    for number, name in enumerate(drawn):
        # of its own for each round: what a round draws does not depend on how many requests others sent
        rng = random.Random(f"{options.seed} {number} {name}")
        fault = faults.make(name, cloud, rng)
        if fault is None:
            continue
        rounds = Rounds(cloud, rng, options.callers)
        outcome = rounds.run(name, fault, options.seconds or LONGEST, options.seconds or SHORTEST)
        yield outcome
        _print_round(number, outcome)
        for scheduler in cloud.schedulers:
            if scheduler.status is not None:
                raise SystemExit(f"A scheduler has ended with status {scheduler.status}; see {scheduler.log}")


def _print_round(number: int, outcome: Outcome) -> None:
    print(
        f"{number + 1:3} {outcome.fault}: {outcome.answered} of {outcome.requests} answered,"
        f" as usual within {outcome.limit:.1f} s,"
        f" back after {outcome.recovery:.1f} s (at most {RECOVERY_LIMIT:.0f}),"
        f" tidy after {outcome.settled:.1f} s",
        flush=True,
    )
    for line in outcome.problems[:MOST_PROBLEMS]:
        print(f"      {line}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="determines the faults (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds to run (default: one for each fault)")
    parser.add_argument(
        "--only",
        action="append",
        choices=faults.NAMES,
        metavar="FAULT",
        help="this fault; repeatable",
    )
    parser.add_argument("--queues", choices=sorted(QUEUES), default="classic", help="queues of the broker")
    parser.add_argument(
        "--seconds", type=float, help=f"how long each fault lasts (default: {SHORTEST:g} to {LONGEST:g})"
    )
    parser.add_argument("--callers", type=int, default=CALLERS, help="(default: %(default)s)")
    parser.add_argument("--directory", type=Path, help="where to keep logs (default: temporary)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
