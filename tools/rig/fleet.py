"""Generate a synthetic fleet for nova's databases and for Placement: cells, computes, aggregates.

The hosts resemble those of libvirt: three classes of hardware, two sockets with hyper-threads, a NUMA
topology, CPU features. The memory differs a little from host to host. The same arguments give the same fleet
and the same UUIDs.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import json
from typing import Any
import uuid

import sqlalchemy as sa

from scheduler.nova_db import schema
from tools.rig.providers import Provider

CELL0_UUID = "00000000-0000-0000-0000-000000000000"
ZONES = ("az1", "az2", "az3")
RESERVED_MB = 8192
CPU_RATIO = 4.0
COMPUTE_VERSION = 74
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
    """A class of machine: CPU threads, MiB of memory, GiB of disk."""

    threads: int
    memory_mb: int
    disk_gb: int


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
    """A compute host; its number determines its name, its UUID and its hardware."""

    number: int
    cell: Cell
    zone: str
    prefix: str = "cmp"

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
        machine = HARDWARE[self.number % len(HARDWARE)]
        return dataclasses.replace(machine, memory_mb=machine.memory_mb - 1024 - self.number * 7919 % 4096)

    def provider(self, aggregates: Sequence[str] = ()) -> Provider:
        """Return the resource provider, a member of the aggregates with these UUIDs."""
        return Provider(self.nodename, self.uuid, _inventories(self.hardware), TRAITS, aggregates)


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
    """``count`` hosts, spread evenly over the cells and the zones."""

    def __init__(self, count: int, cells: Sequence[Cell], partitions: int = 1) -> None:
        """Describe hosts; with several partitions each has an aggregate, ``part1`` and so on."""
        self.cells = tuple(cells)
        cell_count = len(self.cells)
        self.hosts = [
            Host(number, self.cells[number % cell_count], ZONES[number // cell_count % len(ZONES)])
            for number in range(count)
        ]
        self.aggregates = [
            *(Aggregate(zone, {"availability_zone": zone}, self._where(zone=zone)) for zone in ZONES),
            Aggregate("ssd", {"disk": "ssd"}, self.hosts[::2]),
        ]
        self.partitions = [
            Aggregate(f"part{number + 1}", {}, self.hosts[fleet_share(number, partitions, count)])
            for number in range(partitions if partitions > 1 else 0)
        ]
        self.aggregates += self.partitions

    def _where(self, **wanted) -> list[Host]:
        return [host for host in self.hosts if all(getattr(host, k) == v for k, v in wanted.items())]

    def of_cell(self, cell: Cell) -> list[Host]:
        """Return the hosts of a cell."""
        return self._where(cell=cell)

    def providers(self) -> list[Provider]:
        """Return the resource providers of the hosts."""
        aggregates = {host.uuid: [] for host in self.hosts}
        for aggregate in self.aggregates:
            for host in aggregate.hosts:
                aggregates[host.uuid].append(aggregate.uuid)
        return [host.provider(aggregates[host.uuid]) for host in self.hosts]

    def write(self, api_url: str, cell0_url: str) -> None:
        """Create nova's API database, cell0 and the databases of the cells, and write the fleet to them."""
        with _database(api_url, schema.API) as connection:
            self._write_cells(connection, cell0_url)
            self._write_aggregates(connection)
        with _database(cell0_url, schema.CELL):
            pass
        for cell in self.cells:
            with _database(cell.database_url, schema.CELL) as connection:
                insert(connection, schema.services, map(service_row, self.of_cell(cell)))
                insert(connection, schema.compute_nodes, map(compute_node_row, self.of_cell(cell)))

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


def _inventories(machine: Hardware) -> dict[str, dict]:
    return {
        "VCPU": {"total": machine.threads, "max_unit": machine.threads, "allocation_ratio": CPU_RATIO},
        "MEMORY_MB": {"total": machine.memory_mb, "max_unit": machine.memory_mb, "reserved": RESERVED_MB},
        "DISK_GB": {"total": machine.disk_gb, "max_unit": machine.disk_gb},
    }


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
    }


def compute_node_row(host: Host) -> dict:
    """Return the row of the compute node of a host."""
    machine = host.hardware
    number = host.number
    return {
        "uuid": host.uuid,
        "host": host.name,
        "hypervisor_hostname": host.nodename,
        "updated_at": schema.utcnow(),
        "vcpus": machine.threads,
        "memory_mb": machine.memory_mb,
        "local_gb": machine.disk_gb,
        "memory_mb_used": RESERVED_MB,
        "free_ram_mb": machine.memory_mb - RESERVED_MB,
        "free_disk_gb": machine.disk_gb,
        "disk_available_least": machine.disk_gb - number % 40,
        "current_workload": 0,
        "running_vms": 0,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002002,
        "cpu_info": json.dumps(_cpu_info(machine)),
        "host_ip": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        "supported_instances": json.dumps(
            [[a, h, "hvm"] for a in ("i686", "x86_64") for h in ("qemu", "kvm")]
        ),
        "metrics": "[]",
        "pci_stats": json.dumps(_envelope("PciDevicePoolList", "1.1", objects=[])),
        "stats": json.dumps({"failed_builds": "0"}),
        "numa_topology": json.dumps(_numa_topology(machine)),
        "cpu_allocation_ratio": CPU_RATIO,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
        "mapped": 1,
    }


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
