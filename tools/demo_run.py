"""Run the demo: make requests, boot instances, and compare the outcome with Placement."""

import contextlib
import dataclasses
import logging
import os
import random
import shutil
import tempfile
import time
from unittest import mock
import uuid

from conductor_client import journal
from conductor_client.errors import NoValidHost
from conductor_client.fake_compute import Failures
from scheduler import objects
from scheduler.rpc.context import RequestContext
from tools import demo_moves, demo_report
from tools.rig import fleet, servers, truth
from tools.rig.small_cloud import Schedulers, SmallCloud

PROJECT, USER = "5f6d2f0f3c2b4d0c9f3e7f2e5c9a1b22", "a6bfbc0a4b1d4f3f8a4a5d2f1f0c7e11"
TIMEOUT = 120

# Seconds between two lines on how far a phase has come.
PROGRESS_INTERVAL = 2.0

# Share in tenths, name, vCPUs, MiB of memory, GiB of disk.
FLAVORS = (
    (4, "m1.small", 1, 2048, 20),
    (3, "m1.medium", 2, 4096, 40),
    (2, "m1.large", 4, 8192, 80),
    (1, "m1.xlarge", 8, 16384, 160),
)
BATCHES = (1, 1, 1, 2, 3)


@dataclasses.dataclass(frozen=True)
class Request:
    """The request of one API call: equal instances, one for each of ``uuids``."""

    uuids: list[str]
    flavor: tuple
    zone: str | None

    @property
    def amounts(self):
        """The amount of each resource class that one instance uses."""
        _share, _name, vcpus, memory_mb, root_gb = self.flavor
        return {"VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": root_gb}

    def spec(self):
        """Return the request as a conductor sends it."""
        _share, name, vcpus, memory_mb, root_gb = self.flavor
        flavor = objects.Flavor(
            id=1,
            name=name,
            flavorid=name,
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=root_gb,
            ephemeral_gb=0,
            swap=0,
            extra_specs={},
        )
        return objects.RequestSpec(
            instance_uuid=self.uuids[0],
            num_instances=len(self.uuids),
            flavor=flavor,
            image=objects.ImageMeta(name="debian", disk_format="qcow2", properties=objects.ImageMetaProps()),
            availability_zone=self.zone,
            project_id=PROJECT,
            user_id=USER,
            instance_group=None,
            scheduler_hints={},
            pci_requests=objects.InstancePCIRequests(requests=[]),
            numa_topology=None,
        )


def make_requests(instances, seed):
    """Return random requests for ``instances`` instances in total.

    A request is for one to three instances; some requests name a zone. The same seed gives the same requests.
    """
    rng = random.Random(seed)
    flavors = [flavor for flavor in FLAVORS for _ in range(flavor[0])]
    requests = []
    while instances > 0:
        size = min(rng.choice(BATCHES), instances)
        uuids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(size)]
        zone = rng.choice((None, None, None, *fleet.ZONES))
        requests.append(Request(uuids, rng.choice(flavors), zone))
        instances -= size
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


def check(cloud, requests, records, resized):
    """Compare the allocations in Placement with the records, and with what was resized since."""
    provider_of = {host.name: host.uuid for host in cloud.fleet.hosts}
    amounts = {instance: request.amounts for request in requests for instance in request.uuids}
    expected = {
        record.instance_uuid: (provider_of[record.host], amounts[record.instance_uuid])
        for record in records
        if record.state == journal.ACTIVE
    }
    expected |= resized.holds
    found = truth.check(cloud.placement_url, cloud.fleet.providers(), expected)
    found.problems += resized.problems
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


def run(options):
    """Run the demo with the options of its command line; return 1 if a check fails, otherwise 0."""
    logging.basicConfig(
        level=logging.INFO if options.verbose else logging.CRITICAL, format="%(name)s %(message)s"
    )
    failures = Failures(rate=options.fail_rate, seed=options.seed, moves=1)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-demo-"))
        partitions = f", {options.partitions} partitions" if options.partitions > 1 else ""
        demo_report.say(f"A cloud of {options.hosts} hosts in {options.cells} cells{partitions}")
        started = time.monotonic()
        announce = demo_report.progress(time.monotonic)
        several = options.schedulers * options.partitions > 1
        if several and not options.rabbit:
            announce("RabbitMQ")
        rabbit = options.rabbit or (stack.enter_context(own_broker()) if several else None)
        flavors = tuple(flavor[1] for flavor in FLAVORS) if options.partitions > 1 else ()
        cloud = stack.enter_context(
            SmallCloud(
                directory,
                options.hosts,
                options.cells,
                failures,
                rabbit,
                Schedulers(options.partitions, options.schedulers, flavors),
                announce,
            )
        )
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
        resized = demo_moves.resize(cloud, chosen) if chosen else demo_moves.Resized()
        print("\n  reading all allocations and inventories of Placement ...", flush=True)
        found = check(cloud, requests, records, resized)
    return demo_report.verdict(found, finished)
