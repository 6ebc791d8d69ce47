"""Real servers for a scheduler in a machine of its own."""

from pathlib import Path

from tools.rig import servers
from tools.rig.rows import ApiRows
from tools.rig.world import RunningWorld, World

HOST = "controller"
MONITORING_PORTS = range(9812, 9900)


class ControllerCloud(RunningWorld):
    """A context manager that starts everything but schedulers.

    Attributes:
        nova_conf: The nova.conf of a controller.
        monitoring: The address of its health checks and metrics.
    """

    nova_conf: str

    def __init__(self, directory: Path, hosts: int, monitoring: str = "") -> None:
        """Describe a cloud; it is started on entry."""
        super().__init__(World(hosts, databases="mariadb", daemons=()), directory)
        self.monitoring = monitoring or f"127.0.0.1:{servers.free_port(MONITORING_PORTS)}"

    def api_rows(self) -> ApiRows:
        """Return what writes to the API database which instances wait for a host."""
        return ApiRows(self.engine(self.database("api")))

    def _start(self) -> None:
        super()._start()
        written = self.configure(
            self.rabbit.url,
            host=HOST,
            defaults="state_path = /var/lib/nova",
            sections=f"[berth]\nmonitoring_listen = {self.monitoring}\n",
        )
        self.nova_conf = written.read_text()
