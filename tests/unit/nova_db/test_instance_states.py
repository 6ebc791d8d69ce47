"""Whether somebody still waits for an instance, by the tables of nova."""

import pytest

from scheduler.nova_db.cells import CELL0, Cells
from scheduler.nova_db.instance_states import InstanceStates
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import build_requests, cell_mappings, instance_mappings, instances
from scheduler.request.instance_state import InstanceState

WAITING, PLACED, GIVEN_UP = InstanceState.WAITING, InstanceState.PLACED, InstanceState.GIVEN_UP
MOVING = InstanceState.MOVING
DELETED, MISSING, UNKNOWN = InstanceState.DELETED, InstanceState.MISSING, InstanceState.UNKNOWN

UUID = "7900ba8a-8511-4a08-8212-8b095944aa3f"


@pytest.fixture
def states(nova):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return InstanceStates(nova.engines, cells, CellCalls(lambda: 20.0))


def map_instance(nova, cell=None, *, requested=False, deleted=False):
    """What the API database has of the instance."""
    with nova.engines.api().begin() as connection:
        query = cell_mappings.select().where(cell_mappings.c.uuid == cell)
        row = connection.execute(query).one_or_none()
        if cell == CELL0 and row is None:
            values = {"uuid": CELL0, "name": "cell0", "database_connection": "sqlite://"}
            connection.execute(cell_mappings.insert().values(values))
            row = connection.execute(query).one()
        connection.execute(
            instance_mappings.insert().values(
                instance_uuid=UUID, cell_id=row and row.id, project_id="p", queued_for_delete=deleted
            )
        )
        if requested:
            connection.execute(build_requests.insert().values(instance_uuid=UUID, project_id="p"))


def add_instance(nova, **values):
    nova.insert(instances, uuid=UUID, **values)


BUILDS = {
    "a build that waits": ({"requested": True}, WAITING),
    "its user deleted the request": ({}, GIVEN_UP),
    "buried": ({"cell": CELL0}, GIVEN_UP),
    "deleted": ({"deleted": True, "requested": True}, DELETED),
}


@pytest.mark.parametrize(("fields", "state"), BUILDS.values(), ids=BUILDS)
def test_a_build(nova, states, fields, state):
    map_instance(nova, **fields)
    assert states.of([UUID]) == {UUID: state}


IN_A_CELL = {
    "being moved": ({"vm_state": "active", "task_state": "resize_prep", "host": "h1"}, MOVING),
    "moved": ({"vm_state": "active", "host": "h2"}, PLACED),
    "an evacuation that was given up": ({"vm_state": "error", "host": "h1"}, GIVEN_UP),
    "rescheduled by its cell": ({"vm_state": "building", "task_state": "scheduling"}, MOVING),
    "being built": ({"vm_state": "building", "task_state": "spawning", "host": "h2"}, PLACED),
    "its row is deleted": ({"vm_state": "active", "task_state": "deleting", "deleted": 7}, PLACED),
    "its compute has not taken it yet": ({"vm_state": "building"}, PLACED),
    "shelved and offloaded": ({"vm_state": "shelved_offloaded"}, GIVEN_UP),
    "a build that its compute gave up": ({"vm_state": "error"}, GIVEN_UP),
    "being unshelved": ({"vm_state": "shelved_offloaded", "task_state": "unshelving"}, MOVING),
}


@pytest.mark.parametrize(("fields", "state"), IN_A_CELL.values(), ids=IN_A_CELL)
def test_an_instance_in_a_cell(nova, states, fields, state):
    map_instance(nova, nova.cell1)
    add_instance(nova, **fields)
    assert states.of([UUID], ["h1"]) == {UUID: state}


def test_an_instance_that_nova_does_not_know(states):
    assert states.of([UUID]) == {UUID: MISSING}


def test_a_cell_that_is_not_listed_tells_nothing(nova, states):
    map_instance(nova, nova.cell1)
    states._cells.all = ()
    assert states.of([UUID]) == {UUID: UNKNOWN}


def test_without_the_api_database_nothing_is_known(nova, states, caplog):
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    assert states.of([UUID, "another"]) == {UUID: UNKNOWN, "another": UNKNOWN}
    assert "Cannot read the state of instances (2)" in caplog.text


EXPECTED = {
    "a build that waits": ({}, {"requested": True}, True),
    "its user deleted the request": ({}, {}, False),
    "buried": ({}, {"cell": CELL0}, False),
    "deleted": ({}, {"deleted": True, "requested": True}, False),
    "created in its cell": ({"vm_state": "building", "task_state": "scheduling"}, {}, True),
    "being built there": ({"vm_state": "building", "task_state": "spawning", "host": "h1"}, {}, True),
    "being built elsewhere": ({"vm_state": "building", "task_state": "spawning", "host": "h2"}, {}, False),
    "its compute has not taken it yet": ({"vm_state": "building"}, {}, True),
    "its build failed": ({"vm_state": "error"}, {}, False),
    "shelved and offloaded": ({"vm_state": "shelved_offloaded"}, {}, False),
    "being moved": ({"vm_state": "active", "task_state": "resize_prep", "host": "h2"}, {}, True),
    "being unshelved": ({"vm_state": "shelved_offloaded", "task_state": "unshelving"}, {}, True),
    "its move failed": ({"vm_state": "active", "host": "h2"}, {}, False),
    "there": ({"vm_state": "active", "host": "h1"}, {}, True),
    "its row is deleted": ({"vm_state": "active", "host": "h1", "deleted": 7}, {}, False),
}


@pytest.mark.parametrize(("row", "mapping", "expected"), EXPECTED.values(), ids=EXPECTED)
def test_whether_an_instance_is_on_its_way_to_a_host(nova, states, row, mapping, expected):
    if row:
        mapping = {"cell": nova.cell1}
        add_instance(nova, **row)
    map_instance(nova, **mapping)
    assert states.on_their_way({UUID: "h1", "unknown": "h1"}) == ({UUID} if expected else set())


def test_without_the_api_database_each_instance_may_be_on_its_way(nova, states):
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    assert states.on_their_way({UUID: "h1"}) == {UUID}


def test_an_instance_in_a_cell_that_is_not_listed_may_be_on_its_way(nova, states):
    map_instance(nova, nova.cell1)
    states._cells.all = ()
    assert states.on_their_way({UUID: "h1"}) == {UUID}
