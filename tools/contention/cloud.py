"""The cloud of contention runs: databases on a server, Placement, and a scheduler in this process."""

from collections.abc import Iterator
import contextlib
from pathlib import Path
import threading

import requests
import sqlalchemy as sa

from scheduler.manager import SchedulerManager
from scheduler.manager_parts import ManagerParts
from scheduler.nova_db import schema
from scheduler.rpc.notifications import Notifications
from tools.rig import servers
from tools.rig.cloud import Cloud
from tools.rig.fleet import Cell, Fleet
from tools.rig.placement import PlacementProcess
from tools.rig.providers import HEADERS, fill

CELLS = ("cell1", "cell2")
DATABASES = ("api", "cell0", *CELLS, "placement")
READY_TIMEOUT = 60  # seconds until the scheduler has read the API database
STOP_TIMEOUT = 30  # seconds for the background work of a scheduler that is stopped

#: Placement as it does not over-commit by itself (see ``EmbeddedPlacement``).
CONFLICT_RETRIES = 1


class ContentionCloud(Cloud):
    """A cloud whose databases are on a server; schedulers run in this process, one after the other.

    Attributes:
        placement_database: An engine of Placement's database.
        rows: What the computes write to their rows.
    """

    placement_database: sa.Engine
    rows: "ComputeRows"

    def __init__(self, server: str, directory: str | Path, hosts: int) -> None:
        """Describe a cloud; it is started on entry.

        Args:
            server: The URL of a database server, of a user who may create databases.
            directory: Where the configuration is created.
            hosts: Number of compute hosts.
        """
        super().__init__(directory)
        self._server = server
        self._hosts = hosts
        self._urls: dict[str, str] = {}

    def database(self, name: str) -> str:
        """Return the URL of a database of the cloud."""
        return self._urls[name]

    def _start(self) -> None:
        for name in DATABASES:
            self._urls[name] = self.enter_context(servers.made_database(self._server, name))
        self.make_fleet(self._hosts, [Cell(name, self.database(name)) for name in CELLS])
        placement = self.database("placement")
        log = self.directory / "placement.log"
        process = PlacementProcess(placement, conflict_retries=CONFLICT_RETRIES, log=log)
        self.placement_url = self.enter_context(process)
        fill(placement, self.fleet.providers())
        self.placement_database = self.engine(placement)
        self.write_databases()
        self.rows = ComputeRows(self.fleet, {name: self.engine(self.database(name)) for name in CELLS})

    @contextlib.contextmanager
    def scheduler(self) -> Iterator[SchedulerManager]:
        """Run a scheduler with default options; at the end it gives back what it claimed for no reply."""
        self.configure("fake://")
        manager = SchedulerManager(self.conf, Notifications(()), ManagerParts.from_conf(self.conf))
        manager.start()
        try:
            if not manager.wait_until_ready(READY_TIMEOUT):
                raise RuntimeError("The scheduler cannot read the API database")
            yield manager
        finally:
            manager.stop(STOP_TIMEOUT)


class ComputeRows:
    """Writes the instances of the hosts to the rows of their compute nodes, as resource trackers do."""

    def __init__(self, fleet: Fleet, engines: dict[str, sa.Engine]) -> None:
        """Write rows of the fleet with an engine for each cell, by its name."""
        self._hosts = {host.uuid: host for host in fleet.hosts}
        self._engines = engines
        self._counts = dict.fromkeys(self._hosts, 0)
        self._lock = threading.Lock()

    def change(self, provider: str, instances: int, memory_mb: int) -> None:
        """Add to the instances and the used memory of a host; negative numbers for what has left it."""
        host, nodes = self._hosts[provider], schema.compute_nodes
        with self._lock:
            self._counts[provider] += instances
            count = self._counts[provider]
            with self._engines[host.cell.name].begin() as connection:
                connection.execute(
                    sa.update(nodes)
                    .where(nodes.c.uuid == provider)
                    .values(
                        memory_mb_used=nodes.c.memory_mb_used + memory_mb,
                        free_ram_mb=nodes.c.free_ram_mb - memory_mb,
                        running_vms=count,
                        stats=f'{{"failed_builds": "0", "num_instances": "{count}"}}',
                        updated_at=schema.utcnow(),
                    )
                )


class PlacementCaller:
    """Asks and writes as another client of Placement; for one thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.headers.update(HEADERS)

    def find(self, amounts: dict[str, int], aggregate: str | None = None) -> list[dict]:
        """Return the allocation requests for amounts, of members of an aggregate if one is given.

        This is the query that nova's scheduler sends for the requests of this package.
        """
        resources = ",".join(f"{name}:{amount}" for name, amount in amounts.items())
        query = {"resources": resources, "limit": "1000", "root_required": "!COMPUTE_STATUS_DISABLED"}
        if aggregate:
            query["member_of"] = aggregate
        answer = self._session.get(f"{self._url}/allocation_candidates", params=query, timeout=60)
        answer.raise_for_status()
        return answer.json()["allocation_requests"]

    def claim(self, uuid: str, allocations: dict) -> int:
        """Claim for a new consumer and return the HTTP status."""
        owner = {"project_id": "another", "user_id": "another", "consumer_generation": None}
        body = {"allocations": allocations, **owner}
        return self._session.put(f"{self._url}/allocations/{uuid}", json=body, timeout=60).status_code

    def delete(self, uuid: str) -> None:
        """Delete the allocations of a consumer; once more while the database refuses."""
        status = 0
        while status not in {204, 404}:
            status = self._session.delete(f"{self._url}/allocations/{uuid}", timeout=60).status_code
            if status not in {204, 404, 409, 500, 503}:
                raise RuntimeError(f"Allocations of {uuid} cannot be deleted: HTTP {status}")
