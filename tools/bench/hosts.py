"""Generate synthetic hosts, what Placement and a mirror have of them, and the instances on them.

These are not the hosts of ``rig.draw``: each rule finds work here, all figures are of the same hosts, and
rows read from nova's JSON take twelve times as long to make (2.3 s of CPU for 10,000).
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
import random
from typing import Any
import uuid

import numpy as np
import orjson

from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.hosts.rows import HostRow, Metric, Parsed, ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.numa.topology import HostCell, HostTopology
from scheduler.pci.pools import from_flat
from scheduler.placement.answer import AllocationCandidate, Candidates
from scheduler.placement.mirror import Mirror, MirrorAnswer, read_wide
from scheduler.placement.plain_query import only_plain_query
from scheduler.request.query import Query

CELLS = tuple(str(uuid.UUID(int=number)) for number in range(1, 5))
ZONES = ("az1", "az2", "az3")
RACKS = 40
HARDWARE = ((64, 262144, 1800), (96, 393216, 3500), (128, 524288, 7000))
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}
TRAITS = [f"HW_CPU_X86_FEATURE_{number}" for number in range(40)]
IMAGES = [{"os_distro": name, "hw_vm_mode": "hvm"} for name in ("debian", "fedora", "ubuntu", "windows")]
INSTANCES_A_HOST = 10

_KVM = Parsed((("x86_64", "kvm", "hvm"), ("i686", "kvm", "hvm"), ("x86_64", "qemu", "hvm")))
_METRICS = [
    Parsed((Metric("cpu.percent", load, None, "libvirt"), Metric("cpu.frequency", 2400, None, "libvirt")))
    for load in range(100)
]


def table(count: int, seed: int = 1) -> HostTable:
    """Return ``count`` hosts in four cells, three zones and forty racks, with three kinds of hardware."""
    rng = random.Random(seed)
    kinds = [_kind(number) for number in range(12)]
    rows = [_row(number, rng, kinds) for number in range(count)]
    services = {(row.cell_uuid, row.host): _service(number, row.host) for number, row in enumerate(rows)}
    return HostTable(rows, services, _aggregates(rows))


def candidates(hosts: HostTable) -> dict[str, tuple[AllocationCandidate, ...]]:
    """Return one candidate for each host, by the UUID of its compute node."""
    return {
        row.uuid: (
            AllocationCandidate.of(
                row.uuid, (row.uuid,), {row.uuid: {"resources": AMOUNTS}}, {"": [row.uuid]}
            ),
        )
        for row in hosts.rows
    }


def view(hosts: HostTable) -> HostView:
    """Return a view on all hosts with candidates and instances, without any cached result."""
    lists = list(candidates(hosts).values())
    return HostView.of(hosts, np.arange(len(hosts)), lists, Instances(hosts))


def offered(hosts: HostTable, found: Candidates) -> HostView:
    """Return a view on the hosts that Placement offers, as ``parse`` returns them."""
    rows, by_root = hosts.find(found.by_root), found.by_root
    lists = CandidateLists(lambda position: by_root[hosts.rows[rows[position]].uuid])
    return HostView.of(hosts, rows, lists)


def answer(hosts: HostTable) -> bytes:
    """Return the body of GET /allocation_candidates: 1.4 kB per host, mostly traits, as in a real answer."""
    requests = [
        {"allocations": {row.uuid: {"resources": AMOUNTS}}, "mappings": {"": [row.uuid]}}
        for row in hosts.rows
    ]
    resources = {name: {"capacity": 100000, "used": 0} for name in AMOUNTS}
    summaries = {
        row.uuid: {
            "resources": resources,
            "traits": TRAITS,
            "parent_provider_uuid": None,
            "root_provider_uuid": row.uuid,
        }
        for row in hosts.rows
    }
    return orjson.dumps({"allocation_requests": requests, "provider_summaries": summaries})


class ReadOnce:
    """A mirror of the compute nodes that nothing changes."""

    def __init__(self, body: bytes) -> None:
        """Read an answer of Placement."""
        self.known = Mirror()
        self.known.publish(read_wide(body).nodes, self.known.begin_reading(), {}, {})

    def find(self, queries: Sequence[Query]) -> MirrorAnswer | None:
        plain = only_plain_query(queries)
        return None if plain is None else self.known.find(plain)

    def nodes_changed(self, nodes: Collection[str]) -> None: ...


class Instances:
    """An ``InstanceSource`` without a database: instance ``number`` is on the host of that number."""

    def __init__(self, hosts: HostTable) -> None:
        self._places = {uuid_of(number): (row.cell_uuid, row.host) for number, row in enumerate(hosts.rows)}

    def locate(self, uuids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
        return {name: [self._places[name]] for name in uuids if name in self._places}

    def on_host(self, cell_uuid: str, host: str) -> dict[str, Any]:
        return {name: None for name, place in self._places.items() if place == (cell_uuid, host)}

    def image_properties(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[dict]]:
        held = [IMAGES * 3] * len(IMAGES)
        held = [images[number : number + INSTANCES_A_HOST] for number, images in enumerate(held)]
        return {place: held[number % len(held)] for number, place in enumerate(places)}


def uuid_of(instance: int) -> str:
    """Return the UUID of an instance by its number."""
    return str(uuid.UUID(int=(2 << 64) + instance))


def _kind(number: int) -> dict[str, Any]:
    """Return the fields that hosts of one model and state have in common."""
    info = {"arch": "x86_64", "vendor": "Intel", "model": f"Model-{number % 6}", "features": ["vmx", "aes"]}
    cells = (HostCell(cell, frozenset(range(cell * 8, cell * 8 + 8)), memory=65536) for cell in (0, 1))
    pool = {"vendor_id": "8086", "product_id": "154c", "numa_node": 0, "dev_type": "type-VF"}
    return {
        "cpu_info": Parsed(info, text=orjson.dumps(info).decode()),
        "numa_topology": HostTopology(tuple(cells)),
        "pci_stats": from_flat([{**pool, "count": number}]) if number else None,
    }


def _row(number: int, rng: random.Random, kinds: list[dict[str, Any]]) -> HostRow:
    threads, memory, disk = HARDWARE[number % 3]
    used = rng.randrange(threads)
    stats = {"num_instances": str(used % 40), "io_workload": "0", f"num_proj_{number % 500}": "1"}
    return HostRow(
        id=number,
        uuid=str(uuid.UUID(int=(1 << 64) + number)),
        cell_uuid=CELLS[number % len(CELLS)],
        host=f"compute-{number:05d}",
        nodename=f"compute-{number:05d}",
        free_ram_mb=memory - used * 1024,
        total_usable_ram_mb=memory,
        free_disk_mb=(disk - used) * 1024,
        total_usable_disk_gb=disk,
        vcpus_total=threads,
        vcpus_used=used,
        num_instances=used % 40,
        num_io_ops=used % 3,
        hypervisor_type="QEMU",
        hypervisor_version=8002000 + number % 3,
        host_ip=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        supported_instances=_KVM,
        stats=Parsed(stats),
        metrics=_METRICS[used % 100],
        **kinds[number % len(kinds)],
    )


def _service(number: int, host: str) -> ServiceRow:
    return ServiceRow(number, None, host, last_seen_up=datetime.now(UTC).replace(tzinfo=None))


def _aggregates(rows: list[HostRow]) -> Aggregates:
    """Return a zone and a rack for each host; every fiftieth host is also in an aggregate for one project."""
    common = {
        "ssd": "true",
        "instance_type": "m1,m2",
        "max_io_ops_per_host": "16",
        "max_instances_per_host": "60",
        "cpu_allocation_ratio": "8.0",
        "hw_vm_mode": "hvm",
    }
    zones = [({**common, "availability_zone": zone}, _every(rows, 3, at)) for at, zone in enumerate(ZONES)]
    weights = {"ram_weight_multiplier": "2.0", "build_failure_weight_multiplier": "1000.0"}
    racks = [({"rack": str(at), **weights}, _every(rows, RACKS, at)) for at in range(RACKS)]
    special = ({"filter_tenant_id": "project"}, _every(rows, 50, 0))
    return Aggregates(
        HostAggregate(number, str(uuid.UUID(int=number)), f"aggregate-{number}", hosts, metadata)
        for number, (metadata, hosts) in enumerate([*zones, *racks, special], 1)
    )


def _every(rows: list[HostRow], step: int, offset: int) -> frozenset[str]:
    return frozenset(row.host for row in rows[offset::step])
