"""A fleet: its rows in nova's databases (cells, computes, aggregates), and its providers in Placement.

The hosts resemble those of libvirt: two sockets with hyper-threads, a NUMA topology, CPU features. By default
there are three classes of hardware, and memory differs a little from host to host; ``draw`` makes others. The
same arguments give the same fleet and the same UUIDs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import json
from typing import TYPE_CHECKING, Any
import uuid

import sqlalchemy as sa

from scheduler.nova_db import schema
from tools.rig.providers import Provider

if TYPE_CHECKING:
    from tools.rig.load import Flavor

CELL0_UUID = "00000000-0000-0000-0000-000000000000"
ZONES = ("az1", "az2", "az3")
RESERVED_MB = 8192
CPU_RATIO = 4.0
COMPUTE_VERSION = 74
DISABLED = "COMPUTE_STATUS_DISABLED"
SHARES = "MISC_SHARES_VIA_AGGREGATE"
#: The vendor and the product of the PCI devices.
DEVICE = ("8086", "154d")
TRAITS = (
    "OWNER_NOVA COMPUTE_NODE COMPUTE_DEVICE_TAGGING COMPUTE_NET_ATTACH_INTERFACE COMPUTE_ACCELERATORS "
    "COMPUTE_NET_VIF_MODEL_VIRTIO COMPUTE_STORAGE_BUS_SCSI COMPUTE_STORAGE_BUS_VIRTIO COMPUTE_IMAGE_TYPE_RAW "
    "COMPUTE_GRAPHICS_MODEL_VIRTIO COMPUTE_IMAGE_TYPE_QCOW2 COMPUTE_VOLUME_ATTACH_WITH_TAG "
    "COMPUTE_VOLUME_EXTEND COMPUTE_VOLUME_MULTI_ATTACH HW_CPU_X86_SSE42 HW_CPU_X86_AVX HW_CPU_X86_AVX2 "
    "HW_CPU_X86_AESNI HW_CPU_X86_VMX"
).split()
FEATURES = (
    "aes apic avx avx2 bmi1 bmi2 cx16 f16c fma invpcid movbe msr nx pae pat pcid pclmuldq pdpe1gb popcnt "
    "rdrand rdtscp smap smep sse4.1 sse4.2 ssse3 syscall tsc-deadline vme vmx x2apic xsave xsaveopt"
).split()


@dataclasses.dataclass(frozen=True)
class Hardware:
    """A class of machine: CPU threads, MiB of memory, GiB of disk, and what computes report of it.

    Attributes:
        dedicated: Threads for dedicated CPUs, besides those that instances share.
        own_disk: Whether Placement has an inventory of it; hosts that share a pool have none.
        limits: Resource class → fields of its inventory other than the usual ones; the usual ``max_unit`` is
            the total.
    """

    threads: int
    memory_mb: int
    disk_gb: int
    cpu_ratio: float = CPU_RATIO
    reserved_mb: int = RESERVED_MB
    dedicated: int = 0
    own_disk: bool = True
    limits: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def inventories(self) -> dict[str, dict[str, Any]]:
        """Resource class → fields of its inventory that differ from Placement's defaults."""
        totals = {"VCPU": self.threads, "MEMORY_MB": self.memory_mb}
        totals |= {"PCPU": self.dedicated} if self.dedicated else {}
        totals |= {"DISK_GB": self.disk_gb} if self.own_disk else {}
        found: dict[str, dict[str, Any]] = {
            name: {"total": total, "max_unit": total} for name, total in totals.items()
        }
        found["VCPU"]["allocation_ratio"] = self.cpu_ratio
        found["MEMORY_MB"]["reserved"] = self.reserved_mb
        for name, fields in found.items():
            fields.update(self.limits.get(name, {}))
        return found


# One entry for each tenth of the fleet.
HARDWARE = (
    *[Hardware(64, 262144, 1800)] * 5,
    *[Hardware(96, 393216, 3500)] * 3,
    *[Hardware(128, 524288, 7000)] * 2,
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell: its name, and the URLs of its database and its message bus."""

    name: str
    database_url: str
    transport_url: str = "none:///"

    @property
    def uuid(self) -> str:
        return _uuid(f"cell {self.name}")


@dataclasses.dataclass(frozen=True)
class Host:
    """A compute host; its number determines its name, its UUID and, unless it is given, its hardware.

    Attributes:
        traits: Those that not all hosts have.
        vgpus: What a child of its provider has.
        devices: PCI devices of one pool.
        state: ``up``, ``disabled`` or ``down``.
    """

    number: int
    cell: Cell
    zone: str
    prefix: str = "cmp"
    machine: Hardware | None = None
    traits: tuple[str, ...] = ()
    vgpus: int = 0
    devices: int = 0
    state: str = "up"

    @property
    def name(self) -> str:
        return f"{self.prefix}-{self.number:05d}"

    @property
    def nodename(self) -> str:
        return f"{self.name}.example.net"

    @property
    def uuid(self) -> str:
        return _uuid(f"compute {self.name}")

    @property
    def hardware(self) -> Hardware:
        """The hardware without the memory of firmware and crash kernel, which differs from host to host."""
        if self.machine is not None:
            return self.machine
        machine = HARDWARE[self.number % len(HARDWARE)]
        return dataclasses.replace(machine, memory_mb=machine.memory_mb - 1024 - self.number * 7919 % 4096)

    def providers(self, aggregates: Sequence[str] = ()) -> Iterator[Provider]:
        """Yield its resource provider, which is in the aggregates with these UUIDs, and that of devices."""
        traits = [*TRAITS, *self.traits, *([DISABLED] if self.state == "disabled" else [])]
        yield Provider(self.nodename, self.uuid, self.hardware.inventories, traits, aggregates)
        if self.vgpus:
            name = f"{self.nodename}_pci"
            yield Provider(name, _uuid(name), {"VGPU": {"total": self.vgpus}}, (), (), parent=self.uuid)


@dataclasses.dataclass(frozen=True)
class Placed:
    """An instance on a host.

    Attributes:
        number: Determines its name and its age.
        group: The number of its server group; None: it has none.
    """

    uuid: str
    host: Host
    flavor: "Flavor"
    number: int = 0
    state: str = "active"
    group: int | None = None

    @property
    def amounts(self) -> dict[str, int]:
        """What it holds of each resource class that its host has."""
        there = self.host.hardware.inventories
        return {name: amount for name, amount in self.flavor.amounts.items() if name in there}


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """A host aggregate; it has the same UUID in Placement."""

    name: str
    metadata: dict[str, str]
    hosts: Sequence[Host]

    @property
    def uuid(self) -> str:
        return _uuid(f"aggregate {self.name}")


class Fleet:
    """Hosts in cells and zones, and their aggregates.

    Attributes:
        pool_gb: The size of a pool of disk that all hosts but the last share; 0: there is none.
        placed: Instances that are there.
    """

    def __init__(self, hosts: int | Sequence[Host], cells: Sequence[Cell], partitions: int = 1) -> None:
        """Describe hosts; so many hosts are spread evenly over the cells and the zones.

        With several partitions each has an aggregate, ``part1`` and so on.
        """
        self.cells = tuple(cells)
        self.pool_gb = 0
        self.placed: list[Placed] = []
        self.hosts = list(_spread(hosts, self.cells) if isinstance(hosts, int) else hosts)
        self.aggregates = [
            *(Aggregate(zone, {"availability_zone": zone}, self._where(zone=zone)) for zone in ZONES),
            Aggregate("ssd", {"disk": "ssd"}, self.hosts[::2]),
        ]
        self.partitions = [
            Aggregate(f"part{number + 1}", {}, self.hosts[fleet_share(number, partitions, len(self.hosts))])
            for number in range(partitions if partitions > 1 else 0)
        ]
        self.aggregates += self.partitions

    def _where(self, **wanted) -> list[Host]:
        return [host for host in self.hosts if all(getattr(host, k) == v for k, v in wanted.items())]

    def of_cell(self, cell: Cell) -> list[Host]:
        """Return the hosts of a cell."""
        return self._where(cell=cell)

    def partition_of_host(self) -> dict[str, str]:
        """Return the partition of each host; empty if there is only one."""
        return {host.name: each.name for each in self.partitions for host in each.hosts}

    def providers(self) -> list[Provider]:
        """Return the resource providers, parents before their children."""
        aggregates: dict[str, list[str]] = {host.uuid: [] for host in self.hosts}
        for aggregate in self.aggregates:
            for host in aggregate.hosts:
                aggregates[host.uuid].append(aggregate.uuid)
        if self.pool_gb:
            for host in self.hosts[:-1] or self.hosts:
                aggregates[host.uuid].append(_uuid("pool"))
        found = [each for host in self.hosts for each in host.providers(aggregates[host.uuid])]
        if self.pool_gb:
            disk = {"DISK_GB": {"total": self.pool_gb}}
            found.append(Provider("pool", _uuid("pool"), disk, (SHARES,), (_uuid("pool"),)))
        return found

    def held(self) -> dict[Host, list[Placed]]:
        """Return the instances that are on each host."""
        held: dict[Host, list[Placed]] = {host: [] for host in self.hosts}
        for each in self.placed:
            held[each.host].append(each)
        return held

    def write(self, api_url: str, cell0_url: str) -> None:
        """Create nova's API database, cell0 and the databases of the cells, and write the fleet to them."""
        held = self.held()
        with _database(api_url, schema.API) as connection:
            self._write_cells(connection, cell0_url)
            self._write_aggregates(connection)
        with _database(cell0_url, schema.CELL):
            pass
        for cell in self.cells:
            with _database(cell.database_url, schema.CELL) as connection:
                hosts = self.of_cell(cell)
                insert(connection, schema.services, map(service_row, hosts))
                insert(
                    connection, schema.compute_nodes, (compute_node_row(each, held[each]) for each in hosts)
                )

    def _write_cells(self, connection, cell0_url) -> None:
        cell0 = Cell("cell0", cell0_url)
        rows = [
            {
                "id": number,
                "uuid": cell.uuid if number else CELL0_UUID,
                "name": cell.name,
                "transport_url": cell.transport_url,
                "database_connection": cell.database_url,
            }
            for number, cell in enumerate((cell0, *self.cells))
        ]
        for row in rows:
            row["id"] += 1  # MySQL replaces 0 by the next number
        ids = {row["uuid"]: row["id"] for row in rows}
        insert(connection, schema.cell_mappings, rows)
        insert(
            connection,
            schema.host_mappings,
            [{"host": host.name, "cell_id": ids[host.cell.uuid]} for host in self.hosts],
        )

    def _write_aggregates(self, connection) -> None:
        for number, aggregate in enumerate(self.aggregates, 1):
            row = {"id": number, "uuid": aggregate.uuid, "name": aggregate.name}
            insert(connection, schema.aggregates, [row])
            members = [{"aggregate_id": number, "host": host.name} for host in aggregate.hosts]
            insert(connection, schema.aggregate_hosts, members)
            metadata = [{"aggregate_id": number, "key": k, "value": v} for k, v in aggregate.metadata.items()]
            insert(connection, schema.aggregate_metadata, metadata)


def _spread(count: int, cells: Sequence[Cell]) -> Iterator[Host]:
    for number in range(count):
        yield Host(number, cells[number % len(cells)], ZONES[number // len(cells) % len(ZONES)])


def fleet_share(number: int, parts: int, count: int) -> slice:
    """Return the slice of ``count`` items that one of equal parts has."""
    return slice(number * count // parts, (number + 1) * count // parts)


def _uuid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _database(url, metadata):
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    return engine.begin()


def insert(connection: sa.Connection, table: sa.Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert many rows."""
    for chunk in schema.chunks(rows, 10_000):
        connection.execute(sa.insert(table), chunk)


def service_row(host: Host) -> dict:
    """Return the row of the compute service of a host."""
    return {
        "uuid": _uuid(f"service {host.name}"),
        "host": host.name,
        "binary": "nova-compute",
        "topic": "compute",
        "report_count": 1000,
        "last_seen_up": schema.utcnow(),
        "version": COMPUTE_VERSION,
        "disabled": host.state == "disabled",
        "disabled_reason": "maintenance" if host.state == "disabled" else None,
        "forced_down": host.state == "down",
    }


def compute_node_row(host: Host, held: Sequence[Placed] = ()) -> dict:
    """Return the row of the compute node of a host that has instances."""
    machine = host.hardware
    number = host.number
    vcpus, memory_mb, disk_gb = (
        sum(each.flavor.amounts[name] for each in held) for name in ("VCPU", "MEMORY_MB", "DISK_GB")
    )
    return {
        "uuid": host.uuid,
        "host": host.name,
        "hypervisor_hostname": host.nodename,
        "updated_at": schema.utcnow(),
        "vcpus": machine.threads,
        "vcpus_used": vcpus,
        "memory_mb": machine.memory_mb,
        "local_gb": machine.disk_gb,
        "local_gb_used": disk_gb,
        "memory_mb_used": machine.reserved_mb + memory_mb,
        "free_ram_mb": machine.memory_mb - machine.reserved_mb - memory_mb,
        "free_disk_gb": machine.disk_gb - disk_gb,
        "disk_available_least": machine.disk_gb - number % 40 - disk_gb,
        "current_workload": 0,
        "running_vms": len(held),
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002002,
        "cpu_info": json.dumps(_cpu_info(machine)),
        "host_ip": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        "supported_instances": json.dumps(
            [[a, h, "hvm"] for a in ("i686", "x86_64") for h in ("qemu", "kvm")]
        ),
        "metrics": "[]",
        "pci_stats": json.dumps(_envelope("PciDevicePoolList", "1.1", objects=_pools(host.devices))),
        "stats": json.dumps({"failed_builds": "0", "num_instances": str(len(held))}),
        "numa_topology": json.dumps(_numa_topology(machine)),
        "cpu_allocation_ratio": machine.cpu_ratio,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
        "mapped": 1,
    }


def _pools(devices: int) -> list[dict]:
    vendor, product = DEVICE
    pool = {"vendor_id": vendor, "product_id": product, "numa_node": None, "count": devices}
    pool["tags"] = {"dev_type": "type-PCI"}
    return [_envelope("PciDevicePool", "1.1", **pool)] if devices else []


def _cpu_info(machine: Hardware) -> dict:
    return {
        "arch": "x86_64",
        "model": "Cascadelake-Server-noTSX",
        "vendor": "Intel",
        "topology": {"cells": 2, "sockets": 1, "cores": machine.threads // 4, "threads": 2},
        "features": FEATURES,
    }


def _numa_topology(machine: Hardware) -> dict:
    """Return two sockets; threads n and n + ``half`` share a core."""
    half = machine.threads // 2
    return _envelope("NUMATopology", "1.2", cells=[_numa_cell(machine, half, socket) for socket in range(2)])


def _numa_cell(machine: Hardware, half: int, socket: int) -> dict:
    cores = range(socket * half // 2, (socket + 1) * half // 2)
    small_pages = machine.memory_mb * 512 // 4
    return _envelope(
        "NUMACell",
        "1.5",
        id=socket,
        socket=socket,
        cpuset=[*cores, *(core + half for core in cores)],
        pcpuset=[],
        pinned_cpus=[],
        siblings=[[core, core + half] for core in cores],
        memory=machine.memory_mb // 2,
        memory_usage=0,
        cpu_usage=0,
        mempages=[_pages(4, small_pages), _pages(2048, 0), _pages(1048576, 0)],
        network_metadata=_envelope("NetworkMetadata", "1.0", physnets=[], tunneled=False),
    )


def _pages(size_kb: int, total: int) -> dict:
    return _envelope("NUMAPagesTopology", "1.1", size_kb=size_kb, total=total, used=0, reserved=0)


def _envelope(name: str, version: str, **data) -> dict:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }
