"""What the audit finds of builds that were given up is released by the sweep, on each kind of database."""

from datetime import timedelta

import pytest

from scheduler.claims.doubts import Doubts
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.instance_states import InstanceStates
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_service.first_scheduler import FirstScheduler
from scheduler.nova_service.service_record import OwnService
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.write_policy import LATE_WRITE_WINDOW, Timing
from tests.support.clock import Clock
from tests.support.idle_loop import IdleLoop

MINUTE = timedelta(minutes=1)


@pytest.fixture
def sweep(cloud, client):
    conf, engines = cloud.nova.conf, cloud.nova.engines
    cells = Cells(engines, conf)
    cells.load()
    cloud.nova.add_service(conf.host, binary="nova-scheduler")
    states = InstanceStates(engines, cells, CellCalls(lambda: 30.0))
    clock, loop = Clock(), IdleLoop()
    writer = AllocationWriter(client, timing=Timing(clock))
    doubts = Doubts(writer, states.of, make_loop=loop.take)

    def run():
        doubts.note_given_up(FirstScheduler(conf, engines, OwnService(conf, engines).leads).builds_given_up())
        clock.now += LATE_WRITE_WINDOW
        loop.work()

    return run


def test_what_given_up_builds_hold_is_released_and_nothing_else(cloud, sweep):
    host = cloud.host("a")
    builds = [cloud.instance(None, cell=cloud.cell0, vm_state="error", age=MINUTE) for _ in range(3)]
    placed = cloud.instance("a", age=MINUTE)
    for instance in builds:
        cloud.mapping(instance, cloud.cell0)
    cloud.mapping(placed, cloud.nova.cell1)
    for instance in (*builds[:2], placed):
        cloud.holds(instance, host)
    sweep()
    assert [bool(cloud.held(one)) for one in (*builds, placed)] == [False, False, False, True]
