"""The command line of the simulation.

Exit status: 0 if the promise held in all histories, 1 if not, 2 for a wrong argument.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
import itertools
import multiprocessing
import os
import pathlib
import sys
import time
from typing import Any
import warnings

from tools.simulation import imports, plan, shrink

# Histories that one operating system process runs before another takes its place.
RECYCLE = 200
CHUNK = 10

# Seconds between lines on the progress.
PROGRESS = 10.0


@dataclass
class Found:
    """What came of many histories.

    Attributes:
        kinds: Profile and kind of violation to the number of histories that had it.
        first: Profile and kind of violation to the first seed and what it said.
    """

    histories: int = 0
    calls: int = 0
    instances: int = 0
    virtual_seconds: float = 0.0
    failing: int = 0
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, seed: int, result: dict[str, Any]) -> None:
        """Count one history."""
        self.histories += 1
        self.calls += result["counts"]["calls"]
        self.instances += result["counts"]["instances"]
        self.virtual_seconds += result["seconds"]
        self.failing += bool(result["violations"])
        texts = {}
        for kind, text in result["violations"]:
            texts.setdefault(kind, text)
        for kind, text in texts.items():
            key = result["profile"], kind
            self.kinds[key] += 1
            if key not in self.first or seed < self.first[key][0]:
                self.first[key] = seed, text


def main(argv: Sequence[str] | None = None) -> int:
    """Run histories; returns the exit status."""
    arguments = _parse(sys.argv[1:] if argv is None else argv)
    _fix_hashes()
    prepare()
    if arguments.breaks:
        return _break(arguments)
    if arguments.plan:
        chosen = plan.Plan.from_json(pathlib.Path(arguments.plan).read_text())
        return _replay(chosen, arguments)
    if arguments.histories == 1:
        return _replay(plan.draw(arguments.seed, arguments.profile), arguments)
    return _campaign(arguments)


def prepare() -> None:
    """Import the product with virtual time and threads, once for an operating system process."""
    warnings.simplefilter("ignore")
    imports.install()
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    from tools.simulation import product

    product.prepare_libraries()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/berth simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--faults", action="store_true", required=True, help="histories with faults")
    parser.add_argument("--seed", type=int, default=0, help="of the first history (default: 0)")
    parser.add_argument("--histories", type=int, help="how many (default: 1 with --trace, else 1000)")
    parser.add_argument("--minutes", type=float, help="go on as long, instead of a number of histories")
    parser.add_argument("--jobs", type=int, default=1, help="processes that run histories (default: 1)")
    parser.add_argument(
        "--profile",
        default="",
        choices=["", *plan.PROFILES],
        help="kinds of faults (default: each in turn)",
    )
    parser.add_argument(
        "--breaks", action="store_true", help="break the product on purpose, in one way after the other"
    )
    parser.add_argument(
        "--only", default="", help="only the breaks whose names have one of these words, which | divides"
    )
    parser.add_argument("--also", help="run first the histories of this file: lines of a seed and a profile")
    parser.add_argument("--shrink", action="store_true", help="make the first failing history smaller")
    parser.add_argument("--trace", action="store_true", help="print what happens in a history")
    parser.add_argument("--plan", help="run the history of this file, which --save has written")
    parser.add_argument("--save", help="write the failing history, shrunk if so, to this file")
    arguments = parser.parse_args(argv)
    if arguments.histories is None:
        arguments.histories = 1 if arguments.trace else 1000
    return arguments


def _fix_hashes() -> None:
    """Start again with hashes of texts that are always the same: the order of sets depends on them."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606


# -- one history ---------------------------------------------------------------------------------------------


def _replay(chosen: plan.Plan, arguments: argparse.Namespace) -> int:
    outcome = _run(chosen, trace=arguments.trace)
    _show(outcome)
    if outcome.violations and (arguments.shrink or arguments.save):
        _shrink(outcome, arguments)
    return 1 if outcome.violations else 0


def _run(chosen: plan.Plan, *, trace: bool = False) -> Any:
    from tools.simulation.history import History

    return History(chosen, trace=trace).run()


def _show(outcome: Any) -> None:
    print("\n".join(outcome.plan.lines()))
    print("\n".join(outcome.trace))
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    if not outcome.violations:
        print("The promise held.")


def _shrink(outcome: Any, arguments: argparse.Namespace) -> None:
    smallest = outcome.plan
    if arguments.shrink:
        kind = outcome.violations[0].kind
        print(f"Shrinking ({kind}) ...", flush=True)
        smallest = shrink.shrink(
            outcome.plan,
            lambda one: any(found.kind == kind for found in _run(one).violations),
        )
        _show(_run(smallest, trace=True))
    if arguments.save:
        pathlib.Path(arguments.save).write_text(smallest.to_json())


# -- breaks --------------------------------------------------------------------------------------------------


def _break(arguments: argparse.Namespace) -> int:
    """Run histories with each break until one is noticed; return 1 if one was not."""
    from tools.simulation.breaks import BREAKS, MOST

    chosen = [name for name in BREAKS if any(words in name for words in arguments.only.split("|"))]
    most, noticed = min(arguments.histories, MOST), 0
    left = [(name, arguments.seed, 0, most) for name in chosen]
    fork = multiprocessing.get_context("fork")
    with fork.Pool(arguments.jobs, maxtasksperchild=1) as pool, fork.Pool(1) as unbroken:
        while left:
            tasks, left = left, []
            for name, number, text in pool.imap_unordered(_notice, tasks, 1):
                if not number:
                    print(f"  NOT  {name}", flush=True)
                elif unbroken.apply(run_seed, [(arguments.seed + number - 1, BREAKS[name][0])])[1][
                    "violations"
                ]:
                    # It is not the break that was noticed.
                    left.append((name, arguments.seed, number, most))
                else:
                    noticed += 1
                    print(f"{number:5}  {name}: {text}", flush=True)
    print(f"{noticed} of {len(chosen)} breaks were noticed within {most} histories.")
    return 0 if noticed == len(chosen) else 1


def _notice(task: tuple[str, int, int, int]) -> tuple[str, int, str]:
    """Return the break, after how many histories it was noticed (0: it was not), and what was found."""
    from tools.simulation.breaks import BREAKS

    name, seed, first, most = task
    profile, apply = BREAKS[name]
    apply()
    for number in range(first, most):
        _, result = run_seed((seed + number, profile))
        if result["violations"]:
            kind, text = result["violations"][0]
            return name, number + 1, f"{kind}: {text}"
    return name, 0, ""


# -- many histories ------------------------------------------------------------------------------------------


def run_seed(task: tuple[int, str]) -> tuple[int, dict[str, Any]]:
    """Run one history; returns its seed and what came of it, as plain values."""
    seed, profile = task
    outcome = _run(plan.draw(seed, profile))
    result = {
        "profile": outcome.plan.profile,
        "violations": [(violation.kind, violation.text) for violation in outcome.violations],
        "seconds": outcome.seconds,
        "counts": outcome.counts,
    }
    return seed, result


def _campaign(arguments: argparse.Namespace) -> int:
    found = Found()
    start = shown = time.monotonic()
    for seed, result in _results(arguments, start):
        found.add(seed, result)
        if result["violations"]:
            kind, text = result["violations"][0]
            print(f"Seed {seed} ({result['profile']}) violates the promise: {kind}: {text}", flush=True)
        if time.monotonic() - shown > PROGRESS:
            shown = time.monotonic()
            print(_progress(found, shown - start), flush=True)
    print(_progress(found, time.monotonic() - start))
    return _report(found, arguments)


def _results(arguments: argparse.Namespace, start: float) -> Iterator[tuple[int, dict[str, Any]]]:
    if arguments.minutes:
        end = start + 60 * arguments.minutes
        seeds: Any = itertools.takewhile(
            lambda _seed: time.monotonic() < end, itertools.count(arguments.seed)
        )
    else:
        seeds = range(arguments.seed, arguments.seed + arguments.histories)
    chosen = itertools.chain(_listed(arguments.also), ((seed, arguments.profile) for seed in seeds))
    tasks = ((seed, profile) for seed, profile in chosen)
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=RECYCLE) as pool:
        for some in _batches(tasks, CHUNK * arguments.jobs):
            yield from pool.imap_unordered(run_seed, some, CHUNK)


def _listed(path: str | None) -> Iterator[tuple[int, str]]:
    """Yield seed and profile of each line of a file; empty lines and comments are left out."""
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if path else ():
        words = line.partition("#")[0].split()
        if words:
            yield int(words[0]), words[1]


def _batches(tasks: Iterator[tuple[int, str]], size: int) -> Iterator[list[tuple[int, str]]]:
    """Yield lists, so that no more tasks are drawn than can be begun."""
    while some := list(itertools.islice(tasks, size)):
        yield some


def _progress(found: Found, seconds: float) -> str:
    return (
        f"{found.histories} histories in {seconds:.0f} s ({found.histories / max(seconds, 0.001):.0f}/s), "
        f"{found.virtual_seconds / 86400:.1f} days of virtual time, {found.calls} calls for "
        f"{found.instances} instances, {found.failing} histories violate the promise"
    )


def _report(found: Found, arguments: argparse.Namespace) -> int:
    for (profile, kind), number in found.kinds.most_common():
        seed, text = found.first[profile, kind]
        print(f"{number:6} {profile:11} {kind:16} first with seed {seed}: {text}")
    if not found.failing:
        print("The promise held.")
        return 0
    (profile, _), (seed, _) = min(found.first.items(), key=lambda item: item[1][0])
    words = f"tools/berth simulate --faults --seed {seed} --profile {profile} --trace"
    print(f"\nThe first failing history is {words}")
    outcome = _run(plan.draw(seed, profile), trace=True)
    _show(outcome)
    if arguments.shrink or arguments.save:
        _shrink(outcome, arguments)
    return 1
