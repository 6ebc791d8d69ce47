"""Small random clouds in which requests find no valid host, for many reasons at once.

One Placement serves all clouds of a run: its database is emptied before each. A cloud has two cells, hosts
with little room, unit limits, traits, devices in trees, a pool that hosts share, disabled and dead computes,
aggregates of a project, and sometimes an isolated one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from pathlib import Path
import random
from typing import Any

import sqlalchemy as sa

from scheduler.decisions.document import Decision
from scheduler.decisions.recorder import DecisionRecorder
from scheduler.errors import BerthError
from scheduler.manager import SchedulerManager
from scheduler.nova_db import schema
from scheduler.operators.plan.dry_run import dry_run
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.parts import Outside, put_together
from scheduler.rpc import notifications
from scheduler.rpc.context import RequestContext
from tools.rig import instances
from tools.rig.draw import draw
from tools.rig.fleet import DISABLED, TRAITS, Cell, Fleet, Host
from tools.rig.load import PROJECT, USER, random_uuid
from tools.rig.placement import PlacementProcess
from tools.rig.providers import database_url, send
from tools.rig.rows import set_disabled
from tools.rig.wanted import Wanted
from tools.rig.world import RunningWorld, World

_TABLES = (
    *("allocations", "consumers", "inventories", "resource_provider_traits", "resource_provider_aggregates"),
    *("resource_providers", "placement_aggregates", "projects", "users"),
)


class RefusingCloud(RunningWorld):
    """One small cloud with its scheduler in this process.

    Attributes:
        decisions: What was noted of each request so far.
    """

    def __init__(
        self,
        directory: Path,
        placement: tuple[str, Path],
        rng: random.Random,
        make_fleet: Callable[[random.Random, Sequence[Cell]], Fleet] = draw,
    ) -> None:
        """Describe the cloud that a generator of random numbers determines.

        Args:
            placement: The URL of a Placement, and its database, which is emptied.
            make_fleet: Returns the hosts; by default they are drawn.
        """
        url, database = placement
        urls = {"placement": database_url(database)}
        super().__init__(
            World(urls=urls, placement=url, bus="memory", options=OPTIONS, daemons=()), directory
        )
        self.rng = rng
        self.decisions: list[Decision] = []
        self._make_fleet = make_fleet

    def make_fleet(self, cells: Sequence[Cell]) -> Fleet:
        """Return the hosts, for a Placement that has no others."""
        with self.connection("placement") as connection:
            for table in _TABLES:
                connection.execute(sa.text(f"DELETE FROM {table}"))  # noqa: S608 - names of our own
        return self._make_fleet(self.rng, cells)

    def _prepare(self) -> None:
        instances.write(self)

    def _start(self) -> None:
        super()._start()
        parts = put_together(self.conf, Outside.from_conf(self.conf))
        self.manager = SchedulerManager(
            self.conf,
            notifications.Notifications(()),
            parts,
            on_decision=lambda trace, _error: self.decisions.append(trace.decision),
        )
        self._explaining = self.manager.decisions
        self._counting = DecisionRecorder(
            self.conf, observe=lambda trace, _error: self.decisions.append(trace.decision)
        )
        self.manager.start()
        self.callback(self.manager.stop, lambda: 5)
        self.manager.wait_until_ready(0)
        self.manager.catch_up()

    # -- requests --------------------------------------------------------------------------------------------

    def decide(self, spec: Any, uuids: Sequence[str] | None, *, explain: bool = False) -> Decision:
        """Have a request decided, and return what was noted of it."""
        self.manager.decisions = self._explaining if explain else self._counting
        context = RequestContext(user_id=USER, project_id=PROJECT)
        with contextlib.suppress(BerthError):
            self.manager.select_destinations(context, spec, uuids, True, True)
        self._explaining.completion.complete_now(timeout=60.0)
        return self.decisions[-1]

    def dry_run(self, spec: Any) -> Decision:
        """Have a request decided on a snapshot, as ``berth-plan dry-run`` does."""
        with snapshot.read(self.conf) as read:
            return dry_run(PlannedCloud(read), spec).decision

    def passing(self, make: Callable[[], Any]) -> int:
        """Return for how many hosts a request passes all filters; nothing is claimed."""
        spec = make()
        spec.num_instances = 1
        decision = self.decide(spec, None)
        if decision.error is not None:
            return 0
        return decision.filters[-1].end if decision.filters else decision.candidates.allowed or 0

    def release(self, uuids: Sequence[str]) -> None:
        """Delete what instances hold in Placement, and let the scheduler know."""
        for instance in uuids:
            url = f"{self.placement_url}/allocations/{instance}"
            held = send("GET", url).json()["allocations"]
            send("DELETE", url)
            # a deletion raises no generation
            self.manager.parts.mirror.known.released(held)
        self.manager.hosts.pending.remove(uuids)

    def read_again(self) -> None:
        """Let the scheduler read what has changed in Placement."""
        self.manager.parts.mirror.run_round()

    @contextlib.contextmanager
    def enabled(self) -> Iterator[None]:
        """Let the computes of all disabled hosts be enabled for a time, in database and Placement."""
        hosts = [host for host in self.fleet.hosts if host.state == "disabled"]
        self._enable(hosts, disabled=False)
        try:
            yield
        finally:
            self._enable(hosts, disabled=True)
            self.read_again()

    @contextlib.contextmanager
    def disabled(self, *hosts: Host) -> Iterator[None]:
        """Disable the computes of hosts for a time, in database and Placement."""
        self._enable(hosts, disabled=True)
        self.read_again()
        try:
            yield
        finally:
            self._enable(hosts, disabled=False)
            self.read_again()

    @contextlib.contextmanager
    def forgotten(self, *hosts: Host) -> Iterator[None]:
        """Let the resource providers of enabled hosts say for a time that they are disabled."""
        for host in hosts:
            self._set_traits(host, disabled=True)
        self.read_again()
        try:
            yield
        finally:
            for host in hosts:
                self._set_traits(host, disabled=False)
            self.read_again()

    @contextlib.contextmanager
    def down(self, *hosts: Host) -> Iterator[None]:
        """Force the computes of hosts down for a time."""
        self._force_down(hosts, down=True)
        try:
            yield
        finally:
            self._force_down(hosts, down=False)

    def _force_down(self, hosts: Sequence[Host], *, down: bool) -> None:
        table = schema.services
        for host in hosts:
            values = {"forced_down": down, "updated_at": schema.utcnow()}
            with self.connection(host.cell.name) as connection:
                connection.execute(sa.update(table).where(table.c.host == host.name).values(values))

    @contextlib.contextmanager
    def full(self, *hosts: Host, left_mb: int = 512) -> Iterator[None]:
        """Let others hold all but so much of the free memory of hosts for a time."""
        consumers = [self._hold(host, left_mb) for host in hosts]
        self.read_again()
        try:
            yield
        finally:
            self.release(consumers)

    def _hold(self, host: Host, left_mb: int) -> str:
        url = f"{self.placement_url}/resource_providers/{host.uuid}/usages"
        used = send("GET", url).json()["usages"]["MEMORY_MB"]
        amount = host.hardware.memory_mb - used - left_mb
        consumer = random_uuid(self.rng)
        if not (answer := self._allocate(consumer, host, {"MEMORY_MB": amount})).ok:
            raise RuntimeError(answer.text)
        return consumer

    def _allocate(self, consumer: str, host: Host, amounts: Mapping[str, int]) -> Any:
        body = {
            "allocations": {host.uuid: {"resources": amounts}},
            "project_id": PROJECT,
            "user_id": USER,
            "consumer_generation": None,
        }
        return send("PUT", f"{self.placement_url}/allocations/{consumer}", body)

    def _enable(self, hosts: Sequence[Host], *, disabled: bool) -> None:
        for host in hosts:
            set_disabled(self, host, disabled=disabled, reason="maintenance")
            self._set_traits(host, disabled=disabled)

    def _set_traits(self, host: Host, *, disabled: bool) -> None:
        url = f"{self.placement_url}/resource_providers/{host.uuid}/traits"
        body = send("GET", url).json()
        body["traits"] = [*TRAITS, *host.traits, *([DISABLED] if disabled else [])]
        if not (answer := send("PUT", url, body)).ok:
            raise RuntimeError(answer.text)

    @contextlib.contextmanager
    def without_filter(self, name: str) -> Iterator[None]:
        """Disable a filter for a time."""
        self._use([each for each in FILTERS if each != name])
        try:
            yield
        finally:
            self._use(list(FILTERS))

    @contextlib.contextmanager
    def without_isolation(self) -> Iterator[None]:
        """Let all requests into the isolated aggregate for a time."""
        self.conf.set_override("enable_isolated_aggregate_filtering", False, group="scheduler")
        try:
            yield
        finally:
            self.conf.clear_override("enable_isolated_aggregate_filtering", group="scheduler")

    def _use(self, filters: Sequence[str]) -> None:
        self.conf.set_override("enabled_filters", filters, group="filter_scheduler")
        self.manager.use_rules()


#: The filters, and whether each may reject hosts for a request. Without the first disabled hosts would pass.
FILTERS: dict[str, Callable[[Wanted], bool]] = {
    "ComputeFilter": lambda _wanted: False,
    "ComputeCapabilitiesFilter": lambda _wanted: False,
    "ImagePropertiesFilter": lambda _wanted: False,
    "ServerGroupAntiAffinityFilter": lambda wanted: wanted.policy == "anti-affinity",
    "ServerGroupAffinityFilter": lambda wanted: wanted.policy == "affinity",
    "NUMATopologyFilter": lambda wanted: wanted.numa,
    "PciPassthroughFilter": lambda wanted: bool(wanted.devices),
    "NumInstancesFilter": lambda wanted: wanted.count > 1,
    "AggregateInstanceExtraSpecsFilter": lambda wanted: wanted.fast,
}
OPTIONS = f"""
[filter_scheduler]
enabled_filters = {",".join(FILTERS)}
max_instances_per_host = 6
[berth]
host_state_max_age = 0
decision_stream = false
[scheduler]
max_attempts = 10
limit_tenants_to_placement_aggregate = true
enable_isolated_aggregate_filtering = true
"""


@contextlib.contextmanager
def placement_of(directory: Path) -> Iterator[tuple[str, Path]]:
    """Start the Placement of a run; gives its URL and its database."""
    path = directory / "placement.sqlite"
    with PlacementProcess(path) as url:
        yield url, path
