"""The processes of a soak run: RabbitMQ, Placement and berth-scheduler, each private and on loopback."""

import contextlib
from pathlib import Path
import sqlite3

from conductor_client.bus import Bus
from tools import servers
from tools.cloud import BerthSchedulerProcess, Cloud, SchedulerProcess
from tools.embedded_placement import PlacementProcess
from tools.fleet import Cell

#: Each worker keeps decisions in memory, up to 1,000: fewer are complete before growth is judged.
FEW_DECISIONS = "[berth]\ndecision_memory = 1\n"

#: Variables that the unit of systemd and the image set.
AS_SHIPPED = {"MALLOC_ARENA_MAX": "2"}


class SoakCloud(Cloud):
    """A context manager that starts the processes on entry and stops them on exit.

    Attributes:
        bus: The message bus.
        scheduler: The scheduler.
    """

    bus: Bus
    scheduler: SchedulerProcess

    def __init__(self, directory: str | Path, hosts: int, workers: int) -> None:
        """Describe a cloud; it is started on entry.

        Args:
            directory: Where databases, configuration and the scheduler's log are created.
            hosts: Number of compute hosts, in two cells.
            workers: Number of worker processes of the scheduler.
        """
        super().__init__(directory)
        self._workers = workers
        self.make_fleet(hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])

    def _start(self) -> None:
        transport_url = self.enter_context(servers.rabbitmq()).url
        self.placement_url = self.enter_context(PlacementProcess(self.fill_placement()))
        self.write_databases()
        for name in ("api", "cell0", "cell1", "cell2"):
            _allow_reading_while_writing(self.directory / f"{name}.sqlite")
        config_file = self.configure(transport_url, workers=self._workers, sections=FEW_DECISIONS)
        self.bus = Bus(self.conf)
        self.callback(self.bus.close)
        self.scheduler = BerthSchedulerProcess(config_file, self.directory / "scheduler.log", AS_SHIPPED)
        self.scheduler.start()
        self.callback(self.scheduler.stop)
        self.scheduler.wait_until_it_answers(self.bus)


def _allow_reading_while_writing(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
