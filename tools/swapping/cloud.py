"""The rig of the benchmarks with a database that can be cut off, and both schedulers in it."""

from pathlib import Path

import sqlalchemy as sa

from conductor_client.bus import Bus
from tools.rig import servers
from tools.rig.cloud import BerthSchedulerProcess, NovaSchedulerProcess, SchedulerProcess
from tools.rig.nova_cloud import DATABASE_OPTIONS, NOVA_SECTIONS, Rig
from tools.rig.software import Software
from tools.rig.tcp_proxy import Direction, Passage, TcpProxy

VHOST = "nova"
CELLS = 2
#: The cell whose database can be cut off.
CUT_CELL = "cell2"
MONITORING_PORTS = range(9812, 9900)

BERTH_SECTIONS = """\
[berth]
monitoring_listen = 127.0.0.1:{port}
"""
PRIORITY = "consumer_priority = 1\n"


class SwapCloud(Rig):
    """A context manager that starts everything but the schedulers.

    Attributes:
        nova: nova-scheduler.
        berth: Berth.
        bus: Where both answer.
        config_file: The configuration of both.
        monitoring: The URL of Berth's health checks and metrics.
    """

    nova: NovaSchedulerProcess
    berth: SchedulerProcess
    bus: Bus
    config_file: Path
    monitoring: str
    _proxy: TcpProxy

    def __init__(self, directory: Path, software: Software, hosts: int) -> None:
        """Describe the cloud; it is started on entry."""
        super().__init__(directory, software, hosts, CELLS)

    def database(self, name: str) -> str:
        """Return the URL of a database; that of one cell leads through a proxy."""
        if name != CUT_CELL:
            return super().database(name)
        url = sa.make_url(super().database(name)).set(host="127.0.0.1", port=self._proxy.port, query={})
        return url.render_as_string(hide_password=False)

    def direct_database(self, name: str) -> str:
        """Return the URL of a database by which its computes reach it, also while it is cut off."""
        return super().database(name)

    def cut_off(self) -> None:
        """Let nothing pass between everybody and the database of the cell."""
        self._proxy.disturb(Passage.HOLD, *Direction)

    def heal(self) -> None:
        """Let everything pass again."""
        self._proxy.heal()

    def consumers(self) -> int:
        """Return how many schedulers take requests."""
        return self.rabbit.consumers(VHOST, "scheduler")

    def prefer_berth(self) -> None:
        """Change the configuration: Berth is to get all requests once it is started again."""
        self._configure(PRIORITY)

    def _start(self) -> None:
        super()._start()
        port = servers.free_port(MONITORING_PORTS)
        self.monitoring = f"http://127.0.0.1:{port}"
        self._transport_url = self.rabbit.vhost(VHOST)
        self._configure()
        self.bus = Bus(self.conf)
        self.callback(self.bus.close)
        program = self.software.program("nova-scheduler")
        self.nova = NovaSchedulerProcess(program, [self.config_file], self.directory / "nova-scheduler.out")
        self.berth = BerthSchedulerProcess(self.config_file, self.directory / "berth-scheduler.log")

    def _start_database(self) -> servers.Database:
        server = self.enter_context(servers.mariadb(tcp=True, options=DATABASE_OPTIONS))
        self._proxy = self.enter_context(TcpProxy(server.port or 0))
        return server

    def _configure(self, more: str = "") -> None:
        port = self.monitoring.rpartition(":")[2]
        self.config_file = self.configure(
            self._transport_url,
            defaults=f"state_path = {self.directory}",
            sections=NOVA_SECTIONS.format(directory=self.directory) + BERTH_SECTIONS.format(port=port) + more,
        )
