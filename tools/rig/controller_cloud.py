"""What a controller needs: RabbitMQ, MariaDB and Placement on loopback, and its nova.conf."""

from pathlib import Path

from conductor_client.bus import Bus
from tools.rig import servers
from tools.rig.cloud import Cloud
from tools.rig.fleet import Cell
from tools.rig.placement import PlacementProcess
from tools.rig.providers import create_fleet
from tools.rig.rows import ApiRows

HOST = "controller"
WORKERS = 2
MONITORING_PORTS = range(9812, 9900)
DATABASES = ("api", "cell0", "cell1", "cell2")


class ControllerCloud(Cloud):
    """A context manager that starts everything but schedulers.

    Attributes:
        bus: The bus of callers.
        nova_conf: The nova.conf of a controller.
        monitoring: The address of its health checks and metrics.
    """

    rabbit: servers.Rabbit
    bus: Bus
    nova_conf: str

    def __init__(self, directory: Path, hosts: int, monitoring: str = "") -> None:
        """Describe a cloud in two cells; it is started on entry."""
        super().__init__(directory)
        self._hosts = hosts
        self._databases: dict[str, str] = {}
        self.monitoring = monitoring or f"127.0.0.1:{servers.free_port(MONITORING_PORTS)}"

    def database(self, name: str) -> str:
        """Return the URL of one of nova's databases."""
        return self._databases[name]

    def api_rows(self) -> ApiRows:
        """Return what writes to the API database which instances wait for a host."""
        return ApiRows(self.engine(self.database("api")))

    def _start(self) -> None:
        self.rabbit = self.enter_context(servers.rabbitmq())
        mariadb = self.enter_context(servers.mariadb(tcp=True))
        for name in (*DATABASES, "placement"):
            url = self.enter_context(servers.made_database(mariadb.url, name))
            # By TCP: a controller in a machine of its own does not see the socket
            self._databases[name] = url.replace("localhost/", f"127.0.0.1:{mariadb.port}/").partition("?")[0]
        placement = PlacementProcess(self.database("placement"), log=self.directory / "placement.log")
        self.placement_url = self.enter_context(placement)
        self.make_fleet(self._hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])
        create_fleet(self.placement_url, self.fleet.providers())
        self.write_databases()
        more = f"[berth]\nmonitoring_listen = {self.monitoring}\n"
        written = self.configure(
            self.rabbit.vhost("nova"),
            host=HOST,
            workers=WORKERS,
            defaults="state_path = /var/lib/nova",
            sections=more,
        )
        self.nova_conf = written.read_text()
        self.bus = self.connect()
