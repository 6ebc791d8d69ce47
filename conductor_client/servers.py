"""The RPC servers of the stand-ins, of the parts that they are made of."""

from collections.abc import Callable

from oslo_config import cfg
import oslo_messaging as messaging
import sqlalchemy as sa

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.cell_conductor import CellConductor
from conductor_client.cell_rows import ComputeRows
from conductor_client.cells import Cell, CellMap, client_of_each_cell
from conductor_client.claims import Allocations
from conductor_client.client import SchedulerClient
from conductor_client.fake_compute import Failures, FakeCompute
from conductor_client.journal import Journal, Reporter
from conductor_client.move_conductor import MoveConductor
from conductor_client.super_conductor import SuperConductor


def stop(server: messaging.MessageHandlingServer) -> None:
    """Stop a server, and wait until what it has begun is done."""
    server.stop()
    server.wait()


def super_conductor(
    conf: cfg.ConfigOpts, engine: sa.Engine, bus: Bus, open_bus: Callable[[Cell], Bus], records: Journal
) -> messaging.MessageHandlingServer:
    """Return the server of the super-conductor.

    Args:
        engine: Of the API database, which has the cells.
        open_bus: Connects to the bus of a cell.
        records: What becomes of instances.
    """
    cells = CellMap(engine, conf.transport_url)
    scheduler = SchedulerClient.from_conf(bus)
    return bus.server(
        journal.TOPIC,
        conf.host,
        SuperConductor(scheduler, cells, client_of_each_cell(open_bus, journal.TOPIC), records),
        MoveConductor(
            scheduler,
            cells,
            client_of_each_cell(open_bus, fake_compute.TOPIC),
            Allocations.from_conf(conf),
            records,
            conf.scheduler.max_attempts,
        ),
    )


def of_cell(
    conf: cfg.ConfigOpts, bus: Bus, api_bus: Bus, cell: str, engine: sa.Engine, failures: Failures
) -> list[messaging.MessageHandlingServer]:
    """Return the servers of the computes and the conductor of a cell, which write to its database."""
    allocations, reports = Allocations.from_conf(conf), Reporter(api_bus, cell)
    computes = bus.client(fake_compute.TOPIC, journal.VERSION)
    compute = FakeCompute(
        bus.client(journal.TOPIC, journal.VERSION),
        allocations,
        reports,
        SchedulerClient.from_conf(api_bus),
        ComputeRows(engine),
        failures,
    )
    conductor = CellConductor(computes, allocations, reports, conf.scheduler.max_attempts)
    return [
        bus.server(fake_compute.TOPIC, conf.host, compute),
        bus.server(journal.TOPIC, conf.host, conductor),
    ]
