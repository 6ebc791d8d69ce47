"""All stand-ins together over the in-memory driver, with a scripted scheduler."""

import contextlib

import oslo_messaging as messaging

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.cell_conductor import CellConductor
from conductor_client.cells import Cell, client_of_each_cell
from conductor_client.client import SchedulerClient
from conductor_client.fake_compute import Failures, FakeCompute
from conductor_client.journal import Journal, Reporter
from conductor_client.super_conductor import SuperConductor
from scheduler.rpc.serializer import ObjectSerializer
from tests.unit.conductor_client.doubles import (
    Allocations,
    Rows,
    Scheduler,
    context,
    make_conf,
    make_selection,
    make_spec,
    new_uuid,
    private_bus,
)


class Running(contextlib.ExitStack):
    def serve(self, server):
        server.start()
        self.callback(server.wait)
        self.callback(server.stop)


class OneCell:
    def of_host(self, _host):
        return Cell("u", "one", "fake://")


def start(running, answer, allocations, failures):
    """A cloud of one cell; returns the super-conductor."""
    bus = private_bus()
    cell_bus = Bus(make_conf(), exchange=f"{bus.exchange}-one")
    scheduler = messaging.get_rpc_server(
        bus.transport,
        messaging.Target(topic="scheduler", server="s", exchange=bus.exchange),
        [Scheduler(answer)],
        serializer=ObjectSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
    client, reports = SchedulerClient(bus), Reporter(bus, "one")
    conductors = client_of_each_cell(lambda _cell: cell_bus, journal.TOPIC)
    conductor = SuperConductor(client, OneCell(), conductors, Journal())
    compute_client = cell_bus.client(fake_compute.TOPIC, journal.VERSION)
    cell_conductor = CellConductor(compute_client, allocations, reports, 3)
    cell_client = cell_bus.client(journal.TOPIC, journal.VERSION)
    compute = FakeCompute(cell_client, allocations, reports, client, Rows(), failures)
    for server in (
        scheduler,
        bus.server(journal.TOPIC, "super", conductor),
        cell_bus.server(journal.TOPIC, "cell", cell_conductor),
        cell_bus.server(fake_compute.TOPIC, "compute", compute),
    ):
        running.serve(server)
    return bus, conductor


def test_failed_builds_move_on_to_alternates_until_one_succeeds():
    first, second, lost = new_uuid(), new_uuid(), new_uuid()
    answer = [
        [make_selection("bad1"), make_selection("full"), make_selection("good")],
        [make_selection("good"), make_selection("bad1")],
        [make_selection("bad1"), make_selection("bad2")],
    ]
    allocations = Allocations(full=["full"])
    allocations.held = {first: "bad1", second: "good", lost: "bad1"}
    failures = Failures(hosts=frozenset({"bad1", "bad2"}))
    with Running() as running:
        bus, conductor = start(running, answer, allocations, failures)
        uuids = [first, second, lost]
        client = bus.client(journal.TOPIC, journal.VERSION)
        client.cast(context(), "build_instances", request_spec=make_spec(), instance_uuids=uuids)
        assert conductor.journal.wait(uuids, 30)
    records = conductor.journal.records(uuids)
    assert [(record.state, record.host, record.attempts) for record in records] == [
        (journal.ACTIVE, "good", 2),
        (journal.ACTIVE, "good", 1),
        (journal.ERROR, None, 2),
    ]
    assert allocations.held == {first: "good", second: "good"}
