"""Two partitions with two schedulers each, and two routers: which hosts requests get, also while processes end."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
import uuid

import psutil
import pytest

from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.rpc.context import RequestContext
from tests.support.waiting import eventually
from tools.rig.load import FLAVORS, BootRequest
from tools.rig.providers import held, send
from tools.rig.world import Daemon, RunningWorld, World

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

SMALL = FLAVORS[0]
#: The flavor that the second partition is for.
NAMED = FLAVORS[-1]

#: Groups of two members each that are asked for.
GROUPS = 12


@pytest.fixture(scope="module")
def cloud(rabbit, tmp_path_factory):
    """The schedulers of the second partition and one of two routers are in processes of their own."""
    schedulers = [
        Daemon(f"scheduler-{part}-{number}", partition=part, here=part == "part1")
        for part in ("part1", "part2")
        for number in (1, 2)
    ]
    routers = [Daemon(f"router-{number}", router=True, here=number == 1) for number in (1, 2)]
    world = World(8, partitions=("", f"flavors = {NAMED.name}"), daemons=(*schedulers, *routers))
    with RunningWorld(world, tmp_path_factory.mktemp("partitions"), rabbit) as started:
        started.ask = partial(ask, SchedulerClient.from_conf(started.bus))
        yield started


def placement(cloud, method, consumer, body=None):
    """Ask Placement for the allocations of a consumer, or change them."""
    answer = send(method, f"{cloud.placement_url}/allocations/{consumer}", body)
    answer.raise_for_status()
    return answer


def ask(client, flavor=SMALL, instance=None, **fields):
    """The host of an instance."""
    instance = instance or str(uuid.uuid4())
    spec = BootRequest([instance], flavor, None).spec()
    for name, value in fields.items():
        setattr(spec, name, value)
    context = RequestContext(user_id="u", project_id="p")
    ((selection, *_),) = client.select_destinations(context, spec, [instance])
    return selection.service_host


def partition_of(cloud, host):
    return cloud.fleet.partition_of_host()[host]


def hosts_of(cloud, partition):
    return [host for host, each in cloud.fleet.partition_of_host().items() if each == partition]


def test_requests_go_where_their_flavor_is_named_and_else_everywhere(cloud):
    assert {partition_of(cloud, cloud.ask(NAMED)) for _ in range(6)} == {"part2"}
    assert {partition_of(cloud, cloud.ask(SMALL)) for _ in range(20)} == {"part1", "part2"}


def test_a_request_for_a_host_gets_it(cloud):
    for host in (hosts_of(cloud, "part1")[0], hosts_of(cloud, "part2")[0]):
        assert cloud.ask(NAMED, force_hosts=[host]) == host


def test_a_request_goes_on_from_a_partition_without_a_host(cloud):
    ignored = hosts_of(cloud, "part2")
    assert partition_of(cloud, cloud.ask(NAMED, ignore_hosts=ignored)) == "part1"


def test_a_request_that_fits_nowhere_is_refused_by_the_last_partition(cloud):
    with pytest.raises(NoValidHost):
        cloud.ask(NAMED, ignore_hosts=[host.name for host in cloud.fleet.hosts])


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_members_of_a_group_that_are_asked_for_at_once_do_not_break_its_policy(cloud, policy):
    """Their flavors are named by two partitions."""

    def ask_for(_number):
        members = [str(uuid.uuid4()) for _ in range(2)]
        group = objects.InstanceGroup(uuid=str(uuid.uuid4()), policy=policy, members=members, hosts=[])
        asked = zip((SMALL, NAMED), members, strict=True)
        hosts = list(pool.map(lambda each: _host_or_none(cloud, *each, group), asked))
        placed = [member for member, host in zip(members, hosts, strict=True) if host]
        for member in placed:
            placement(cloud, "delete", member)
        return [host for host in hosts if host]

    with ThreadPoolExecutor(8) as pool, ThreadPoolExecutor(4) as groups:
        found = list(groups.map(ask_for, range(GROUPS)))
    different = 1 if policy == "affinity" else 2
    assert [hosts for hosts in found if hosts and len(set(hosts)) != min(different, len(hosts))] == []
    assert sum(map(len, found)) > GROUPS


def _host_or_none(cloud, flavor, instance, group):
    try:
        return cloud.ask(flavor, instance, instance_group=group)
    except NoValidHost:
        return None


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
    return {names[provider] for provider in held(cloud.placement_url, consumer)}


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
    placement(cloud, "delete", instance)
    target = cloud.ask(
        flavor, instance, availability_zone=zone, requested_destination=in_cell_of(cloud, source)
    )
    assert (partition_of(cloud, target), cell_of(cloud, target)) == (after, cell_of(cloud, source))
    assert allocations(cloud, instance) == {target}


@pytest.mark.parametrize(("before", "after"), [("part1", "part2"), ("part2", "part1")])
def test_an_instance_is_resized_or_migrated_into_another_partition(cloud, before, after):
    """Its conductor gives the allocation on the source to the migration, and asks for hosts after that."""
    source, migration = hosts_of(cloud, before)[0], str(uuid.uuid4())
    instance = booted(cloud, source)
    found = placement(cloud, "get", instance).json()
    kept = {key: found[key] for key in ("project_id", "user_id")}
    placement(
        cloud, "put", migration, {**kept, "allocations": found["allocations"], "consumer_generation": None}
    )
    placement(cloud, "delete", instance)
    ignored = hosts_of(cloud, before)
    target = cloud.ask(NAMED, instance, ignore_hosts=ignored, requested_destination=in_cell_of(cloud, source))
    assert (partition_of(cloud, target), cell_of(cloud, target)) == (after, cell_of(cloud, source))
    assert (allocations(cloud, instance), allocations(cloud, migration)) == ({target}, {source})


@pytest.mark.parametrize("partition", ["part1", "part2"])
def test_a_rebuild_is_checked_in_the_partition_of_the_instance(cloud, partition):
    host = hosts_of(cloud, partition)[0]
    hints = {"_nova_check_type": ["rebuild"]}
    assert cloud.ask(NAMED, scheduler_hints=hints, force_hosts=[host]) == host


def asked_at_once(cloud, number, flavor=SMALL):
    """The hosts of so many instances, by instance."""
    instances = [str(uuid.uuid4()) for _ in range(number)]
    with ThreadPoolExecutor(8) as pool:
        hosts = pool.map(lambda instance: cloud.ask(flavor, instance), instances)
        return dict(zip(instances, hosts, strict=True))


def is_true(cloud, placed):
    """Whether Placement has each instance on its host alone."""
    return {instance: allocations(cloud, instance) for instance in placed} == {
        instance: {host} for instance, host in placed.items()
    }


@pytest.mark.parametrize("which", ["scheduler", "router"])
def test_a_process_that_is_killed_in_a_burst_costs_no_request(cloud, which):
    process = cloud.schedulers[2 if which == "scheduler" else 5]
    lives = process.log.read_text().count("takes requests")
    with ThreadPoolExecutor(1) as pool:
        burst = pool.submit(asked_at_once, cloud, 30)
        process.kill()
        assert is_true(cloud, burst.result(300))
    process.start()
    process.wait_until_ready(times=lives + 1)


def test_a_partition_that_is_frozen_costs_its_callers_some_seconds_and_keeps_nothing(cloud):
    frozen = [psutil.Process(each.pid) for each in cloud.schedulers[2:4]]
    for process in frozen:
        process.suspend()
    try:
        placed = asked_at_once(cloud, 8, NAMED)
        assert {partition_of(cloud, host) for host in placed.values()} == {"part1"}
    finally:
        for process in frozen:
            process.resume()
    assert eventually(lambda: partition_of(cloud, cloud.ask(NAMED)) == "part2", 120), "it answers again"
    assert is_true(cloud, placed), "what it was asked for meanwhile is not there too"


def test_a_call_is_answered_with_what_a_partition_claimed_before_it_was_frozen(cloud):
    """The claim is written, and the reply is not sent."""
    instance, host = str(uuid.uuid4()), hosts_of(cloud, "part2")[0]
    node = next(each.uuid for each in cloud.fleet.hosts if each.name == host)
    body = {
        "allocations": {node: {"resources": NAMED.amounts}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
    }
    placement(cloud, "put", instance, body)
    frozen = [psutil.Process(each.pid) for each in cloud.schedulers[2:4]]
    for process in frozen:
        process.suspend()
    try:
        assert cloud.ask(NAMED, instance) == host
    finally:
        for process in frozen:
            process.resume()
    assert eventually(lambda: partition_of(cloud, cloud.ask(NAMED)) == "part2", 120), "it answers again"
    assert allocations(cloud, instance) == {host}
