"""A cloud whose databases are on a server, with a scheduler in this process that needs no message bus."""

from collections.abc import Iterator
import contextlib
from pathlib import Path
from typing import Any

from conductor_client import errors
from scheduler.errors import NoValidHost
from scheduler.manager import SchedulerManager
from scheduler.parts import Outside, put_together
from scheduler.rpc.notifications import Notifications
from tools.rig import servers
from tools.rig.cloud import Cloud
from tools.rig.fleet import Cell
from tools.rig.placement import PlacementProcess
from tools.rig.providers import fill, send

#: Placement as it does not over-commit by itself (see ``PlacementProcess``).
CONFLICT_RETRIES = 1


class ContentionCloud(Cloud):
    """A cloud whose databases are on a server; ``select_destinations`` asks a scheduler in this process."""

    def __init__(self, server: str, directory: Path, hosts: int) -> None:
        """Describe a cloud; ``server`` is the URL of a user who may create databases."""
        super().__init__(directory)
        self._server, self._hosts = server, hosts
        self._urls: dict[str, str] = {}

    def database(self, name: str) -> str:
        """Return the URL of a database of the cloud."""
        return self._urls[name]

    def _start(self) -> None:
        for name in ("api", "cell0", "cell1", "cell2", "placement"):
            self._urls[name] = self.enter_context(servers.made_database(self._server, name))
        self.make_fleet(self._hosts, [Cell(name, self.database(name)) for name in ("cell1", "cell2")])
        placement = self.database("placement")
        log = self.directory / "placement.log"
        process = PlacementProcess(placement, conflict_retries=CONFLICT_RETRIES, log=log)
        self.placement_url = self.enter_context(process)
        fill(placement, self.fleet.providers())
        self.placement_database = self.engine(placement)
        self.write_databases()

    @contextlib.contextmanager
    def scheduler(self) -> Iterator[None]:
        """Run a scheduler with default options; at the end it gives back what it claimed for no reply."""
        self.configure("fake://")
        parts = put_together(self.conf, Outside.from_conf(self.conf))
        self._manager = SchedulerManager(self.conf, Notifications(()), parts)
        self._manager.start()
        try:
            if not self._manager.wait_until_ready(60):
                raise RuntimeError("The scheduler cannot read the API database")
            yield
        finally:
            self._manager.stop(30)

    def select_destinations(self, *arguments: Any, **options: Any) -> Any:
        """Ask the scheduler, in the place of a ``SchedulerClient``."""
        try:
            return self._manager.select_destinations(*arguments, **options)
        except NoValidHost as error:
            raise errors.NoValidHost(str(error)) from error

    def offers(self, amounts: dict[str, int], aggregate: str | None = None) -> list[dict[str, Any]]:
        """Return the allocations that Placement offers for the query that nova's scheduler sends."""
        resources = ",".join(f"{name}:{amount}" for name, amount in amounts.items())
        query = {"resources": resources, "limit": "1000", "root_required": "!COMPUTE_STATUS_DISABLED"}
        if aggregate:
            query["member_of"] = aggregate
        answer = send("GET", f"{self.placement_url}/allocation_candidates", params=query)
        answer.raise_for_status()
        return [each["allocations"] for each in answer.json()["allocation_requests"]]

    def claim(self, instance: str, allocations: dict[str, Any]) -> int:
        """Claim as another scheduler, and return the HTTP status."""
        owner = {"project_id": "another", "user_id": "another", "consumer_generation": None}
        body = {"allocations": allocations, **owner}
        return send("PUT", f"{self.placement_url}/allocations/{instance}", body).status_code

    def free(self, instance: str) -> None:
        """Delete the allocations of an instance; once more while the database refuses."""
        url, status = f"{self.placement_url}/allocations/{instance}", 0
        while status not in {204, 404}:
            status = send("DELETE", url).status_code
            if status not in {204, 404, 409, 500, 503}:
                raise RuntimeError(f"Allocations of {instance} cannot be deleted: HTTP {status}")
