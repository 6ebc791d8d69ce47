"""Two partitions with a scheduler each, and a router: which hosts requests get, and what is left of a partition."""

from concurrent.futures import ThreadPoolExecutor
import time
import uuid

import pytest
import requests

from conductor_client.client import SchedulerClient
from conductor_client.errors import NoValidHost
from scheduler import objects
from scheduler.conf.partitions import ROUTER
from scheduler.dry_run import DryRuns
from scheduler.rpc import explain
from scheduler.rpc.context import RequestContext
from scheduler.rpc.transport import rpc_transport
from tests.support.waiting import eventually
from tools.cloud import BerthSchedulerProcess
from tools.demo_run import FLAVORS, Request
from tools.small_cloud import FLAVOR_OF_PARTITION, Schedulers, SmallCloud

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

SMALL = FLAVORS[0]
#: The flavor that the second partition is for.
NAMED = next(flavor for flavor in FLAVORS if flavor[1] == FLAVOR_OF_PARTITION)

#: Few of them make a difference to the room of a partition.
LARGE = (1, "m1.huge", 8, 65536, 160)

#: nova's rpc_response_timeout: seconds that a caller waits that hears nothing.
PATIENCE = 60


class PartitionedCloud(SmallCloud):
    """The scheduler of the second partition is in a process of its own, which can be killed."""

    def __init__(self, *args):
        super().__init__(*args)
        self.running = {}

    def placement(self, method, consumer, body=None):
        """Ask Placement for the allocations of a consumer, or change them."""
        url = f"{self.placement_url}/allocations/{consumer}"
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.28"}
        answer = requests.request(method, url, json=body, headers=headers, timeout=20)
        answer.raise_for_status()
        return answer

    def _start_scheduler(self, name, partition):
        if partition != "part2":
            self.running[partition] = super()._start_scheduler(name, partition)
            return
        path = self.configure(self.rabbit, host=name, sections=self._sections(partition))
        self.killable = BerthSchedulerProcess(path, self.directory / "part2.log")
        self.killable.start()
        self.callback(self.killable.stop)
        self.killable.wait_for_line("takes requests")


@pytest.fixture(scope="module")
def cloud(rabbit, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in rabbit.environment.items():
            patch.setenv(name, value)
        directory = tmp_path_factory.mktemp("partitions")
        with PartitionedCloud(directory, 8, 2, None, rabbit.url, Schedulers(2, 1)) as started:
            client = SchedulerClient.from_conf(started._bus(started.rabbit))
            started.ask = lambda *args, **fields: ask(client, *args, **fields)
            # until the schedulers have heard of each other
            assert eventually(lambda: partition_of(started, started.ask(NAMED)) == "part2", 30)
            yield started


def ask(client, flavor=SMALL, instance=None, **fields):
    """The host of an instance."""
    instance = instance or str(uuid.uuid4())
    spec = Request([instance], flavor, None).spec()
    for name, value in fields.items():
        setattr(spec, name, value)
    context = RequestContext(user_id="u", project_id="p")
    ((selection, *_),) = client.select_destinations(context, spec, [instance])
    return selection.service_host


def partition_of(cloud, host):
    return cloud.partition_of_host()[host]


def hosts_of(cloud, partition):
    return [host for host, each in cloud.partition_of_host().items() if each == partition]


def decided(cloud):
    """What the schedulers in this process decided, by partition; "" is the router."""
    return {one.partition: (one.placed, one.passed_on, one.refused) for one in cloud.deciders}


def test_requests_go_where_their_flavor_is_named_and_else_where_room_is(cloud):
    assert {partition_of(cloud, cloud.ask(NAMED)) for _ in range(6)} == {"part2"}
    assert {partition_of(cloud, cloud.ask(LARGE)) for _ in range(10)} == {"part1", "part2"}
    assert decided(cloud)[""] == (0, 0, 0), "the router serves nothing while partitions are alive"


def test_a_request_for_a_host_goes_to_its_partition(cloud):
    for host in (hosts_of(cloud, "part1")[0], hosts_of(cloud, "part2")[0]):
        assert cloud.ask(NAMED, force_hosts=[host]) == host


def test_a_partition_without_a_host_passes_a_request_on(cloud):
    before = decided(cloud)["part1"]
    ignored = hosts_of(cloud, "part2")
    assert partition_of(cloud, cloud.ask(NAMED, ignore_hosts=ignored)) == "part1"
    assert decided(cloud)["part1"] == (before[0] + 1, *before[1:])
    cloud.killable.wait_for_line("goes to partition part1")
    record = next(each for each in cloud.running["part1"][0].decisions.memory.latest_first() if each.tried)
    (tried,) = record.tried
    assert tried.name == "part2"
    assert "scheduler-part2-1: No valid host was found" in tried.reason


def test_a_request_that_fits_nowhere_is_asked_of_each_once(cloud):
    before = decided(cloud)["part1"]
    with pytest.raises(NoValidHost):
        cloud.ask(NAMED, ignore_hosts=[host.name for host in cloud.fleet.hosts])
    assert decided(cloud)["part1"] == (*before[:2], before[2] + 1), "the second partition was asked first"


@pytest.mark.parametrize("partition", ["part1", "part2"])
@pytest.mark.parametrize("flavor", [SMALL, NAMED], ids=["small", "named"])
def test_a_member_of_an_affinity_group_goes_to_the_partition_of_the_others(cloud, partition, flavor):
    host = hosts_of(cloud, partition)[0]
    group = objects.InstanceGroup(
        uuid=str(uuid.uuid4()), policy="affinity", members=[str(uuid.uuid4())], hosts=[host]
    )
    assert cloud.ask(flavor, instance_group=group) == host


def booted(cloud, host):
    """A new instance on a host."""
    instance = str(uuid.uuid4())
    assert cloud.ask(SMALL, instance, force_hosts=[host]) == host
    return instance


def cell_of(cloud, host):
    return next(each.cell for each in cloud.fleet.hosts if each.name == host)


def in_cell_of(cloud, host):
    """The destination that conductors name for a server that exists: the cell that it is in."""
    cell = cell_of(cloud, host)
    return objects.Destination(cell=objects.CellMapping(uuid=cell.uuid, name=cell.name, disabled=False))


def allocations(cloud, consumer):
    """The hosts on which a consumer holds something."""
    names = {host.uuid: host.name for host in cloud.fleet.hosts}
    return {names[provider] for provider in cloud.placement("get", consumer).json()["allocations"]}


def test_an_evacuated_instance_keeps_what_it_holds_in_another_partition(cloud):
    source = hosts_of(cloud, "part1")[0]
    instance = booted(cloud, source)
    target = cloud.ask(NAMED, instance, ignore_hosts=[source])
    assert partition_of(cloud, target) == "part2"
    assert allocations(cloud, instance) == {source, target}


@pytest.mark.parametrize(
    ("before", "after", "flavor", "zone"),
    [("part1", "part2", NAMED, None), ("part1", "part2", SMALL, "az3"), ("part2", "part1", NAMED, "az2")],
    ids=["flavor of the second", "zone of the second", "zone of the first"],
)
def test_an_offloaded_instance_is_unshelved_where_its_flavor_or_zone_is(cloud, before, after, flavor, zone):
    source = hosts_of(cloud, before)[0]
    instance = booted(cloud, source)
    cloud.placement("delete", instance)
    target = cloud.ask(
        flavor, instance, availability_zone=zone, requested_destination=in_cell_of(cloud, source)
    )
    assert (partition_of(cloud, target), cell_of(cloud, target)) == (after, cell_of(cloud, source))
    assert allocations(cloud, instance) == {target}
    pending = cloud.running["part1"][0].hosts.pending
    uuids = {host.name: host.uuid for host in cloud.fleet.hosts}
    left = uuids[target] if after == "part1" else None
    assert eventually(lambda: getattr(pending.get(instance), "node", None) == left), "the old host is free"


@pytest.mark.parametrize(("before", "after"), [("part1", "part2"), ("part2", "part1")])
def test_an_instance_is_resized_or_migrated_into_another_partition(cloud, before, after):
    """Its conductor gives the allocation on the source to the migration, and asks for hosts after that."""
    source, migration = hosts_of(cloud, before)[0], str(uuid.uuid4())
    instance = booted(cloud, source)
    held = cloud.placement("get", instance).json()
    kept = {key: held[key] for key in ("project_id", "user_id")}
    cloud.placement(
        "put", migration, {**kept, "allocations": held["allocations"], "consumer_generation": None}
    )
    cloud.placement("delete", instance)
    ignored = hosts_of(cloud, before)
    target = cloud.ask(NAMED, instance, ignore_hosts=ignored, requested_destination=in_cell_of(cloud, source))
    assert (partition_of(cloud, target), cell_of(cloud, target)) == (after, cell_of(cloud, source))
    assert (allocations(cloud, instance), allocations(cloud, migration)) == ({target}, {source})


@pytest.mark.parametrize("partition", ["part1", "part2"])
def test_a_rebuild_is_checked_in_the_partition_of_the_instance(cloud, partition):
    host = hosts_of(cloud, partition)[0]
    hints = {"_nova_check_type": ["rebuild"]}
    assert cloud.ask(NAMED, scheduler_hints=hints, force_hosts=[host]) == host


def test_a_dry_run_goes_the_way_of_a_request(cloud):
    def spec():
        return Request([str(uuid.uuid4())], NAMED, None).spec()

    routed = DryRuns(cloud.running["part1"][0]).route(RequestContext(is_admin=True), spec(), ())
    assert (routed.record, routed.partition, routed.hosts) == (None, "part2", ["scheduler-part2-1"])
    bus = rpc_transport(cloud.conf)
    cloud.callback(bus.cleanup)  # before the virtual host goes, in which it would look for its reply queue
    asked = explain.Schedulers(bus, routed.hosts, 20)
    (answer,) = asked.ask_one("routed_dry_run", spec_obj=spec(), tried=list(routed.tried)).found.values()
    assert answer["sent_on"] is None
    decision = answer["explanation"]["decision"]
    assert (decision["partition"], decision["result"]) == ("part2", "scheduled")


def test_a_partition_that_is_killed_costs_no_request(cloud):
    """What is in its queue comes back, and the others go past it once it is not heard of."""
    cloud.killable.kill()
    begun = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        hosts = list(pool.map(lambda _: cloud.ask(NAMED), range(4)))
    assert {partition_of(cloud, host) for host in hosts} == {"part1"}
    assert time.monotonic() - begun < PATIENCE / 2
    router = cloud.running[ROUTER][0].stream.membership
    assert eventually(lambda: "part2" not in {member.partition for member in router.alive()}, 20)
    begun = time.monotonic()
    assert partition_of(cloud, cloud.ask(NAMED)) == "part1"
    assert time.monotonic() - begun < 5


def test_if_no_partition_is_heard_of_the_router_serves(cloud):
    manager, server = cloud.running["part1"]
    server.stop()
    server.wait()
    manager.stop(5)
    router = cloud.running[ROUTER][0].stream.membership
    assert eventually(lambda: [member.partition for member in router.alive()] == [ROUTER], 20)
    assert cloud.ask() in cloud.partition_of_host()
    assert decided(cloud)[""][0] == 1
