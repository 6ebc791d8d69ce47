"""A cloud whose databases, cells and host mappings were made by nova itself."""

import contextlib
import json
import sqlite3

from tools.rig.world import RunningWorld

#: What nova wants to know besides, and Berth does not.
NOVA_OPTIONS = """\
[DEFAULT]
state_path = {directory}
[oslo_concurrency]
lock_path = {directory}
[quota]
driver = nova.quota.NoopQuotaDriver
[scheduler]
workers = 1
"""


class NovaDeployment(RunningWorld):
    """A scheduler of ours beside a real nova; its fleet has no aggregates in nova's databases."""

    def __init__(self, world, directory, rabbit, nova):
        super().__init__(world, directory, rabbit)
        self.nova = nova

    def write_databases(self):
        self.configure(self.daemons_bus)
        (self.directory / "nova.conf").write_text(NOVA_OPTIONS.format(directory=self.directory))
        hosts = self.directory / "hosts.json"
        hosts.write_text(json.dumps({cell.name: self._described(cell) for cell in self.fleet.cells}))
        self.run_nova("nova_databases", hosts, self.nova.empty)
        for name in self.databases:
            self._let_readers_not_lock(self.directory / f"{name}.sqlite")

    def run_nova(self, program, *arguments):
        """Run one of the programs here by nova's Python; what it prints as JSON on its last line."""
        return self.nova.run(program, *self.nova_configuration, *arguments)

    @property
    def nova_configuration(self):
        """The files that nova reads: Berth's own, and one more."""
        return [self.directory / "controller.conf", self.directory / "nova.conf"]

    @staticmethod
    def _let_readers_not_lock(database):
        """Let nova write while the scheduler reads, as in the databases of real clouds."""
        with contextlib.closing(sqlite3.connect(database)) as connection:
            assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)

    def _described(self, cell):
        return {
            "database": cell.database_url,
            "transport": cell.transport_url,
            "hosts": [
                {
                    "name": host.name,
                    "nodename": host.nodename,
                    "uuid": host.uuid,
                    "vcpus": host.hardware.threads,
                    "memory_mb": host.hardware.memory_mb,
                    "local_gb": host.hardware.disk_gb,
                }
                for host in self.fleet.of_cell(cell)
            ],
        }
