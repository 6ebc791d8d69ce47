"""Real servers with a database that can be cut off, and both schedulers on them."""

from pathlib import Path

import sqlalchemy as sa

from conductor_client.bus import Bus
from tools.rig import servers
from tools.rig.cloud import BerthSchedulerProcess, NovaSchedulerProcess, SchedulerProcess
from tools.rig.fleet import Cell
from tools.rig.nova_cloud import DATABASE_OPTIONS, NovaCloud
from tools.rig.software import Software
from tools.rig.tcp_proxy import TcpProxy

VHOST = "nova"
CELLS = 2
#: The cell whose database can be cut off.
CUT_CELL = "cell2"
MONITORING_PORTS = range(9812, 9900)

PRIORITY = "consumer_priority = 1\n"


class SwapCloud(NovaCloud):
    """A context manager that starts everything but the schedulers.

    ``monitoring`` is the URL of Berth's health checks and metrics; ``proxy`` leads to the database that is
    cut off.
    """

    nova: NovaSchedulerProcess
    berth: SchedulerProcess
    bus: Bus
    config_file: Path
    monitoring: str
    proxy: TcpProxy

    def __init__(self, directory: Path, software: Software, hosts: int) -> None:
        """Describe the cloud; it is started on entry."""
        super().__init__(directory, software, hosts, CELLS)

    def database(self, name: str) -> str:
        """Return the URL of a database; that of one cell leads through a proxy."""
        if name != CUT_CELL:
            return super().database(name)
        url = sa.make_url(super().database(name)).set(host="127.0.0.1", port=self.proxy.port, query={})
        return url.render_as_string(hide_password=False)

    def direct_database(self, cell: Cell) -> str:
        """Return the URL by which computes reach the database of their cell, also while it is cut off."""
        return super().database(cell.name)

    def consumers(self) -> int:
        """Return how many consumers the queue of requests has."""
        return self.rabbit.consumers(VHOST, "scheduler")

    def prefer_berth(self) -> None:
        """Change the configuration: Berth is to get all requests once it is started again."""
        self._configure(PRIORITY)

    def _start(self) -> None:
        super()._start()
        self._port = servers.free_port(MONITORING_PORTS)
        self.monitoring = f"http://127.0.0.1:{self._port}"
        self._transport_url = self.rabbit.vhost(VHOST)
        self._configure()
        self.bus = self.connect()
        program = self.software.program("nova-scheduler")
        self.nova = NovaSchedulerProcess(program, [self.config_file], self.directory / "nova-scheduler.out")
        self.berth = BerthSchedulerProcess(self.config_file, self.directory / "berth-scheduler.log")

    def _start_database(self) -> servers.Database:
        server = self.enter_context(servers.mariadb(tcp=True, options=DATABASE_OPTIONS))
        self.proxy = self.enter_context(TcpProxy(server.port or 0))
        return server

    def _configure(self, more: str = "") -> None:
        self.config_file = self.configure_nova(
            self._transport_url,
            f"[berth]\nmonitoring_listen = 127.0.0.1:{self._port}\n{more}",
        )
