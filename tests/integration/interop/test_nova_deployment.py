"""Berth in a deployment of a real nova: its databases, its conductor, its aggregates; and swapped with its scheduler."""

from functools import partial

import pytest

from scheduler import conf as options
from scheduler.claims.doubts import Doubts
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.instance_states import InstanceStates
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_service.first_scheduler import FirstScheduler
from scheduler.nova_service.service_record import OwnService
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.client import PlacementClient
from scheduler.placement.write_policy import LATE_WRITE_WINDOW, Timing
from tests.integration.interop.nova_deployment import NovaDeployment
from tests.support import forked
from tests.support.clock import Clock
from tests.support.idle_loop import IdleLoop
from tests.support.waiting import eventually
from tools.rig import providers
from tools.rig.building import Building
from tools.rig.schedulers import NovaSchedulerProcess
from tools.rig.world import World

pytestmark = [pytest.mark.interop, pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

SMALL = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}
LARGE = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 1}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, rabbit, nova):
    directory = tmp_path_factory.mktemp("nova")
    with NovaDeployment(World(), directory, rabbit, nova) as running:
        yield running


@pytest.fixture(scope="module")
def seen(cloud):
    """What nova's conductor saw."""
    return cloud.run_nova("nova_conductor")


def held(cloud, consumer):
    """What a consumer holds: host name -> amounts."""
    names = {host.uuid: host.name for host in cloud.fleet.hosts}
    found = providers.held(cloud.placement_url, consumer)
    return {names[provider]: amounts for provider, amounts in found.items()}


def cell_of(cloud, host):
    return next(one.cell.name for one in cloud.fleet.hosts if one.name == host)


def test_boot(cloud, seen):
    for one in seen["boot"]:
        assert held(cloud, one["instance"]) == {one["host"]: SMALL}
        assert len(one["alternates"]) == 2
        assert {cell_of(cloud, host) for host in one["alternates"]} == {cell_of(cloud, one["host"])}


def test_nova_reads_the_selections_of_a_boot(cloud, seen):
    hosts = {host.name: host for host in cloud.fleet.hosts}
    for one in seen["boot"]:
        assert one["answer"][0]["claim"] == {hosts[one["host"]].uuid: {"resources": SMALL}}
        assert [each["service_host"] for each in one["answer"]] == [one["host"], *one["alternates"]]
        for each in one["answer"]:
            host = hosts[each["service_host"]]
            assert (each["nodename"], each["compute_node_uuid"], each["cell"]) == (
                host.nodename,
                host.uuid,
                host.cell.name,
            )
            assert (each["version"], each["allocation_request_version"]) == ("1.1", "1.36")


def test_boot_that_fits_nowhere_is_buried_with_the_reason(cloud, seen):
    one = seen["boot_that_fits_nowhere"]
    assert (one["cell"], one["state"]) == ("cell0", "error")
    assert one["fault"] == [500, "No valid host was found. "]
    assert held(cloud, one["instance"]) == {}


def test_what_a_buried_build_holds_is_released(cloud, seen):
    """Whoever wrote it."""
    instance, host = seen["boot_that_fits_nowhere"]["instance"], cloud.fleet.hosts[0]
    wanted = {"allocations": {host.uuid: {"resources": SMALL}}, "consumer_generation": None}
    body = {**wanted, "project_id": "project", "user_id": "user"}
    url = f"{cloud.placement_url}/allocations/{instance}"
    assert providers.send("PUT", url, body).status_code == 204
    conf = options.load(["--config-file", str(cloud.config_file)])
    engines = Engines(conf)
    cells = Cells(engines, conf)
    cells.load()
    clock, loop = Clock(), IdleLoop()
    writer = AllocationWriter(PlacementClient.from_conf(conf), timing=Timing(clock))
    states = InstanceStates(engines, cells, CellCalls(lambda: 30.0))
    doubts = Doubts(writer, states.of, make_loop=loop.take)
    doubts.note_given_up(FirstScheduler(conf, engines, OwnService(conf, engines).leads).builds_given_up())
    loop.work()
    assert held(cloud, instance) == {host.name: SMALL}
    clock.now += LATE_WRITE_WINDOW
    loop.work()
    assert held(cloud, instance) == {}
    engines.dispose()


def test_boot_of_a_group_whose_members_are_kept_apart(seen):
    hosts = seen["boot_of_a_group"]["hosts"]
    assert len(hosts) == len(set(hosts)) == 4


def test_resize(cloud, seen):
    one = seen["resize"]
    assert held(cloud, one["instance"]) == {one["host"]: LARGE}
    assert held(cloud, one["migration"]) == {one["source"]: SMALL}
    assert cell_of(cloud, one["host"]) == cell_of(cloud, one["source"])
    assert one["alternates"] == 2


def test_live_migration(cloud, seen):
    one = seen["live_migrate"]
    assert one["host"] != one["source"]
    assert cell_of(cloud, one["host"]) == cell_of(cloud, one["source"])
    assert held(cloud, one["instance"]) == {one["host"]: SMALL}
    assert held(cloud, one["migration"]) == {one["source"]: SMALL}


def test_evacuation_keeps_what_is_held_on_the_failed_host(cloud, seen):
    one = seen["evacuate"]
    assert one["host"] != one["source"]
    assert held(cloud, one["instance"]) == {one["host"]: SMALL, one["source"]: SMALL}


def test_rebuild_with_a_new_image_stays_where_it_is(cloud, seen):
    one = seen["rebuild"]
    assert one["host"] == one["source"]
    assert held(cloud, one["instance"]) == {one["source"]: SMALL}


def test_unshelve(cloud, seen):
    one = seen["unshelve"]
    assert held(cloud, one["instance"]) == {one["host"]: SMALL}


def test_a_zone_is_known_as_soon_as_nova_has_made_it_and_gone_as_soon_as_it_is_deleted(seen):
    one = seen["aggregates"]
    assert one["chosen"] == one["host"]
    assert one["zones"] == ["made-by-nova", "nova"]


def test_the_daemon_complains_of_nothing(cloud, seen):
    """It understands what nova casts, too."""
    lines = cloud.scheduler.text().splitlines()
    bad = [line for line in lines if " ERROR " in line or " WARNING " in line or "Traceback" in line]
    assert [line for line in bad if "OWNER_NOVA" not in line] == []
    # before nova 33 computes do not report this trait
    assert len(bad) <= 1


@pytest.mark.parametrize("command", [["upgrade", "check"], ["audit"]], ids=" ".join)
def test_the_checks_for_operators_understand_the_databases(cloud, seen, command):
    words = ("-m", "scheduler.operators.programs", "berth-status", "--config-file", cloud.config_file)
    done = forked.run(*words, *command)
    assert done.returncode == 0, done.stdout


class Swap:
    """Starts and stops schedulers while instances are built."""

    def __init__(self, cloud):
        self._cloud = cloud
        program = cloud.nova.python.with_name("nova-scheduler")
        self.nova = NovaSchedulerProcess(program, cloud.nova_configuration, cloud.directory / "nova.log")

    def takes_all(self):
        """Arguments of a scheduler of ours that leaves no requests to nova's: that loses some while it stops."""
        path = self._cloud.directory / "priority.conf"
        path.write_text("[berth]\nconsumer_priority = 1\n")
        return ["--config-file", self._cloud.config_file, "--config-file", path]

    def wait_for(self, nova=0, berth=0):
        """Wait until so many schedulers of each kind take requests."""
        wanted = nova + 2 * berth  # one of ours has two consumers
        look = partial(self._cloud.rabbit.consumers, self._cloud.vhost, "scheduler")
        assert eventually(lambda: look() == wanted), "No such number"

    def answers(self, building):
        """Wait until twenty more instances are built."""
        wanted = len(building.answers) + 20
        assert eventually(lambda: len(building.answers) >= wanted), "Too few answers"


def placed(process):
    """How many requests a scheduler of ours has served."""
    return process.text().count("Placed instance")


def test_a_live_swap_there_and_back_loses_and_doubles_nothing(cloud, seen):
    swap, before = Swap(cloud), placed(cloud.scheduler)
    others = providers.consumers(cloud.placement_url, cloud.fleet.providers())
    try:
        with Building(cloud, cloud.bus, callers=4) as building:
            swap.nova.start()
            swap.wait_for(nova=1, berth=1)
            alone = placed(cloud.scheduler) - before
            swap.answers(building)
            assert cloud.scheduler.stop() == 0
            swap.wait_for(nova=1)
            swap.answers(building)
            by_nova = len(building.answers) - placed(cloud.scheduler) + before
            again = cloud.run("scheduler.cmd.scheduler", *swap.takes_all(), name="again")
            swap.wait_for(nova=1, berth=1)  # from now on nova-scheduler has no requests to lose
            assert swap.nova.stop() == 0
            swap.wait_for(berth=1)
            swap.answers(building)
    finally:
        swap.nova.kill()
    assert building.problems(others) == []
    # while both served, requests that Berth could begin were its own
    assert by_nova >= 20
    assert placed(cloud.scheduler) - before > alone
    assert placed(again) >= 40
