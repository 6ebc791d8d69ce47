"""Benchmarks of the work inside the scheduler.

stages       a plain request from the message to the reply, stage by stage
rules        every built-in filter and weigher over all hosts
multicreate  100 instances in one request

Times are CPU times of one thread, the best of a few runs. Compare runs on the same machine only.

Commands with arguments of their own (COMMAND --help):

side-by-side Berth and nova-scheduler in the same rig, in turns
plans        berth-plan survive, capacity and balance on a cloud with server groups
"""

import argparse
from collections.abc import Iterator, Sequence
import importlib
from pathlib import Path

from tools.bench import report
from tools.bench.report import RUNS, Measurement

# Modules beside this one; each has ``run(number of hosts, runs)``.
BENCHMARKS = ("stages", "rules", "multicreate")

# Modules with ``main(arguments)``, which returns the exit status.
COMMANDS = {
    "plans": "tools.bench.plans",
    "side-by-side": "tools.side_by_side.command",
}


def main(arguments: Sequence[str]) -> int:
    """Measure, and print tables; or run a command that has arguments of its own."""
    if arguments and arguments[0] in COMMANDS:
        return importlib.import_module(COMMANDS[arguments[0]]).main(arguments[1:])
    options = _parse(arguments)
    found: list[Measurement] = []
    for name in BENCHMARKS if options.which == "all" else [options.which]:
        part = list(_run(name, options.hosts, options.runs))
        report.show(part)
        found += part
    if options.json:
        report.write(options.json, found)
    if options.compare:
        report.compare(found, report.read(options.compare))
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "tools/berth benchmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="?", default="all", choices=[*BENCHMARKS, "all"])
    parser.add_argument("--hosts", type=_numbers, default=[1000, 10000], help="such as 1000,10000,50000")
    parser.add_argument(
        "--runs", type=int, default=RUNS, help=f"number of runs; the best one counts (default {RUNS})"
    )
    parser.add_argument("--json", type=Path, help="write the measurements to this file, one per line")
    parser.add_argument("--compare", type=Path, help="show the ratios to those in this file")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _run(name: str, sizes: Sequence[int], runs: int) -> Iterator[Measurement]:
    benchmark = importlib.import_module(f"tools.bench.{name}")
    for size in sizes:
        yield from benchmark.run(size, runs)
