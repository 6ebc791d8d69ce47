"""Small random clouds in which requests find no valid host, for many reasons at once.

One Placement serves all clouds of a run: its database is emptied before each. A cloud has two cells, hosts
with little room, unit limits, traits, devices in trees, a pool that hosts share, disabled and dead computes,
aggregates of a project, and sometimes an isolated one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from dataclasses import dataclass, field, replace
import json
from pathlib import Path
import random
from typing import Any
import uuid

import sqlalchemy as sa

from scheduler import objects
from scheduler.decisions.document import Decision, decode
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
from tools.rig.cloud import Cloud
from tools.rig.fleet import TRAITS as COMMON
from tools.rig.fleet import ZONES, Cell, Fleet, Hardware, Host
from tools.rig.load import PROJECT, USER, BootRequest, Flavor, random_uuid
from tools.rig.placement import PlacementProcess
from tools.rig.providers import Provider, database_url, fill, send
from tools.rig.rows import Computes, set_disabled

TRAITS = ("HW_GPU_API_VULKAN", "STORAGE_DISK_SSD", "HW_CPU_X86_AVX512F")
DISABLED = "COMPUTE_STATUS_DISABLED"
DEVICE = ("8086", "154d")

#: A project that has an aggregate, and the trait of an isolated aggregate, which no request requires.
TENANT = "7c1d4c5e8a9b4f6d8e0a1b2c3d4e5f60"
ISOLATING = "HW_NIC_SRIOV"

_TABLES = (
    *("allocations", "consumers", "inventories", "resource_provider_traits", "resource_provider_aggregates"),
    *("resource_providers", "placement_aggregates"),
)


@dataclass(frozen=True)
class SmallHost(Host):
    """A host whose hardware is drawn, and what of it Placement has."""

    drawn: Hardware = field(default_factory=lambda: Hardware(8, 16384, 200))
    inventories: Mapping[str, dict] = field(default_factory=dict, compare=False, hash=False)
    traits: tuple[str, ...] = ()
    vgpus: int = 0
    devices: int = 0
    instances: int = 0
    state: str = "up"

    @property
    def hardware(self) -> Hardware:
        return self.drawn

    def provider(self, aggregates: Sequence[str] = ()) -> Provider:
        traits = [*COMMON, *self.traits, *([DISABLED] if self.state == "disabled" else [])]
        return Provider(self.nodename, self.uuid, dict(self.inventories), traits, aggregates)

    def children(self) -> Iterator[Provider]:
        if self.vgpus:
            name = f"{self.nodename}_pci"
            child = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
            yield Provider(name, child, {"VGPU": {"total": self.vgpus}}, (), (), parent=self.uuid)


def draw_host(rng: random.Random, number: int, cell: Cell, zone: str, *, pool: bool) -> SmallHost:
    """Return a host."""
    threads = rng.choice((4, 8, 16))
    hardware = Hardware(threads, rng.choice((8192, 16384, 32768)), rng.choice((50, 100, 400)))
    inventories = {
        "VCPU": {"total": threads, "max_unit": threads, "allocation_ratio": rng.choice((1.0, 2.0, 4.0))},
        "MEMORY_MB": {
            "total": hardware.memory_mb,
            "max_unit": rng.choice((hardware.memory_mb, hardware.memory_mb // 2)),
            "reserved": rng.choice((0, 512, 4096)),
        },
        "DISK_GB": {
            "total": hardware.disk_gb,
            "max_unit": hardware.disk_gb,
            "step_size": rng.choice((1, 1, 1, 10)),
            "min_unit": rng.choice((1, 1, 1, 1, 10)),
        },
    }
    if pool:
        del inventories["DISK_GB"]
    return SmallHost(
        number,
        cell,
        zone,
        drawn=hardware,
        inventories=inventories,
        traits=tuple(trait for trait in TRAITS if rng.random() < 0.6),
        vgpus=rng.choice((0, 0, 1, 2)),
        devices=rng.choice((0, 0, 1, 2)),
        instances=rng.choice((0, 0, 1, 2)),
        state=rng.choice(("up", "up", "up", "up", "disabled", "down")),
    )


class RefusingCloud(Cloud):
    """One small cloud with its scheduler in this process.

    Attributes:
        decisions: What was noted of each request so far.
    """

    fleet: "DrawnFleet"

    def __init__(
        self,
        directory: Path,
        placement: str,
        database: Path,
        seed: int,
        make_fleet: Callable[[random.Random, Sequence[Cell]], "DrawnFleet"] | None = None,
    ) -> None:
        """Describe the cloud that a seed determines.

        Args:
            placement: The URL of a Placement.
            database: Its database, which is emptied.
            make_fleet: Returns the hosts; by default they are drawn.
        """
        super().__init__(directory)
        self.placement_url = placement
        self._placement_database = database
        self.rng = random.Random(seed)
        self.decisions: list[Decision] = []
        self.cells = [Cell(name, self.database(name), "fake://") for name in ("cell1", "cell2")]
        self.fleet = (make_fleet or draw_fleet)(self.rng, self.cells)
        self.members: dict[str, list[str]] = {}

    def _start(self) -> None:
        self._fill_placement()
        self.write_databases()
        self._write_states()
        filters = ",".join(FILTERS)
        sections = f"[filter_scheduler]\nenabled_filters = {filters}\nmax_instances_per_host = 6\n"
        sections += (
            "[berth]\nhost_state_max_age = 0\ndecision_stream = false\n[scheduler]\nmax_attempts = 10\n"
            "limit_tenants_to_placement_aggregate = true\nenable_isolated_aggregate_filtering = true\n"
        )
        self.configure("fake://", sections=sections)
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

    # -- what is there ---------------------------------------------------------------------------------------

    def _fill_placement(self) -> None:
        engine = sa.create_engine(database_url(self._placement_database), poolclass=sa.NullPool)
        with engine.begin() as connection:
            for table in _TABLES:
                connection.execute(sa.text(f"DELETE FROM {table}"))  # noqa: S608 - names of our own
        roots = self.fleet.providers()
        if self.fleet.pool_gb:
            shared = str(uuid.uuid5(uuid.NAMESPACE_DNS, "pool"))
            disk = {"DISK_GB": {"total": self.fleet.pool_gb}}
            members = [replace(root, aggregates=(*root.aggregates, shared)) for root in roots]
            some = members[: max(1, len(members) - 1)]
            roots = [*some, *roots[len(some) :]]
            roots.append(Provider("pool", shared, disk, ("MISC_SHARES_VIA_AGGREGATE",), (shared,)))
        children = [child for host in self.fleet.hosts for child in host.children()]
        fill(self._placement_database, [*roots, *children])

    def _write_states(self) -> None:
        computes = Computes(self.fleet)
        flavor = Flavor(1, "there", 2, 2048, 10)
        for host in self.fleet.hosts:
            if host.state == "disabled":
                set_disabled(self, host, disabled=True, reason="maintenance")
            if host.state == "down":
                self._force_down([host], down=True)
            if host.devices:
                with self.connection(host.cell.name) as connection:
                    nodes = schema.compute_nodes
                    pools = json.dumps(_pools(host.devices))
                    row = sa.update(nodes).where(nodes.c.uuid == host.uuid).values(pci_stats=pools)
                    connection.execute(row)
            for _ in range(host.instances):
                self._put_instance(computes, host, flavor)
        computes.close()

    def _put_instance(self, computes: Computes, host: SmallHost, flavor: Flavor) -> None:
        amounts = {name: one for name, one in flavor.amounts.items() if name in host.inventories}
        instance = random_uuid(self.rng)
        if self._allocate(instance, host, amounts).status_code == 204:
            computes.built(host, instance, flavor)
            self.members.setdefault(host.name, []).append(instance)
            cells, mappings = schema.cell_mappings, schema.instance_mappings
            cell = sa.select(cells.c.id).where(cells.c.uuid == host.cell.uuid).scalar_subquery()
            row = {"instance_uuid": instance, "project_id": PROJECT, "cell_id": cell}
            with self.connection("api") as connection:
                connection.execute(sa.insert(mappings).values(row))

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
            return decode(json.dumps(dry_run(PlannedCloud(read), spec)["decision"]))

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
    def disabled(self, *hosts: SmallHost) -> Iterator[None]:
        """Disable the computes of hosts for a time, in database and Placement."""
        self._enable(hosts, disabled=True)
        self.read_again()
        try:
            yield
        finally:
            self._enable(hosts, disabled=False)
            self.read_again()

    @contextlib.contextmanager
    def forgotten(self, *hosts: SmallHost) -> Iterator[None]:
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
    def down(self, *hosts: SmallHost) -> Iterator[None]:
        """Force the computes of hosts down for a time."""
        self._force_down(hosts, down=True)
        try:
            yield
        finally:
            self._force_down(hosts, down=False)

    def _force_down(self, hosts: Sequence[SmallHost], *, down: bool) -> None:
        table = schema.services
        for host in hosts:
            values = {"forced_down": down, "updated_at": schema.utcnow()}
            with self.connection(host.cell.name) as connection:
                connection.execute(sa.update(table).where(table.c.host == host.name).values(values))

    @contextlib.contextmanager
    def full(self, *hosts: SmallHost, left_mb: int = 512) -> Iterator[None]:
        """Let others hold all but so much of the free memory of hosts for a time."""
        consumers = [self._hold(host, left_mb) for host in hosts]
        self.read_again()
        try:
            yield
        finally:
            self.release(consumers)

    def _hold(self, host: SmallHost, left_mb: int) -> str:
        url = f"{self.placement_url}/resource_providers/{host.uuid}/usages"
        used = send("GET", url).json()["usages"]["MEMORY_MB"]
        amount = host.inventories["MEMORY_MB"]["total"] - used - left_mb
        consumer = random_uuid(self.rng)
        if not (answer := self._allocate(consumer, host, {"MEMORY_MB": amount})).ok:
            raise RuntimeError(answer.text)
        return consumer

    def _allocate(self, consumer: str, host: SmallHost, amounts: Mapping[str, int]) -> Any:
        body = {
            "allocations": {host.uuid: {"resources": amounts}},
            "project_id": PROJECT,
            "user_id": USER,
            "consumer_generation": None,
        }
        return send("PUT", f"{self.placement_url}/allocations/{consumer}", body)

    def _enable(self, hosts: Sequence[SmallHost], *, disabled: bool) -> None:
        for host in hosts:
            set_disabled(self, host, disabled=disabled, reason="maintenance")
            self._set_traits(host, disabled=disabled)

    def _set_traits(self, host: SmallHost, *, disabled: bool) -> None:
        url = f"{self.placement_url}/resource_providers/{host.uuid}/traits"
        body = send("GET", url).json()
        body["traits"] = [*COMMON, *host.traits, *([DISABLED] if disabled else [])]
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


class DrawnFleet(Fleet):
    """Hosts that were drawn, some of them in aggregates with metadata."""

    def __init__(
        self,
        hosts: Sequence[SmallHost],
        cells: Sequence[Cell],
        aggregates: Mapping[tuple[str, str, str], Sequence[SmallHost]],
        pool_gb: int = 0,
    ) -> None:
        """Describe them.

        Args:
            aggregates: Hosts by name, key and value of the metadata.
            pool_gb: The size of the pool that all hosts but the last share; 0: none.
        """
        super().__init__(len(hosts), cells)
        self.pool_gb = pool_gb
        self.hosts = list(hosts)
        self.aggregates = [
            replace(each, hosts=[hosts[host.number] for host in each.hosts]) for each in self.aggregates
        ]
        self.aggregates += [
            type(self.aggregates[0])(name, {key: value}, some)
            for (name, key, value), some in aggregates.items()
        ]


def draw_fleet(rng: random.Random, cells: Sequence[Cell]) -> DrawnFleet:
    """Return random hosts in random aggregates."""
    pool_gb = rng.choice((30, 200, 1000)) if rng.random() < 0.15 else 0
    places = Fleet(rng.randint(3, 9), cells).hosts
    hosts = [draw_host(rng, one.number, one.cell, one.zone, pool=bool(pool_gb)) for one in places]

    def some(share: float) -> list[SmallHost]:
        return [host for host in hosts if rng.random() < share]

    aggregates = {("fast", "speed", "fast"): some(0.5), ("tenant", "filter_tenant_id", TENANT): some(0.4)}
    if rng.random() < 0.3:
        aggregates["isolated", f"trait:{ISOLATING}", "required"] = some(0.3)
    return DrawnFleet(hosts, cells, aggregates, pool_gb)


def _pools(count: int) -> dict:
    vendor, product = DEVICE
    data = {
        "product_id": product, "vendor_id": vendor, "numa_node": None, "tags": {"dev_type": "type-PCI"},
        "count": count,
    }  # fmt: skip
    return {
        "nova_object.name": "PciDevicePoolList",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.1",
        "nova_object.data": {
            "objects": [
                {
                    "nova_object.name": "PciDevicePool",
                    "nova_object.namespace": "nova",
                    "nova_object.version": "1.1",
                    "nova_object.data": data,
                }
            ]
        },
    }


@dataclass(frozen=True)
class Wanted:
    """What a request wants; ``without`` removes one thing.

    Attributes:
        vgpus: In a numbered group.
        tree_vgpus: In the unnumbered group.
        tenant: Whether it is of the project that has an aggregate.
        group: The policy of its server group, and hosts of members.
        destination: The one host that it may go to.
    """

    vcpus: int = 1
    memory_mb: int = 1024
    root_gb: int = 5
    traits: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    zone: str | None = None
    vgpus: int = 0
    tree_vgpus: int = 0
    tenant: bool = False
    numa: bool = False
    devices: int = 0
    fast: bool = False
    count: int = 1
    ignored: tuple[str, ...] = ()
    destination: tuple[str, str] | None = None
    policy: str = ""
    group_hosts: tuple[str, ...] = ()
    group_members: tuple[str, ...] = ()

    def extra_specs(self) -> dict[str, str]:
        specs = {f"trait:{name}": "required" for name in self.traits}
        specs |= {f"trait:{name}": "forbidden" for name in self.forbidden}
        if self.vgpus:
            specs["resources1:VGPU"] = str(self.vgpus)
        if self.tree_vgpus:
            specs["resources:VGPU"] = str(self.tree_vgpus)
        if self.numa:
            specs["hw:numa_nodes"] = "1"
        if self.fast:
            specs["aggregate_instance_extra_specs:speed"] = "fast"
        return specs

    def spec(self, uuids: Sequence[str]) -> Any:
        """Return the RequestSpec."""
        flavor = Flavor(1, "f", self.vcpus, self.memory_mb, self.root_gb, tuple(self.extra_specs().items()))
        project = TENANT if self.tenant else PROJECT
        spec = BootRequest(list(uuids), flavor, self.zone, project=project).spec()
        spec.ignore_hosts = list(self.ignored) or None
        if self.destination:
            host, node = self.destination
            spec.requested_destination = objects.Destination(host=host, node=node)
        if self.policy:
            spec.instance_group = objects.InstanceGroup(
                id=1, uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, uuids[0])), name="g", project_id=PROJECT,
                user_id=USER, policy=self.policy, policies=[self.policy], hosts=list(self.group_hosts),
                members=[*self.group_members, *uuids],
            )  # fmt: skip
        if self.devices:
            vendor, product = DEVICE
            request = objects.InstancePCIRequest(
                count=self.devices, spec=[{"vendor_id": vendor, "product_id": product}], alias_name="nic",
                is_new=False, request_id=str(uuid.uuid5(uuid.NAMESPACE_OID, "pci")), numa_policy="legacy",
            )  # fmt: skip
            spec.pci_requests = objects.InstancePCIRequests(instance_uuid=uuids[0], requests=[request])
        return spec


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


def draw_request(rng: random.Random, cloud: RefusingCloud) -> Wanted:
    """Return a request that often finds no host."""
    hosts = cloud.fleet.hosts
    few = rng.choice((0.15, 0.15, 0.3))

    def perhaps(usual: Any, *others: Any) -> Any:
        return rng.choice(others) if rng.random() < few else usual

    wanted = Wanted(
        vcpus=perhaps(1, 2, 6, 12, 20, 40),
        memory_mb=perhaps(1024, 9000, 14000, 20000, 40000),
        root_gb=perhaps(5, 15, 80, 150, 500),
        traits=tuple(trait for trait in TRAITS if rng.random() < few),
        zone=perhaps(None, *ZONES),
        vgpus=perhaps(0, 1, 2, 3),
        tree_vgpus=perhaps(0, 0, 1, 2),
        tenant=perhaps(False, True),
        devices=perhaps(0, 1, 2),
        numa=perhaps(False, True),
        fast=perhaps(False, True),
        count=perhaps(1, 2, 3, 5, 9),
    )
    free = tuple(name for name in TRAITS if name not in wanted.traits)
    if rng.random() < 0.15 and free:
        wanted = replace(wanted, forbidden=(rng.choice(free),))
    if rng.random() < 0.2:
        wanted = replace(wanted, ignored=tuple(host.name for host in rng.sample(hosts, rng.randint(1, 2))))
    if rng.random() < 0.15:
        host = rng.choice(hosts)
        wanted = replace(wanted, destination=(host.name, host.nodename))
    if rng.random() < 0.25:
        with_members = [host for host in hosts if cloud.members.get(host.name)]
        chosen = rng.sample(with_members, min(len(with_members), rng.randint(0, 2)))
        wanted = replace(
            wanted,
            policy=rng.choice(("affinity", "anti-affinity")),
            group_hosts=tuple(host.name for host in chosen),
            group_members=tuple(cloud.members[host.name][0] for host in chosen),
        )
    return wanted


@contextlib.contextmanager
def placement_of(directory: Path) -> Iterator[tuple[str, Path]]:
    """Start the Placement of a run; gives its URL and its database."""
    path = directory / "placement.sqlite"
    with PlacementProcess(path) as url:
        yield url, path
