"""A cloud with one ``berth-scheduler``, a Placement process, SQLite files and a virtual host of RabbitMQ."""

from collections.abc import Mapping
from pathlib import Path

from conductor_client.bus import Bus
from tools.rig.cloud import BerthSchedulerProcess, Cloud
from tools.rig.fleet import Cell


class DaemonCloud(Cloud):
    """A context manager; hosts are in two cells. Subclasses say what is special to them."""

    #: Sections of the configuration, and variables of the daemon.
    sections = ""
    environment: Mapping[str, str] | None = None
    bus: Bus
    config_file: Path
    scheduler: BerthSchedulerProcess

    def __init__(self, directory: str | Path, transport_url: str, hosts: int, workers: int = 1) -> None:
        """Describe a cloud; it is started on entry."""
        super().__init__(directory)
        self._transport_url, self._workers = transport_url, workers
        self.make_fleet(hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])

    def _start(self) -> None:
        self._start_placement()
        self.write_databases()
        self._prepare_databases()
        self.config_file = self.configure(self._transport_url, workers=self._workers, sections=self.sections)
        self.bus = self.connect()
        log = self.directory / "scheduler.log"
        self.scheduler = BerthSchedulerProcess(self.config_file, log, self.environment)
        self.scheduler.start()
        self.callback(self.scheduler.stop)
        self.scheduler.wait_until_it_answers(self.bus)

    def _start_placement(self) -> None:
        self.placement_url = self.start_placement()

    def _prepare_databases(self) -> None:
        """Write what is special before the scheduler starts."""
