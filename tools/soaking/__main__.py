"""The command line of a soak run."""

import argparse
from concurrent.futures import ThreadPoolExecutor
import contextlib
from pathlib import Path
import random
import sys
import tempfile
import threading
import time

import psutil
import sqlalchemy as sa

from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from tools.rig import servers, truth
from tools.soaking import plot, samples, verdict
from tools.soaking.churn import Churn
from tools.soaking.cloud import SoakCloud
from tools.soaking.load import CHOSEN, NO_HOST, REFUSED, Load
from tools.soaking.samples import Sample

EXPECTED = {CHOSEN, NO_HOST, REFUSED}
REPORT_INTERVAL = 30  # seconds between two lines of progress
SETTLE_TIME = 3  # seconds for background work of the scheduler after the last request


def main(arguments: list[str] | None = None) -> int:
    """Run, write the samples and the plot, and print the verdict; return 1 if something is wrong."""
    options = _parse(arguments)
    servers.stop_on_sigterm()
    with contextlib.ExitStack() as stack:
        directory = options.directory or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="berth-soak-")
        )
        cloud = stack.enter_context(SoakCloud(directory, options.hosts, options.workers))
        print(f"A scheduler with {options.workers} workers for {options.hosts} hosts", flush=True)
        load, churn = _load_on(cloud, options, stack)
        taken = _run(cloud, load, options)
        problems = _problems(cloud, load, churn)
    samples.write(options.output.with_suffix(".csv"), taken)
    plot.draw(options.output.with_suffix(".png"), taken)
    return _report(taken, load, churn, problems)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__)
    parser.add_argument(
        "--requests", type=int, default=100_000, help="requests to send (default: %(default)s)"
    )
    parser.add_argument("--minutes", type=float, default=240, help="end after this time at the latest")
    parser.add_argument("--hosts", type=int, default=60, help="compute hosts (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="workers of the scheduler")
    parser.add_argument("--threads", type=int, default=4, help="callers at the same time")
    parser.add_argument("--held", type=int, default=200, help="instances that exist at the same time")
    parser.add_argument("--seed", type=int, default=1, help="determines the requests and the churn")
    parser.add_argument("--interval", type=int, default=100, help="requests between two samples")
    parser.add_argument(
        "--output", type=Path, default=Path("soak"), help="CSV and PNG file to write, without the suffix"
    )
    parser.add_argument("--directory", type=Path, help="where to keep databases and log (default: temporary)")
    return parser.parse_args(arguments)


def _load_on(
    cloud: SoakCloud, options: argparse.Namespace, stack: contextlib.ExitStack
) -> tuple[Load, Churn]:
    engines = {name: sa.create_engine(cloud.database(name)) for name in ("api", "cell1", "cell2")}
    for engine in engines.values():
        stack.callback(engine.dispose)
    rng = random.Random(options.seed)
    scheduler = SchedulerClient(cloud.bus, timeout=120, monitor=60)
    churn = Churn(cloud.fleet, engines, cloud.placement_url, scheduler, rng)
    allocations = Allocations(placement_adapter(cloud.conf))
    return Load(scheduler, allocations, churn, rng, options.held), churn


def _run(cloud: SoakCloud, load: Load, options: argparse.Namespace) -> list[Sample]:
    started = time.monotonic()
    deadline = started + options.minutes * 60
    broken = threading.Event()

    def should_stop() -> bool:
        return broken.is_set() or time.monotonic() > deadline

    with ThreadPoolExecutor(options.threads) as pool:
        callers = [pool.submit(load.run, options.requests, should_stop) for _ in range(options.threads)]
        try:
            taken = _watch(cloud, load, callers, started, options.interval)
        except psutil.Error as error:
            raise SystemExit(f"A process of the scheduler has ended: {error}") from error
        finally:
            broken.set()
    for caller in callers:
        caller.result()
    return taken


def _watch(cloud: SoakCloud, load: Load, callers: list, started: float, interval: int) -> list[Sample]:
    taken: list[Sample] = []
    due, report_due = 0, started
    while not all(caller.done() for caller in callers):
        now = time.monotonic()
        if load.finished >= due:
            taken.append(Sample.take(cloud.scheduler.pid, load.finished, now - started))
            due = load.finished + interval
        if now >= report_due and taken:
            print(taken[-1], flush=True)
            report_due = now + REPORT_INTERVAL
        time.sleep(0.05)
    return taken


def _problems(cloud: SoakCloud, load: Load, churn: Churn) -> list[str]:
    load.delete_all()
    time.sleep(SETTLE_TIME)
    providers = [host.provider() for host in churn.hosts.values()]
    found = truth.check(cloud.placement_url, providers, {}).problems
    found += [
        f"{count} requests ended with {name}" for name, count in load.outcomes.items() if name not in EXPECTED
    ]
    status = cloud.scheduler.stop()
    if status != 0:
        found.append(f"The scheduler ended with status {status}")
    found += _logged_errors(cloud.scheduler.log.read_text())
    return found


def _logged_errors(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if " ERROR " in line or " CRITICAL " in line]
    return [f"The scheduler's log has {len(lines)} errors, the first: {lines[0]}"] if lines else []


def _report(taken: list[Sample], load: Load, churn: Churn, problems: list[str]) -> int:
    last = taken[-1]
    print(
        f"{load.finished} requests in {last.seconds / 60:.1f} minutes,"
        f" {load.finished / last.seconds:.1f} a second"
    )
    print(", ".join(f"{name}: {count}" for name, count in sorted(load.outcomes.items())))
    print(f"Hosts added: {churn.added}; hosts at the end: {len(churn.hosts)}")
    growths = verdict.judge(taken)
    for line in (*growths, *problems):
        print(line)
    return 0 if all(each.flat for each in growths) and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
