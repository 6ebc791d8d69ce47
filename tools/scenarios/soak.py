"""Load a real scheduler process for a long time, and judge whether what it occupies stays flat."""

import argparse
import contextlib
from pathlib import Path
import sqlite3
import time

import psutil

from tools.rig import command, servers, truth
from tools.rig.daemon_cloud import DaemonCloud
from tools.scenarios import flatness
from tools.scenarios.flatness import Sample
from tools.scenarios.soak_load import CHOSEN, NO_HOST, REFUSED, Load

#: Variables that the unit of systemd and the image set.
AS_SHIPPED = {"MALLOC_ARENA_MAX": "2"}
REPORT_INTERVAL = 30  # seconds between two lines of progress
SETTLE_TIME = 30  # seconds for background work of the scheduler after the last request


class SoakCloud(DaemonCloud):
    """A daemon as it is shipped."""

    environment = AS_SHIPPED

    def _prepare_databases(self) -> None:
        for name in ("api", "cell0", "cell1", "cell2"):
            # it is read while it is written
            with contextlib.closing(sqlite3.connect(self.directory / f"{name}.sqlite")) as connection:
                connection.execute("PRAGMA journal_mode=WAL")


def main(arguments: list[str] | None = None) -> int:
    """Run, write the samples and the plot, and print the verdict; return 1 if something is wrong."""
    options = _parse(arguments)
    with (
        command.running("soak", options.directory) as directory,
        servers.rabbitmq() as rabbit,
        SoakCloud(directory, rabbit.url, options.hosts, options.workers) as cloud,
    ):
        print(f"A scheduler with {options.workers} workers for {options.hosts} hosts", flush=True)
        load = Load(cloud, options)
        samples = _watch(cloud, load, options.interval)
        problems = _problems(cloud, load)
    flatness.write(options.output.with_suffix(".csv"), samples)
    flatness.draw(options.output.with_suffix(".png"), samples)
    return _report(samples, load, problems)


def _watch(cloud: SoakCloud, load: Load, interval: int) -> list[Sample]:
    taken: list[Sample] = []
    started = report_due = time.monotonic()
    due = 0
    with load.callers as callers:
        while callers.running:
            now, finished = time.monotonic(), load.outcomes.total()
            if finished >= due:
                try:
                    taken.append(Sample.take(cloud.scheduler.pid, finished, now - started))
                except psutil.Error as error:
                    raise SystemExit(f"A process of the scheduler has ended: {error}") from error
                due = finished + interval
            if now >= report_due and taken:
                print(taken[-1], flush=True)
                report_due = now + REPORT_INTERVAL
            time.sleep(0.05)
    return taken


def _problems(cloud: SoakCloud, load: Load) -> list[str]:
    load.delete()
    providers = [host.provider() for host in load.churn.hosts.values()]
    found = truth.settled(lambda: truth.check(cloud.placement_url, providers, {}), SETTLE_TIME).problems
    found += [
        f"{count} requests ended with {name}"
        for name, count in load.outcomes.items()
        if name not in {CHOSEN, NO_HOST, REFUSED}
    ]
    status = cloud.scheduler.stop()
    if status != 0:
        found.append(f"The scheduler ended with status {status}")
    log = cloud.scheduler.log.read_text().splitlines()
    errors = [line for line in log if " ERROR " in line or " CRITICAL " in line]
    return found + [f"The scheduler's log has {len(errors)} errors, the first: {line}" for line in errors[:1]]


def _report(samples: list[Sample], load: Load, problems: list[str]) -> int:
    last, finished = samples[-1], load.outcomes.total()
    print(f"{finished} requests in {last.seconds / 60:.1f} minutes, {finished / last.seconds:.1f} per second")
    print(", ".join(f"{name}: {count}" for name, count in sorted(load.outcomes.items())))
    print(f"Hosts added: {load.churn.added}; hosts at the end: {len(load.churn.hosts)}")
    try:
        growths = flatness.judge(samples)
    except ValueError as error:
        growths = []
        problems.append(f"Not judged: {error}")
    for line in (*growths, *problems):
        print(line)
    return 0 if all(each.flat for each in growths) and not problems else 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/soak", __doc__)
    parser.share(hosts=60, callers=4, minutes=240.0, seed=1, output=Path("soak"), directory=None)
    parser.add("--requests", 100_000, "requests to send")
    parser.add("--workers", 2, "workers of the scheduler")
    parser.add("--held", 200, "instances that exist at the same time")
    parser.add("--interval", 100, "requests between two samples")
    return parser.parse_args(arguments)
