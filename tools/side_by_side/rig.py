"""The rig: RabbitMQ, MariaDB, Placement and a fleet, private, on loopback, removed in the end."""

from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sa

from tools.rig.software import Software
from tools.rig.world import RunningWorld, World

#: nova's sections besides those of every cloud here.
NOVA_SECTIONS = """\
[oslo_concurrency]
lock_path = {directory}
"""


class Rig(RunningWorld):
    """Everything that a scheduler needs; a context manager.

    ``filled`` are the instances that are there before a load begins.
    """

    placement_database: sa.Engine

    def __init__(self, directory: Path, software: Software, hosts: int, cells: int, filled: int = 0) -> None:
        """Describe a rig, with so many instances on the hosts; it is started on entry."""
        kinds = {"databases": "nova", "placement": "gunicorn", "software": software}
        super().__init__(World(hosts, cells, instances=filled, daemons=(), **kinds), directory)
        self._last_ids = {"allocations": 0, "consumers": 0}
        self.filled: frozenset[str] = frozenset()

    def servers(self) -> Mapping[str, int]:
        """Return the process IDs of the servers by name."""
        running = {"placement": self.placement, "mariadb": self.mariadb, "rabbitmq": self.rabbit}
        return {name: server.pid for name, server in running.items() if server}

    @property
    def placement_requests(self) -> Path:
        """The file with method, path and status of each request that Placement has answered."""
        return self.directory / "placement" / "requests"

    def statements(self) -> int:
        """Return how many statements the database server has carried out."""
        with self.placement_database.connect() as connection:
            return int(connection.execute(sa.text("SHOW GLOBAL STATUS LIKE 'Questions'")).one()[1])

    def reset(self) -> None:
        """Remove all allocations from Placement but those of the instances that were there."""
        with self.placement_database.begin() as connection:
            for table, last in self._last_ids.items():
                connection.execute(sa.text(f"DELETE FROM {table} WHERE id > {last}"))  # noqa: S608

    def _start(self) -> None:
        super()._start()
        self.filled = frozenset(each.uuid for each in self.fleet.placed)
        self.placement_database = self.engine(self.database("placement"))
        with self.placement_database.connect() as connection:
            for table in self._last_ids:
                last = sa.text(f"SELECT COALESCE(MAX(id), 0) FROM {table}")  # noqa: S608
                self._last_ids[table] = connection.execute(last).scalar_one()
            for table in connection.execute(sa.text("SHOW TABLES")).scalars().all():
                connection.execute(sa.text(f"ANALYZE TABLE `{table}`")).all()

    def configure_nova(self, transport_url: str, sections: str = "", host: str = "controller") -> Path:
        """Write the configuration of a scheduler, which nova reads as well; ``sections`` are appended."""
        return self.configure(
            transport_url,
            host=host,
            defaults=f"state_path = {self.directory}",
            sections=NOVA_SECTIONS.format(directory=self.directory) + sections,
        )
