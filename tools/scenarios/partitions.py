"""Build instances in a cloud of two partitions, kill schedulers, and compare the outcome with Placement.

RabbitMQ, MariaDB, Placement, routers, schedulers, conductors, and computes on which some builds fail are
processes of their own, private, and end with the command.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
import threading
import time

from tools.rig import truth
from tools.rig.cloud import SchedulerProcess
from tools.rig.command import SOFTWARE, Parser, running
from tools.rig.partitioned_cloud import READY, START_TIMEOUT, PartitionedCloud, Shape
from tools.rig.software import Software
from tools.rig.usage import Usage
from tools.scenarios.partitions_builds import Builds, make_requests
from tools.scenarios.partitions_outcome import TARGET, Outcome, lines_of_logs

#: Seconds in which schedulers release what they claimed for requests that others answered.
CLEAN_UP_TIMEOUT = 60
#: Seconds until a killed scheduler is started again, as ``RestartSec`` of its unit.
RESTART_AFTER = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print the report; return 1 if something is not true or not in time."""
    options = _parse(arguments)
    software = Software(options.software)
    software.make()
    shape = Shape(**{each.name: getattr(options, each.name) for each in fields(Shape)})
    with (
        running("partitions", options.directory) as directory,
        PartitionedCloud(directory, software, shape) as cloud,
    ):
        return _run(cloud, options)


def _run(cloud: PartitionedCloud, options: argparse.Namespace) -> int:
    requests = make_requests(options.builds, options.seed)
    parts = ", ".join(f"{len(each)} of {name or 'all hosts'}" for name, each in cloud.schedulers.items())
    print(f"{options.hosts:,} hosts; schedulers: {parts}; routers: {len(cloud.routers)}", flush=True)
    building = Builds(cloud.conductor, options.callers, cloud.api_database)
    points = [share * options.builds for share in options.kill]
    stopping = threading.Event()
    with ThreadPoolExecutor(1) as pool, Usage(lambda: cloud.services().items()) as usage:
        killing = pool.submit(kill_at, points, cloud.killable(), lambda: building.placed, stopping)
        try:
            building.build(requests)
        finally:
            stopping.set()
        killed = killing.result()
    records = {record.instance_uuid: record for record in cloud.conductor.journal.records()}
    outcome = Outcome(building.requests, records, cloud.partition_of_host())
    problems = outcome.problems(cloud.fleet.hosts, _settled(cloud, outcome))
    print(*outcome.lines(), *lines_of_logs(each.log for each in cloud.all_schedulers()), sep="\n")
    for names in killed:
        print("Killed and started again:", ", ".join(names))
    built = max(1, len(outcome.built))
    spent = usage.cpu_seconds().items()
    print("CPU, ms a build:", ", ".join(f"{name} {1000 * seconds / built:.1f}" for name, seconds in spent))
    for problem in problems:
        print("NOT TRUE:", problem)
    if not problems:
        print("True: each instance holds its allocation, nothing else is held, no host is over-committed,")
        print("zones and anti-affinity are kept.")
    return 1 if problems or outcome.seconds > TARGET else 0


def kill_at(
    points: Sequence[float],
    schedulers: Mapping[str, Sequence[SchedulerProcess]],
    placed: Callable[[], float],
    stopping: threading.Event,
) -> list[list[str]]:
    """Kill (kill -9) one scheduler of each group whenever so many instances have hosts, and start it again.

    Returns:
        The names of those that were killed, by the number of the point, up to the last point or ``stopping``.
    """
    done: list[list[str]] = []
    for number, point in enumerate(points):
        while placed() < point:
            if stopping.wait(0.05):
                return done
        done.append(_kill([group[number % len(group)] for group in schedulers.values()]))
    return done


def _kill(schedulers: Sequence[SchedulerProcess]) -> list[str]:
    for scheduler in schedulers:
        scheduler.kill()
    lives = [scheduler.log.read_text().count(READY) for scheduler in schedulers]
    time.sleep(RESTART_AFTER)
    for scheduler in schedulers:
        scheduler.start()
    for scheduler, before in zip(schedulers, lives, strict=True):
        scheduler.wait_for_line(READY, START_TIMEOUT, before + 1)
    return [scheduler.log.stem for scheduler in schedulers]


def _settled(cloud: PartitionedCloud, outcome: Outcome) -> truth.Truth:
    expected = outcome.expected(cloud.fleet.hosts)
    return truth.settled(lambda: truth.check_database(cloud.placement_database, expected), CLEAN_UP_TIMEOUT)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser("tools/benchmark partitions", __doc__)
    parser.share(hosts=10_000, cells=2, callers=64, seed=1, directory=None, software=SOFTWARE)
    parser.add("--builds", 1000, "instances to build")
    parser.add("--schedulers", 2, "schedulers of each partition")
    parser.add("--routers", 2, "routers before them; 0: no partitions")
    parser.add("--fail-rate", 0.02, "share of builds that fail")
    parser.add("--build-seconds", 2.0, "how long a build takes")
    shares = "these shares of the instances that have hosts, such as 0.3 0.6"
    kill = f"kill -9 a scheduler of each partition, and one of several routers, at {shares}; start them again"
    parser.add("--kill", [], kill, type=float, nargs="+", metavar="SHARE")
    return parser.parse_args(arguments)
