"""Boot instances in a small cloud, with computes that sometimes fail, and check the outcome in Placement."""

import argparse
from functools import partial
import logging
from pathlib import Path
import random
import shutil
import time

from conductor_client import journal
from conductor_client.fake_compute import Failures
from scheduler.errors import NoValidHost
from scheduler.rpc.context import RequestContext
from tools.rig import command, servers, truth
from tools.rig.fleet import ZONES
from tools.rig.load import FLAVORS, PROJECT, USER, random_requests
from tools.rig.schedulers import LocalScheduler
from tools.rig.world import Daemon, RunningWorld, World
from tools.scenarios import demo_moves, demo_report

TIMEOUT = 120
# Seconds between two lines on how far a phase has come.
PROGRESS_INTERVAL = 2.0
# Numbers of instances of a request, and the share of requests that name a zone.
BATCHES, ZONE_SHARE = (1, 1, 1, 2, 3), 0.5


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return 1 if nothing was built, or Placement differs from what was reported."""
    options = parse(arguments)
    with command.running("demo", level=logging.INFO if options.verbose else logging.CRITICAL) as directory:
        return run(options, directory)


def run(options: argparse.Namespace, directory: Path, rabbit: servers.Rabbit | None = None) -> int:
    """Start a cloud, boot instances, resize one, and compare what came of it with Placement.

    Args:
        rabbit: A RabbitMQ that runs already.
    """
    partitions = f", {options.partitions} partitions" if options.partitions > 1 else ""
    demo_report.say(f"A cloud of {options.hosts} hosts in {options.cells} cells{partitions}")
    started = time.monotonic()
    announce = demo_report.progress(time.monotonic)
    with RunningWorld(world(options), directory, rabbit, announce) as cloud:
        print(f"  up in {time.monotonic() - started:.1f} s, Placement at {cloud.placement_url}")
        requests = make_requests(options.instances, options.seed)
        demo_report.say(f"Booting {options.instances} instances in {len(requests)} requests")
        started = time.monotonic()
        finished = boot(cloud, requests)
        took = time.monotonic() - started
        records = cloud.journal.records([uuid for request in requests for uuid in request.uuids])
        demo_report.instances(requests, records)
        deciders = [each for each in cloud.schedulers if isinstance(each, LocalScheduler)]
        causes = {instance: cause for each in deciders for instance, cause in each.causes.items()}
        demo_report.errors(records, causes)
        demo_report.totals(requests, records, took)
        if len(deciders) > 1:
            demo_report.deciders(deciders)

        chosen = demo_moves.choose(requests, records, FLAVORS)
        resized, wrong = demo_moves.resize(cloud, *chosen) if chosen else ({}, [])
        print("\n  reading all allocations and inventories of Placement ...", flush=True)
        found = check(cloud, requests, records, resized)
        found.problems += wrong
    return demo_report.verdict(found, finished)


def world(options: argparse.Namespace) -> World:
    """Return a cloud that is in this process, but for Placement and RabbitMQ.

    Raises:
        RuntimeError: It needs RabbitMQ, which is not installed.
    """
    partitions = [f"part{number + 1}" for number in range(options.partitions)]
    several = options.schedulers * options.partitions > 1
    if (several or options.rabbit) and not shutil.which("rabbitmq-server", path=servers.path_of_servers()):
        raise RuntimeError("RabbitMQ is not installed; several schedulers and --rabbit need it")
    purposes = tuple(map(partial(purpose, options.partitions), range(options.partitions)))
    router, alone = Daemon("router-1", router=True, here=True), options.partitions == 1
    names = [""] if alone else partitions
    schedulers = [
        Daemon("-".join(filter(None, ("scheduler", name, str(number + 1)))), partition=name, here=True)
        for name in names
        for number in range(options.schedulers)
    ]
    return World(
        options.hosts,
        options.cells,
        () if alone else purposes,
        bus="rabbitmq" if several or options.rabbit else "memory",
        daemons=(*schedulers, *([] if alone else [router])),
        conductors="here",
        failures=Failures(rate=options.fail_rate, seed=options.seed, moves=1),
    )


def purpose(partitions: int, number: int) -> str:
    """Return what a partition is for: its share of the flavors, or a zone if there are more partitions."""
    names = [flavor.name for flavor in FLAVORS]
    if number < len(names):
        return f"flavors = {', '.join(names[number::partitions])}"
    return f"zones = {ZONES[number % len(ZONES)]}"


def make_requests(instances, seed):
    """Return random requests for ``instances`` instances in total; the same seed gives the same requests."""
    drawn = random_requests(random.Random(seed), BATCHES, ZONE_SHARE)
    requests = []
    while instances > 0:
        request = next(drawn)
        del request.uuids[instances:]
        instances -= len(request.uuids)
        requests.append(request)
    return requests


def boot(cloud, requests):
    """Send the requests to the super-conductor one by one; return whether all builds ended in time."""
    context = RequestContext(user_id=USER, project_id=PROJECT)
    client, shown = cloud.client.prepare(timeout=TIMEOUT), time.monotonic()
    for number, request in enumerate(requests):
        if time.monotonic() - shown > PROGRESS_INTERVAL:
            shown = time.monotonic()
            print(f"  {number} of {len(requests)} requests sent", flush=True)
        client.call(context, "build_instances", request_spec=request.spec(), instance_uuids=request.uuids)
    return wait(cloud.journal, [instance for request in requests for instance in request.uuids])


def wait(records, uuids):
    """Wait for all builds, saying how many have ended; return whether all have in time."""
    end = time.monotonic() + TIMEOUT
    while not records.wait(uuids, PROGRESS_INTERVAL):
        ended = sum(record.state in journal.FINAL for record in records.records(uuids))
        print(f"  {ended} of {len(uuids)} builds ended", flush=True)
        if time.monotonic() >= end:
            return False
    return True


def check(cloud, requests, records, resized=()):
    """Compare the allocations in Placement with the records, and with what was resized since."""
    hosts = {host.name: host for host in cloud.fleet.hosts}
    request_of = {instance: request for request in requests for instance in request.uuids}
    expected = {
        record.instance_uuid: (hosts[record.host].uuid, request_of[record.instance_uuid].amounts)
        for record in records
        if record.host
    }
    found = truth.check(cloud.placement_url, cloud.fleet.providers(), expected | dict(resized))
    for record in records:
        found.problems += problems(record, request_of[record.instance_uuid].zone, hosts)
    return found


def problems(record, zone, hosts):
    """Return what is wrong with an instance: not at an end, an unexpected error, or in another zone."""
    name, error = f"Instance {record.instance_uuid}", (record.last.detail or "").partition("\n")[0]
    if record.state not in journal.FINAL:
        return [f"{name} is still {record.state}"]
    if record.state == journal.ERROR and not error.startswith(str(NoValidHost())):
        return [f"{name}: {error}"]
    if record.host and zone and hosts[record.host].zone != zone:
        return [f"{name} is not in {zone}"]
    return []


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options; one that cannot work is refused."""
    parser = command.Parser("tools/demo", __doc__)
    parser.share(hosts=100, cells=2, seed=1)
    parser.add("--instances", 20, "instances to boot")
    parser.add("--fail-rate", 0.15, "share of builds that fail")
    parser.add("--partitions", 1, "groups of hosts with schedulers of their own and a router before them")
    parser.add("--schedulers", 1, "schedulers of each partition; several have a RabbitMQ")
    parser.add_argument(
        "--rabbit", action="store_true", help="start a RabbitMQ, in place of the bus in memory"
    )
    parser.add_argument("--verbose", action="store_true", help="also show the log")
    options = parser.parse_args(arguments)
    parser.bound(options, hosts=(1, 20000), instances=(1, 100_000), fail_rate=(0, 1), schedulers=(1, 8))
    parser.bound(options, cells=(1, min(50, options.hosts)), partitions=(1, min(8, options.hosts)))
    return options
