"""Benchmarks of the scheduler's own work.

stages       a plain request from the message to the reply, stage by stage
rules        every built-in filter and weigher over all hosts
multicreate  100 instances in one request
numa         NUMA and PCI verdicts for one host, in shapes that are hard on purpose

Times are CPU time of one thread, the best of a few runs. Compare runs on the same machine only.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from oslo_service import backend

from tools.bench import report
from tools.bench.timing import RUNS, Measurement


def main() -> None:
    arguments = _arguments()
    # oslo.messaging would choose eventlet
    backend.init_backend(backend.BackendType.THREADING)
    chosen = BENCHMARKS if arguments.which == "all" else {arguments.which: BENCHMARKS[arguments.which]}
    found: list[Measurement] = []
    for benchmark in chosen.values():
        part = list(benchmark(arguments.hosts, arguments.runs))
        report.show(part)
        found += part
    if arguments.json:
        report.write(arguments.json, found)
    if arguments.compare:
        report.compare(found, report.read(arguments.compare))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "tools/benchmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="?", default="all", choices=[*BENCHMARKS, "all"])
    parser.add_argument("--hosts", type=_numbers, default=[1000, 10000], help="such as 1000,10000,50000")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of which the best counts (default {RUNS})")
    parser.add_argument("--json", type=Path, help="write the measurements to this file, one a line")
    parser.add_argument("--compare", type=Path, help="show the ratios to those in this file")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _stages(sizes: Sequence[int], runs: int) -> Iterator[Measurement]:
    from tools.bench import stages

    return (one for size in sizes for one in stages.run(size, runs))


def _rules(sizes: Sequence[int], runs: int) -> Iterator[Measurement]:
    from tools.bench import rules

    return (one for size in sizes for one in rules.run(size, runs))


def _multicreate(sizes: Sequence[int], runs: int) -> Iterator[Measurement]:
    from tools.bench import multicreate

    return (one for size in sizes for one in multicreate.run(size, runs))


def _numa(_sizes: Sequence[int], _runs: int) -> Iterator[Measurement]:
    from tools.bench import numa_pci

    for row in numa_pci.run():
        yield Measurement("numa", "one host, hard on purpose", row["name"], 0, row["milliseconds"])


BENCHMARKS: dict[str, Callable[[Sequence[int], int], Iterator[Measurement]]] = {
    "stages": _stages,
    "rules": _rules,
    "multicreate": _multicreate,
    "numa": _numa,
}

if __name__ == "__main__":
    main()
