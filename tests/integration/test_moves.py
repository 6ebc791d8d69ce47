"""Resizes, live migrations, evacuations and unshelving by the stand-ins, with a real scheduler and Placement.

After each step Placement is compared with what each consumer should hold: nothing more, nothing less.
"""

import logging
import uuid

import pytest

from conductor_client import journal
from conductor_client.claims import Allocations
from conductor_client.fake_compute import Failures
from scheduler.rpc.context import RequestContext
from tools.rig import truth
from tools.rig.load import FLAVORS, PROJECT, USER, BootRequest, Flavor
from tools.rig.providers import send
from tools.rig.world import Daemon, RunningWorld, World

SMALL, LARGE = FLAVORS[0], FLAVORS[2]
HOSTS = 8
TIMEOUT = 30

pytestmark = pytest.mark.slow


class Moves:
    """An instance in a cloud of two cells, and the moves of it."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.context = RequestContext(user_id=USER, project_id=PROJECT)
        self.allocations = Allocations.from_conf(cloud.conf)
        self.providers = {host.name: host.uuid for host in cloud.fleet.hosts}
        self.instance = str(uuid.uuid4())
        self.migration = ""
        spec = BootRequest([self.instance], SMALL, None).spec()
        self._call("build_instances", request_spec=spec, instance_uuids=[self.instance])
        self.host = self.ended(self.instance).host
        self.truth_is({self.instance: (self.host, SMALL)})

    def _call(self, method, **arguments):
        self.cloud.client.prepare(timeout=TIMEOUT).call(self.context, method, **arguments)

    def move(self, method, flavor=SMALL):
        """Ask for a move, and return its record once it has ended."""
        self.migration = str(uuid.uuid4())
        spec = BootRequest([self.instance], flavor, None).spec()
        self._call(
            method,
            instance_uuid=self.instance,
            migration_uuid=self.migration,
            request_spec=spec,
            host=self.host,
        )
        return self.ended(self.migration)

    def ended(self, consumer):
        assert self.cloud.journal.wait([consumer], TIMEOUT)
        (record,) = self.cloud.journal.records([consumer])
        return record

    def ask_compute(self, method, **arguments):
        cells = {host.name: host.cell for host in self.cloud.fleet.hosts}
        compute = self.cloud.computes(cells[self.host])
        assert compute.call(self.context, method, **arguments)

    def cell_of(self, host):
        return next(each.cell.name for each in self.cloud.fleet.hosts if each.name == host)

    def truth_is(self, expected):
        """Compare all of Placement with {consumer: (host, flavor)}."""
        holding = {
            consumer: (self.providers[host], BootRequest([consumer], flavor, None).amounts)
            for consumer, (host, flavor) in expected.items()
        }
        assert truth.check(self.cloud.placement_url, self.cloud.fleet.providers(), holding).problems == []


class Failing:
    """``Failures`` that a test can replace."""

    def __init__(self):
        self.now = Failures()

    def reason(self, instance_uuid, host):
        return self.now.reason(instance_uuid, host)

    def of_move(self, host, attempt):
        return self.now.of_move(host, attempt)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    world = World(HOSTS, bus="memory", daemons=(Daemon(here=True),), conductors="here", failures=Failing())
    with RunningWorld(world, tmp_path_factory.mktemp("moves")) as running:
        yield running


@pytest.fixture
def moves(cloud):
    """Return what makes an instance, in a cloud whose computes fail as told from now on."""
    made = []

    def make(**failures):
        cloud.world.failures.now = Failures(**failures)
        made.append(Moves(cloud))
        return made[-1]

    yield make
    for each in made:
        assert each.allocations.remove(each.instance)


def hosts_of(record, state):
    return [event.host for event in record.events if event.state == state]


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_resize_that_fails_on_its_host_falls_back_to_an_alternate_of_the_cell(moves, confirmed):
    here = moves(moves=1)
    record = here.move("resize_instance", LARGE)
    assert (record.state, record.attempts) == (journal.ACTIVE, 2)
    (failed,) = hosts_of(record, journal.FAILED)
    assert len({here.host, failed, record.host}) == 3
    assert {here.cell_of(host) for host in (failed, record.host)} == {here.cell_of(here.host)}
    here.truth_is({here.migration: (here.host, SMALL), here.instance: (record.host, LARGE)})

    if confirmed:
        here.ask_compute("confirm_resize", migration_uuid=here.migration)
        here.truth_is({here.instance: (record.host, LARGE)})
    else:
        spec = BootRequest([here.instance], SMALL, None).spec()
        back = {"instance_uuid": here.instance, "host": here.host, "node": f"{here.host}.example.com"}
        here.ask_compute("revert_resize", migration_uuid=here.migration, request_spec=spec, **back)
        here.truth_is({here.instance: (here.host, SMALL)})


def test_a_resize_that_fails_everywhere_leaves_the_instance_what_it_had(moves):
    here = moves(moves=9)
    record = here.move("resize_instance", LARGE)
    assert (record.state, record.attempts) == (journal.ERROR, 3)
    assert "All 3 attempts" in record.last.detail or "No alternate" in record.last.detail
    here.truth_is({here.instance: (here.host, SMALL)})


def test_a_resize_for_which_there_is_no_host_leaves_the_instance_what_it_had(moves):
    here = moves()
    record = here.move("resize_instance", Flavor(1, "huge", 4096, 1024, 1))
    assert record.state == journal.ERROR
    assert record.last.detail.startswith("No valid host was found.")
    here.truth_is({here.instance: (here.host, SMALL)})


def test_a_live_migration_goes_on_to_the_next_host_if_one_cannot_have_it(moves):
    here = moves(moves=1)
    record = here.move("live_migrate_instance")
    assert (record.state, record.attempts) == (journal.ACTIVE, 2)
    assert len({here.host, record.host, *hosts_of(record, journal.FAILED)}) == 3
    here.truth_is({here.instance: (record.host, SMALL)})


def test_a_live_migration_that_no_host_can_have_ends_where_it_began(moves):
    here = moves(moves=HOSTS)
    record = here.move("live_migrate_instance")
    assert record.state == journal.ERROR
    assert len(hosts_of(record, journal.FAILED)) == HOSTS / 2 - 1
    here.truth_is({here.instance: (here.host, SMALL)})


def test_an_evacuated_instance_holds_both_hosts_until_the_dead_one_returns(moves):
    here = moves()
    record = here.move("rebuild_instance")
    assert record.state == journal.ACTIVE
    held = here.allocations.held(here.instance)
    assert held.keys() == {here.providers[here.host], here.providers[record.host]}
    here.ask_compute("clean_evacuated", instance_uuid=here.instance, provider=here.providers[here.host])
    here.truth_is({here.instance: (record.host, SMALL)})


def test_an_evacuation_that_placement_refuses_for_its_failed_host_is_tried_once_and_names_that_host(
    moves, caplog
):
    """The CPUs that one allocation may have were made fewer since the boot."""
    here = moves()
    inventories = f"{here.cloud.placement_url}/resource_providers/{here.providers[here.host]}/inventories"
    before = send("GET", inventories).json()
    less = {**before["inventories"], "VCPU": {**before["inventories"]["VCPU"], "min_unit": 60}}
    assert send("PUT", inventories, {**before, "inventories": less}).ok
    try:
        with caplog.at_level(logging.INFO):
            assert here.move("rebuild_instance").state == journal.ERROR
    finally:
        now = send("GET", inventories).json()
        assert send("PUT", inventories, {**now, "inventories": before["inventories"]}).ok
    (summary,) = [
        line for line in caplog.messages if line.startswith(f"No host for instance {here.instance}")
    ]
    assert f"1 claim was refused, the last on host {here.host}: " in summary
    here.truth_is({here.instance: (here.host, SMALL)})


def test_an_unshelved_instance_holds_its_new_host(moves):
    here = moves()
    assert here.allocations.remove(here.instance)
    record = here.move("unshelve_instance")
    assert record.state == journal.ACTIVE
    here.truth_is({here.instance: (record.host, SMALL)})


@pytest.mark.parametrize("method", ["rebuild_instance", "unshelve_instance"])
def test_what_a_compute_was_given_for_an_instance_that_it_cannot_take_is_given_back(moves, method):
    here = moves(moves=1)
    if method == "unshelve_instance":
        here.allocations.remove(here.instance)
    assert here.move(method).state == journal.ERROR
    here.truth_is({here.instance: (here.host, SMALL)} if method == "rebuild_instance" else {})
