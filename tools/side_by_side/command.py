"""Compare Berth with nova-scheduler: in one rig, one after the other, in several rounds.

After each load the answers are compared with Placement. RabbitMQ and MariaDB have to be installed; nova,
Placement and gunicorn come from PyPI into a virtual environment. All servers are private and end with it.
"""

import argparse
from collections.abc import Sequence
import math
from pathlib import Path
from typing import Any

from tools.rig.command import SOFTWARE, Parser, running
from tools.rig.load import FEWEST_HOSTS
from tools.rig.software import Software
from tools.side_by_side import measuring, plot, report
from tools.side_by_side.contenders import BerthScheduler, Contender, NovaScheduler
from tools.side_by_side.measuring import SERVICES, Case, Result, cases
from tools.side_by_side.rig import Rig

#: The contenders by the names of the command line.
CONTENDERS: dict[str, Contender] = {
    "nova": NovaScheduler(),
    "berth": BerthScheduler(),
    "berth-3": BerthScheduler("Berth, 3 daemons", daemons=3),
}

#: Those that are compared unless others are named.
USUAL = ("nova", "berth")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table and draw the plots; return 1 if an answer was not true."""
    options = _parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    filled = f"-{options.filled}-instances" if options.filled else ""
    path = options.output / f"side-by-side-{options.hosts}{filled}.jsonl"
    if options.rounds:
        _measure(options, path)
    results = measuring.read(path) if path.exists() else []
    if results:
        text = report.table(results)
        path.with_suffix(".txt").write_text(text)
        print(text)
        plot.draw_callers(path.with_suffix(".png"), results)
    return 1 if any(each.problems for each in results) else 0


def _measure(options: argparse.Namespace, path: Path) -> None:
    software = Software(options.software)
    software.make()
    loads = cases(options.callers, options.requests)
    first = max((each.round for each in measuring.read(path)), default=0) + 1 if path.exists() else 1
    contenders = [CONTENDERS[name] for name in options.schedulers]
    with running("side-by-side") as directory:
        size = f"{options.hosts} hosts in {options.cells} cells, {options.filled} instances"
        print(f"Starting the rig with {size}", flush=True)
        with Rig(directory, software, options.hosts, options.cells, options.filled) as rig:
            for number in range(first, first + options.rounds):
                turn = number % len(contenders)
                for contender in (*contenders[turn:], *contenders[:turn]):
                    _round(rig, contender, number, loads, options, path)


def _round(
    rig: Rig,
    contender: Contender,
    number: int,
    loads: Sequence[Case],
    options: argparse.Namespace,
    path: Path,
) -> None:
    with contender.run(rig) as started:
        start = {"filled": options.filled, "first_answer": round(started.first_answer, 2)}

        def keep(case: str, callers: int, found: dict[str, Any]) -> Result:
            result = Result(contender.name, options.hosts, number, case, callers, **found, **start)
            measuring.append(path, result)
            return result

        measuring.warm_up(rig, started)
        for case in loads:
            found = measuring.measure(rig, started, case, options.seconds)
            result = keep(case.name, case.callers, found)
            print(
                f"round {number}, {contender.name}, {case.name}, {case.callers} callers:"
                f" {result.throughput:.2f}/s, p95 {result.p95:.0f} ms,"
                f" CPU {result.milliseconds(*SERVICES):.1f} ms, others {result.others:.1f} cores,"
                f" {result.no_valid_host} NoValidHost, {len(result.problems)} problems",
                flush=True,
            )
        if options.idle:
            keep(measuring.IDLE, 0, measuring.idle(rig, started, options.idle))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("tools/berth benchmark side-by-side", __doc__)
    parser.share(hosts=1000, cells=2, seconds=20.0, output=Path("side-by-side"), software=SOFTWARE)
    add = parser.add
    add("--rounds", 3, "rounds to add to the files of --output; 0: only draw what was measured before")
    add("--callers", [1, 4, 16, 64], "callers at the same time, one load each", type=int, nargs="+")
    add("--requests", 0, "only so many requests of a load, for single instances; 0: as time permits")
    add("--schedulers", list(USUAL), "what is compared", nargs="+", choices=CONTENDERS)
    add("--filled", 0, "instances that are on the hosts before")
    add("--idle", 0.0, "also wait so many seconds, and measure as long without requests")
    options = parser.parse_args(arguments)
    if options.rounds:
        # with fewer, some requests of the loads have no alternates
        parser.bound(options, hosts=(FEWEST_HOSTS, math.inf))
    return options
