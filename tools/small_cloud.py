"""Run the services of a small cloud in one process: Placement, databases, scheduler, conductors, computes.

The services and their connections are the same as in separate processes; only the addresses differ: SQLite
files, a Placement on loopback, and an in-memory message bus or a RabbitMQ with a virtual host for each cell.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sqlalchemy as sa

from conductor_client import fake_compute, journal, observers
from conductor_client.bus import Bus
from conductor_client.cell_conductor import CellConductor
from conductor_client.cells import CellMap
from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from conductor_client.super_conductor import CellConductors, SuperConductor
from scheduler.manager import SchedulerManager
from scheduler.rpc import notifications, server, transport
from tools import vhosts
from tools.cloud import Cloud
from tools.embedded_placement import EmbeddedPlacement
from tools.fleet import Cell

IN_MEMORY = "fake://"


class SmallCloud(Cloud):
    """A context manager that starts the services on entry and stops them on exit.

    directory: where databases and configuration are created. rabbit: URL of a RabbitMQ, or None for the
    in-memory bus.
    """

    def __init__(
        self, directory: str | Path, hosts: int, cells: int, failures=None, rabbit: str | None = None
    ):
        super().__init__(directory)
        # Never the virtual host of the URL: on a cloud's broker the scheduler would take real requests
        self.rabbit = vhosts.of_run(rabbit) if rabbit else None
        self.failures = failures
        names = [f"cell{number}" for number in range(1, cells + 1)]
        self.make_fleet(hosts, [Cell(name, self.database(name), self._cell_url(name)) for name in names])
        self.conductor = self.client = None
        self._buses = []
        self._servers = []

    def _cell_url(self, name):
        return vhosts.sibling(self.rabbit, name) if self.rabbit else IN_MEMORY

    def _start(self):
        self.placement_url = self.enter_context(EmbeddedPlacement(self.fill_placement()))
        self.write_databases()
        self.configure(self.rabbit or IN_MEMORY)
        if self.rabbit:
            urls = [self.rabbit, *(cell.transport_url for cell in self.fleet.cells)]
            self.enter_context(vhosts.made(urls))
        self.callback(self._close_buses)
        bus = self._bus(self.rabbit)
        self._start_scheduler()
        self._start_super_conductor(bus)
        for cell in self.fleet.cells:
            self._start_cell(bus, cell)

    def _engine(self, url):
        engine = sa.create_engine(url)
        self.callback(engine.dispose)
        return engine

    def _bus(self, url, exchange=None):
        bus = Bus(self.conf, url or IN_MEMORY, exchange)
        self._buses.append(bus)
        return bus

    def _cell_bus(self, cell):
        if self.rabbit:
            return self._bus(cell.transport_url)
        return self._bus(IN_MEMORY, exchange=f"nova-{cell.name}")

    def _start_scheduler(self):
        manager = SchedulerManager(self.conf, notifications.Notifications(()))
        manager.start()
        self.callback(manager.stop, 10)
        connection = transport.rpc_transport(self.conf)
        self.callback(connection.cleanup)
        self.callback(self._stop_servers)
        self._serve(server.build(self.conf, connection, manager))

    def _start_super_conductor(self, bus):
        cells = CellMap(self._engine(self.conf.api_database.connection), self.conf.transport_url)
        self.conductor = SuperConductor(SchedulerClient.from_conf(bus), cells, CellConductors(self._cell_bus))
        self._serve(bus.server(journal.TOPIC, "super", self.conductor))
        self.client = bus.client(journal.TOPIC, journal.VERSION)

    def _start_cell(self, api_bus, cell):
        bus, reports = self._cell_bus(cell), journal.Reporter(api_bus)
        allocations = Allocations(placement_adapter(self.conf))
        conductor = CellConductor(
            bus.client(fake_compute.TOPIC, fake_compute.VERSION),
            allocations,
            reports,
            self.conf.scheduler.max_attempts,
            cell.name,
        )
        compute = fake_compute.FakeCompute(
            bus.client(journal.TOPIC, journal.VERSION),
            allocations,
            reports,
            self.failures,
            [
                observers.InstanceReports(SchedulerClient.from_conf(api_bus)),
                observers.UsageRows(self._engine(cell.database_url)),
            ],
            cell=cell.name,
        )
        self._serve(bus.server(journal.TOPIC, "conductor", conductor))
        self._serve(bus.server(fake_compute.TOPIC, "computes", compute))

    def _serve(self, rpc_server):
        rpc_server.start()
        self._servers.append(rpc_server)

    def _stop_servers(self):
        # The scheduler stops last: a conductor that waits for its answer would wait until the call times out
        scheduler, callers = self._servers[:1], self._servers[1:]
        with ThreadPoolExecutor() as pool:
            pool.map(_stop, callers)
        for rpc_server in scheduler:
            _stop(rpc_server)

    def _close_buses(self):
        for bus in self._buses:
            bus.close()


def _stop(rpc_server):
    rpc_server.stop()
    rpc_server.wait()
