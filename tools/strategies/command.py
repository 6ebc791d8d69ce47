"""The command line.

Exit status: 0 if everything was as it must be in all runs, 1 if not, 2 for a wrong argument.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
import logging
import multiprocessing
from pathlib import Path
import sys
import time

from tools.strategies import plot, report
from tools.strategies.run import Result, run
from tools.strategies.scenario import SCENARIOS, STRATEGIES, Scenario, Strategy

#: Options of the command that replace a field of every scenario.
_NUMBERS = {
    "hosts": (int, "hosts"),
    "schedulers": (int, "schedulers"),
    "rate": (float, "requests a second"),
    "share": (float, "instances, as a share of the free places"),
    "latency": (float, "seconds until others read a record of the stream"),
    "loss": (float, "share of the records that a scheduler misses"),
    "cut": (float, "seconds for which one scheduler is cut off from the stream"),
}
_LISTS = {
    "load": (float, "the shares of the requests of the schedulers"),
    "sizes": (int, "the places of instances, each as probable"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all chosen strategies in all chosen scenarios; return the exit status."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.ERROR)
    given = {name: getattr(options, name) for name in (*_NUMBERS, *_LISTS)}
    changes = {name: value for name, value in given.items() if value is not None}
    scenarios = [replace(SCENARIOS[name], **changes) for name in options.scenario]
    strategies = [STRATEGIES[name] for name in options.strategy]
    tasks = [(scenario, strategy, options.seed) for strategy in strategies for scenario in scenarios]
    started, results = time.monotonic(), []
    for result in _results(tasks, options.jobs):
        results.append(result)
        print(report.line(result), flush=True)
    text = report.table(results, scenarios[0])
    print(f"\n{text}\n{len(results)} runs in {time.monotonic() - started:.0f} s")
    if options.output:
        options.output.with_suffix(".txt").write_text(text, encoding="utf-8")
        plot.draw(options.output.with_suffix(".png"), results)
    wrong = [
        f"{result.scenario}, {result.strategy}: {text}" for result in results for text in result.problems
    ]
    print("\n".join(f"WRONG: {each}" for each in wrong) or "Nothing was wrong.")
    return 1 if wrong else 0


def _results(tasks: Sequence[tuple[Scenario, Strategy, int]], jobs: int) -> Iterator[Result]:
    if jobs == 1:
        yield from (run(*task) for task in tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_run, tasks, chunksize=1)


def _run(task: tuple[Scenario, Strategy, int]) -> Result:
    return run(*task)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/simulate strategies", description="Compare how several schedulers avoid each other."
    )
    for option, known in (("--scenario", SCENARIOS), ("--strategy", STRATEGIES)):
        names = f"default: all, which are {', '.join(map(repr, known))}"
        parser.add_argument(option, nargs="+", choices=known, default=list(known), metavar="NAME", help=names)
    parser.add_argument("--seed", type=int, default=1, help="determines everything (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--output", type=Path, help="write the table, the results and a plot to OUTPUT.*")
    defaults = {each.name: each.default for each in fields(Scenario)}
    for name, (kind, text) in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=kind, help=f"{text} (default: {defaults[name]})")
    for name, (kind, text) in _LISTS.items():
        parser.add_argument(f"--{name}", type=_list_of(kind), metavar="N,N", help=text)
    return parser.parse_args(sys.argv[1:] if arguments is None else arguments)


def _list_of(kind: type) -> object:
    def parsed(text: str) -> tuple:
        return tuple(kind(part) for part in text.split(","))

    return parsed
