"""Small random clouds in which requests find no valid host, for many reasons at once.

One Placement serves all clouds of a run: its database is emptied before each. A cloud has two cells, hosts
with little room, unit limits, traits, devices in trees, a pool that hosts share, disabled and dead computes,
aggregates of a project, and sometimes an isolated one.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
from pathlib import Path
import random
from typing import Any

from scheduler.decisions.document import Decision
from scheduler.decisions.recorder import DecisionRecorder
from scheduler.errors import BerthError
from scheduler.operators.plan.dry_run import dry_run
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.rpc.context import RequestContext
from tools.rig import instances
from tools.rig.draw import draw
from tools.rig.fleet import DISABLED, Cell, Fleet, Host
from tools.rig.load import PROJECT, USER
from tools.rig.providers import PlacementAdmin, database_url, empty
from tools.rig.rows import set_service
from tools.rig.wanted import Wanted
from tools.rig.world import Daemon, RunningWorld, World


class DrawnCloud(RunningWorld):
    """A cloud, by default without a daemon; the Placement has no other hosts while it runs.

    Attributes:
        rng: Makes all choices.
    """

    def __init__(
        self,
        directory: Path,
        placement: tuple[str, Path],
        rng: random.Random,
        make_fleet: Callable[[random.Random, Sequence[Cell]], Fleet] = draw,
        **world: Any,
    ) -> None:
        """Describe the cloud that a generator of random numbers determines.

        Args:
            placement: The URL of a Placement, and its database, which is emptied.
            make_fleet: Returns the hosts; by default they are drawn.
            world: What is wanted besides.
        """
        url, self._database = placement
        urls = {"placement": database_url(self._database)}
        wanted = {"daemons": ()} | world
        super().__init__(World(urls=urls, placement=url, bus="memory", **wanted), directory)
        self.rng = rng
        self._make_fleet = make_fleet

    def make_fleet(self, cells: Sequence[Cell]) -> Fleet:
        """Return the hosts."""
        empty(self._database)
        return self._make_fleet(self.rng, cells)


class RefusingCloud(DrawnCloud):
    """One small cloud with its scheduler in this process.

    Attributes:
        decisions: What was noted of each request so far.
    """

    def __init__(self, *arguments: Any) -> None:
        """Describe the cloud; arguments are those of ``DrawnCloud``."""
        super().__init__(*arguments, options=OPTIONS, daemons=(Daemon(here=True),))
        self.decisions: list[Decision] = []

    def _prepare(self) -> None:
        instances.write(self)

    def _start(self) -> None:
        super()._start()
        self.admin = PlacementAdmin(self.placement_url)
        self.scheduler.on_decision = self.decisions.append
        self.conf, self.manager = self.scheduler.conf, self.scheduler.manager
        self._explaining = self.manager.decisions
        self._counting = DecisionRecorder(
            self.conf, observe=lambda trace, _error: self.decisions.append(trace.decision)
        )

    # -- requests --------------------------------------------------------------------------------------------

    def decide(self, spec: Any, uuids: Sequence[str] | None, *, explain: bool = False) -> Decision:
        """Have a request decided, and return what was noted of it."""
        self.manager.decisions = self._explaining if explain else self._counting
        context = RequestContext(user_id=USER, project_id=PROJECT)
        with contextlib.suppress(BerthError):
            self.manager.select_destinations(context, spec, uuids, True, True)
        self._explaining.complete_now(timeout=60.0)
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
            self.admin.release(instance)
        self.manager.hosts.pending.remove(uuids)
        self.read_again()

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
        try:
            with self.admin.trait_on(DISABLED, [host.uuid for host in hosts]):
                self.read_again()
                yield
        finally:
            self.read_again()

    @contextlib.contextmanager
    def down(self, *hosts: Host) -> Iterator[None]:
        """Force the computes of hosts down for a time."""
        for host in hosts:
            set_service(self, host, forced_down=True)
        try:
            yield
        finally:
            for host in hosts:
                set_service(self, host, forced_down=False)

    @contextlib.contextmanager
    def full(self, *hosts: Host, left_mb: int = 512) -> Iterator[None]:
        """Let others hold all but so much of the free memory of hosts for a time."""
        consumers = [self.admin.fill(host.uuid, left_mb) for host in hosts]
        self.read_again()
        try:
            yield
        finally:
            self.release(consumers)

    def _enable(self, hosts: Sequence[Host], *, disabled: bool) -> None:
        for host in hosts:
            set_service(self, host, disabled=disabled, disabled_reason="maintenance")
            self.admin.set_trait(host.uuid, DISABLED, has=disabled)

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
    "ComputeCapabilitiesFilter": lambda wanted: wanted.ironic,
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
