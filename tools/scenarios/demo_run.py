"""Run the demo: make requests, boot instances, and compare the outcome with Placement."""

import contextlib
import os
import random
import shutil
import time
from unittest import mock

from conductor_client import journal
from conductor_client.errors import NoValidHost
from conductor_client.fake_compute import Failures
from scheduler.rpc.context import RequestContext
from tools.rig import servers, truth
from tools.rig.load import FLAVORS, PROJECT, USER, random_requests
from tools.rig.small_cloud import Schedulers, SmallCloud
from tools.scenarios import demo_moves, demo_report

TIMEOUT = 120
# Seconds between two lines on how far a phase has come.
PROGRESS_INTERVAL = 2.0
# Numbers of instances of a request, and the share of requests that name a zone.
BATCHES, ZONE_SHARE = (1, 1, 1, 2, 3), 0.5


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
    uuids = [instance for request in requests for instance in request.uuids]
    shown = time.monotonic()
    for number, request in enumerate(requests, 1):
        if time.monotonic() - shown > PROGRESS_INTERVAL:
            shown = time.monotonic()
            print(f"  {number - 1} of {len(requests)} requests sent", flush=True)
        context = RequestContext(user_id=USER, project_id=PROJECT)
        cloud.client.prepare(timeout=TIMEOUT).call(
            context, "build_instances", request_spec=request.spec(), instance_uuids=request.uuids
        )
    return wait(cloud.conductor.journal, uuids)


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
    provider_of = {host.name: host.uuid for host in cloud.fleet.hosts}
    amounts = {instance: request.amounts for request in requests for instance in request.uuids}
    expected = {
        record.instance_uuid: (provider_of[record.host], amounts[record.instance_uuid])
        for record in records
        if record.state == journal.ACTIVE
    }
    found = truth.check(cloud.placement_url, cloud.fleet.providers(), expected | dict(resized))
    found.problems += [
        f"Instance {record.instance_uuid} failed for an unexpected reason: {record.last.detail}"
        for record in records
        if record.state == journal.ERROR and not record.last.detail.startswith(NoValidHost.PREFIX)
    ]
    return found


@contextlib.contextmanager
def own_broker():
    """Run a RabbitMQ of the demo's own, and give its URL."""
    if not shutil.which("rabbitmq-server", path=servers.path_of_servers()):
        raise RuntimeError("Several schedulers need RabbitMQ: install it, or name one by --rabbit")
    with servers.rabbitmq() as rabbit, mock.patch.dict(os.environ, rabbit.environment):
        yield rabbit.url


def run(options, directory):
    """Run the demo with the options of its command line; return 1 if a check fails, otherwise 0."""
    failures = Failures(rate=options.fail_rate, seed=options.seed, moves=1)
    several = options.schedulers * options.partitions > 1
    with contextlib.ExitStack() as stack:
        partitions = f", {options.partitions} partitions" if options.partitions > 1 else ""
        demo_report.say(f"A cloud of {options.hosts} hosts in {options.cells} cells{partitions}")
        started = time.monotonic()
        announce = demo_report.progress(time.monotonic)
        if several and not options.rabbit:
            announce("RabbitMQ")
        rabbit = options.rabbit or (stack.enter_context(own_broker()) if several else None)
        flavors = tuple(flavor.name for flavor in FLAVORS) if options.partitions > 1 else ()
        schedulers = Schedulers(options.partitions, options.schedulers, flavors)
        cloud = SmallCloud(directory, options.hosts, options.cells, failures, rabbit, schedulers, announce)
        stack.enter_context(cloud)
        demo_report.parts(cloud, time.monotonic() - started)
        requests = make_requests(options.instances, options.seed)
        demo_report.say(f"Booting {options.instances} instances in {len(requests)} requests")
        started = time.monotonic()
        finished = boot(cloud, requests)
        took = time.monotonic() - started
        records = cloud.conductor.journal.records([uuid for request in requests for uuid in request.uuids])
        demo_report.instances(requests, records)
        demo_report.errors(records, cloud.causes())
        demo_report.totals(requests, records, took)
        if several:
            demo_report.deciders(cloud.deciders, records, cloud.partition_of_host())
        chosen = demo_moves.choose(requests, records, FLAVORS)
        resized, problems = demo_moves.resize(cloud, *chosen) if chosen else ({}, [])
        print("\n  reading all allocations and inventories of Placement ...", flush=True)
        found = check(cloud, requests, records, resized)
        found.problems += problems
    return demo_report.verdict(found, finished)
