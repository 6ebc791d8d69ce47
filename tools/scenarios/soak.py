"""Load a real scheduler process for a long time, and judge whether what it occupies stays flat."""

import argparse
from collections import Counter, deque
from collections.abc import Iterator, Mapping
import contextlib
from dataclasses import dataclass, field
import itertools
from pathlib import Path
import random
import sqlite3
import sys
import threading
import time
from typing import Any
import uuid

import psutil

from conductor_client.bus import Bus
from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from scheduler import objects
from tools.rig import command, servers, truth
from tools.rig.cloud import BerthSchedulerProcess, Cloud, SchedulerProcess
from tools.rig.fleet import Cell
from tools.rig.load import FLAVORS, BootRequest, Call, Callers, random_requests, random_uuid
from tools.rig.placement import PlacementProcess
from tools.scenarios import flatness
from tools.scenarios.churn import Churn
from tools.scenarios.flatness import Sample

#: Variables that the unit of systemd and the image set.
AS_SHIPPED = {"MALLOC_ARENA_MAX": "2"}
DATABASES = ("api", "cell0", "cell1", "cell2")
#: Outcomes that are expected of some requests.
CHOSEN, REFUSED, NO_HOST = "host chosen", "message refused", "no valid host"
#: Requests after which the cloud changes in one more way.
CHURN_INTERVAL = 10
REPORT_INTERVAL = 30  # seconds between two lines of progress
SETTLE_TIME = 30  # seconds for background work of the scheduler after the last request


class SoakCloud(Cloud):
    """RabbitMQ, Placement and berth-scheduler, each a process on loopback; a context manager.

    Attributes:
        bus: The message bus.
        scheduler: The scheduler.
    """

    bus: Bus
    scheduler: SchedulerProcess

    def __init__(self, directory: Path, hosts: int, workers: int) -> None:
        """Describe a cloud of hosts in two cells, and a scheduler with workers; it is started on entry."""
        super().__init__(directory)
        self._workers = workers
        self.make_fleet(hosts, [Cell(name, self.database(name)) for name in DATABASES[2:]])

    def _start(self) -> None:
        transport_url = self.enter_context(servers.rabbitmq()).url
        self.placement_url = self.enter_context(PlacementProcess(self.fill_placement()))
        self.write_databases()
        for name in DATABASES:
            # it is read while it is written
            with contextlib.closing(sqlite3.connect(self.directory / f"{name}.sqlite")) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
        config_file = self.configure(transport_url, workers=self._workers)
        self.bus = self.connect()
        self.scheduler = BerthSchedulerProcess(config_file, self.directory / "scheduler.log", AS_SHIPPED)
        self.scheduler.start()
        self.callback(self.scheduler.stop)
        self.scheduler.wait_until_it_answers(self.bus)


@dataclass(frozen=True)
class SoakRequest(BootRequest):
    """A request with values that no other has; ``strange`` is the name of an object that does not exist."""

    hints: Mapping[str, Any] = field(default_factory=dict)
    distribution: str = ""
    strange: str = ""

    def spec(self) -> Any:
        """Return the RequestSpec, or what is none."""
        if self.strange:
            return {"nova_object.name": self.strange}
        spec = super().spec()
        spec.scheduler_hints = dict(self.hints)
        spec.image.properties = objects.ImageMetaProps.from_dict({"os_distro": self.distribution})
        return spec


class Load:
    """Requests of many kinds, of which some are impossible and some are malformed; instances come and go.

    Attributes:
        outcomes: How many requests ended in which way.
        churn: What changes the cloud meanwhile.
    """

    def __init__(self, cloud: SoakCloud, options: argparse.Namespace) -> None:
        """Describe the load of a cloud by the options of the command line."""
        self.outcomes: Counter[str] = Counter()
        self._held = options.held
        self._lock = threading.Lock()
        self._rng = random.Random(options.seed)
        self._allocations = Allocations(placement_adapter(cloud.conf))
        self._instances: deque[tuple[str, str, int]] = deque()
        self._finished = itertools.count(1)
        engines = {name: cloud.engine(cloud.database(name)) for name in ("api", "cell1", "cell2")}
        client = SchedulerClient(cloud.bus, timeout=120, monitor=60)
        self.churn = Churn(cloud.fleet, engines, cloud.placement_url, client, self._rng)
        requests = itertools.islice(self._requests(), options.requests)
        seconds = options.minutes * 60
        self.callers = Callers(client, requests, options.threads, seconds=seconds, after=self._ended)

    def delete(self, held: int = 0) -> None:
        """Delete the oldest instances, so that no more than so many are left."""
        while len(self._instances) > held:
            with contextlib.suppress(IndexError):  # another thread has deleted it
                instance, host, memory_mb = self._instances.popleft()
                self._allocations.remove(instance)
                self.churn.deleted(host, instance, memory_mb)

    def _requests(self) -> Iterator[SoakRequest]:
        rng = self._rng
        for plain in random_requests(rng, (1, 1, 1, 2), 0.6, FLAVORS[:3]):
            kind, flavor, group, more = rng.random(), plain.flavor, (), {}
            if rng.random() < 0.2:
                flavor = flavor._replace(extra_specs=(("hw:note", str(rng.random())),))
            if kind < 0.01:
                more["strange"] = f"Strange{rng.random()}"
            elif kind < 0.03:
                flavor = flavor._replace(memory_mb=1 << 30)
            elif kind < 0.13:
                more["hints"] = {"different_host": [str(uuid.UUID(int=rng.getrandbits(128)))]}
            elif kind < 0.23:
                group = [random_uuid(rng), *(each[0] for each in list(self._instances)[-3:]), *plain.uuids]
            yield SoakRequest(
                plain.uuids,
                flavor,
                plain.zone,
                group,
                project=f"project-{rng.randrange(5000)}",
                distribution=f"distro-{rng.randrange(10**6)}",
                **more,
            )

    def _ended(self, call: Call) -> None:
        request, error = call.request, call.error.partition(":")[0]
        outcome = {"": CHOSEN, "NoValidHost": NO_HOST}.get(error, f"error {error}")
        with self._lock:
            self.outcomes[REFUSED if call.error and request.strange else outcome] += 1
        for instance, selections in zip(request.uuids, call.selections, strict=False):
            host, memory_mb = selections[0].service_host, request.flavor.memory_mb
            self.churn.built(host, instance, memory_mb)
            self._instances.append((instance, host, memory_mb))
        if next(self._finished) % CHURN_INTERVAL == 0:
            self.churn.step()
        self.delete(self._held)


def main(arguments: list[str] | None = None) -> int:
    """Run, write the samples and the plot, and print the verdict; return 1 if something is wrong."""
    options = _parse(arguments)
    with (
        command.running("soak", options.directory) as directory,
        SoakCloud(directory, options.hosts, options.workers) as cloud,
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
    print(f"{finished} requests in {last.seconds / 60:.1f} minutes, {finished / last.seconds:.1f} a second")
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
    parser.add("--requests", 100_000, "requests to send")
    parser.add("--minutes", 240.0, "end after this time at the latest")
    parser.add("--hosts", 60, "compute hosts")
    parser.add("--workers", 2, "workers of the scheduler")
    parser.add("--threads", 4, "callers at the same time")
    parser.add("--held", 200, "instances that exist at the same time")
    parser.add_seed()
    parser.add("--interval", 100, "requests between two samples")
    parser.add("--output", Path("soak"), "CSV and PNG file to write, without the suffix")
    parser.add_directory()
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
