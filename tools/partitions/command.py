"""The command line: ``tools/benchmark partitions``."""

import argparse
from collections.abc import Sequence
import contextlib
import logging
from pathlib import Path
import shutil
import tempfile
import time

from tools.partitions import plot, report, results
from tools.partitions.building import Building, make_requests
from tools.partitions.cloud import PartitionedCloud, Shape
from tools.partitions.kills import Kills
from tools.partitions.results import Outcome, Result
from tools.rig import servers, truth
from tools.rig.cloud import ROOT
from tools.rig.nova_cloud import set_priority
from tools.rig.software import Software
from tools.rig.usage import Usage

#: Seconds in which schedulers give back what they claimed for requests that others answered.
CLEAN_UP_TIMEOUT = 60

_DESCRIPTION = """\
Build instances in a cloud of two partitions: RabbitMQ, MariaDB, Placement, routers, schedulers, conductors,
computes on which some builds fail, all in processes of their own; then compare the outcome with Placement.
RabbitMQ and MariaDB have to be installed; nova (for its schema) and Placement come from PyPI into a virtual
environment. All servers are private and end with the command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, write results and plot, print the report; return 1 if something is not true or not in time."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.ERROR)
    servers.stop_on_sigterm()
    options.output.mkdir(parents=True, exist_ok=True)
    result = _measure(options)
    path = options.output / f"partitions-{options.hosts}.jsonl"
    results.append(path, result)
    text = report.text(result)
    (options.output / f"partitions-{options.hosts}.txt").write_text(text)
    print(text)
    plot.draw(path.with_suffix(".png"), [result])
    return 0 if result.in_time and not result.problems else 1


def _measure(options: argparse.Namespace) -> Result:
    software = Software(options.software)
    software.make()
    names = ("hosts", "cells", "schedulers", "routers", "fail_rate", "build_seconds", "seed")
    shape = Shape(**{name: getattr(options, name) for name in names})
    with (
        tempfile.TemporaryDirectory(prefix="berth-partitions-") as directory,
        contextlib.ExitStack() as stack,
    ):
        print(f"Starting a cloud of {options.hosts} hosts", flush=True)
        cloud = PartitionedCloud(Path(directory), software, shape)
        if options.logs:
            stack.callback(_keep_logs, Path(directory), options.logs)
        stack.enter_context(cloud)
        print(
            "".join(f"  {name}: {seconds:.0f} s\n" for name, seconds in cloud.setup.items()),
            end="",
            flush=True,
        )
        set_priority(options.nice)
        return _run(cloud, options)


def _run(cloud: PartitionedCloud, options: argparse.Namespace) -> Result:
    requests = make_requests(options.builds, options.seed)
    print(f"Building {options.builds} instances in {len(requests)} requests", flush=True)
    building = Building(cloud.conductor, options.callers)
    deadlocks = cloud.deadlocks()
    points = [share * options.builds for share in options.kill]
    with (
        Usage(lambda: cloud.processes().items()) as usage,
        Kills(cloud.killable(), points, lambda: building.placed) as kills,
    ):
        building.build(requests)
    records = {record.instance_uuid: record for record in cloud.conductor.journal.records()}
    outcome = Outcome(building.requests, records, cloud.partition_of_host())
    hosts = list(outcome.partitions.values())
    return Result(
        hosts={name: hosts.count(name) for name in cloud.schedulers},
        cells=options.cells,
        schedulers=options.schedulers,
        routers=options.routers,
        callers=options.callers,
        fail_rate=options.fail_rate,
        asked_again=len(records) - options.builds,
        cpu={name: round(seconds, 2) for name, seconds in usage.cpu_seconds().items()},
        memory_mb={name: round(size, 1) for name, size in usage.memory_mb.items()},
        others=round(usage.others, 2),
        deadlocks=cloud.deadlocks() - deadlocks,
        setup={name: round(seconds, 1) for name, seconds in cloud.setup.items()},
        problems=outcome.problems(cloud.fleet.hosts, _settled(cloud, outcome)),
        **results.read_logs(each.log for each in cloud.all_schedulers()),
        **outcome.summary(kills.done),
    )


def _settled(cloud: PartitionedCloud, outcome: Outcome) -> truth.Truth:
    """Compare with Placement, again until nothing is wrong or the time for cleaning up is over."""
    expected = outcome.expected(cloud.fleet.hosts)
    deadline = time.monotonic() + CLEAN_UP_TIMEOUT
    while True:
        found = truth.check_database(cloud.placement_database, expected)
        if not found.problems or time.monotonic() > deadline:
            return found
        time.sleep(1)


def _keep_logs(directory: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in directory.glob("*.log"):
        shutil.copy(path, target)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/benchmark partitions", description=_DESCRIPTION)
    add = parser.add_argument
    add(
        "--hosts",
        type=int,
        default=10_000,
        help="compute hosts, two thirds of them in one partition (%(default)s)",
    )
    add("--cells", type=int, default=2, help="cells, over which each partition is spread (%(default)s)")
    add("--builds", type=int, default=1000, help="instances to build (%(default)s)")
    add("--callers", type=int, default=64, help="conductors that ask at the same time (%(default)s)")
    add("--schedulers", type=int, default=3, help="schedulers of each partition (%(default)s)")
    add("--routers", type=int, default=1, help="routers before them (%(default)s)")
    add("--fail-rate", type=float, default=0.02, help="share of builds that fail (%(default)s)")
    add("--build-seconds", type=float, default=2.0, help="how long a build takes (%(default)s)")
    add("--seed", type=int, default=1, help="of the requests and the failures (%(default)s)")
    shares = "these shares of the instances that have hosts, such as 0.3 0.6"
    kill = f"kill -9 a scheduler of each partition, and one of several routers, at {shares}; start them again"
    add("--kill", type=float, nargs="+", default=[], metavar="SHARE", help=kill)
    add(
        "--nice",
        type=int,
        default=0,
        help="priority of all processes, such as -5 on a busy machine; needs root",
    )
    add("--output", type=Path, default=Path("partitions"), help="directory; a result is added to its file")
    add("--logs", type=Path, help="directory to which the logs are copied in the end")
    add("--software", type=Path, default=ROOT / ".venv" / "side-by-side", help="virtual environment to use")
    return parser.parse_args(arguments)
