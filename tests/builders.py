"""Hosts, tables and views for tests, in one line each.

::

    view = make_view([make_host("h1").ram(8192).az("a"), make_host("h2").holding("i1").disabled()])

Every host is enabled, alive and in cell ``CELL`` unless told otherwise. ``set`` gives any column of ``HostRow``.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
import itertools
import json
from types import SimpleNamespace
from typing import Any
import uuid

import numpy as np

from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.hosts.rows import HostRow, Metric, Parsed, ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView

CELL = "c0000000-0000-4000-8000-000000000001"
OTHER_CELL = "c0000000-0000-4000-8000-000000000002"
NAMES = uuid.UUID("b0000000-0000-4000-8000-000000000000")

_ids = itertools.count(1)


def uuid_of(name: str) -> str:
    """A uuid that is always the same for a name."""
    return str(uuid.uuid5(NAMES, name))


class HostBuilder:
    """One host; each method changes it and gives it back."""

    def __init__(self, host: str, nodename: str | None = None) -> None:
        self.columns: dict[str, Any] = {
            "id": next(_ids),
            "cell_uuid": CELL,
            "host": host,
            "nodename": nodename or host,
            "uuid": uuid_of(nodename or host),
        }
        self.service_columns: dict[str, Any] = {
            "id": next(_ids),
            "uuid": uuid_of(f"service {host}"),
            "host": host,
            "last_seen_up": datetime.now(UTC).replace(tzinfo=None),
        }
        self.aggregates: dict[str, dict[str, str]] = {}
        self.instances: dict[str, dict[str, str]] = {}
        self.candidates: list[Any] = []

    def set(self, **columns: Any) -> "HostBuilder":
        """Any columns of ``HostRow`` as they are."""
        self.columns.update(columns)
        return self

    # -- amounts

    def ram(self, free: int, total: int | None = None) -> "HostBuilder":
        """MiB."""
        return self.set(free_ram_mb=free, total_usable_ram_mb=max(free, 0) if total is None else total)

    def disk(self, free_mb: int, total_gb: int | None = None, used_mb: int = 0) -> "HostBuilder":
        total = max(free_mb, 0) // 1024 if total_gb is None else total_gb
        return self.set(free_disk_mb=free_mb, total_usable_disk_gb=total, disk_mb_used=used_mb)

    def vcpus(self, total: int, used: int = 0, ratio: float | None = None) -> "HostBuilder":
        ratios = {} if ratio is None else {"cpu_allocation_ratio": ratio}
        return self.set(vcpus_total=total, vcpus_used=used, **ratios)

    def ratios(self, cpu: float = 4.0, ram: float = 1.0, disk: float = 1.0) -> "HostBuilder":
        return self.set(cpu_allocation_ratio=cpu, ram_allocation_ratio=ram, disk_allocation_ratio=disk)

    def io_ops(self, number: int) -> "HostBuilder":
        return self.set(num_io_ops=number)

    def num_instances(self, number: int) -> "HostBuilder":
        return self.set(num_instances=number)

    def failed_builds(self, number: int) -> "HostBuilder":
        return self.set(failed_builds=number)

    # -- what the driver says

    def hypervisor(self, kind: str | None, version: int = 0) -> "HostBuilder":
        return self.set(hypervisor_type=kind, hypervisor_version=version)

    def ip(self, address: str | None) -> "HostBuilder":
        return self.set(host_ip=address)

    def cpu_info(self, info: Any) -> "HostBuilder":
        """A text as stored, or what is to be stored as JSON."""
        text = info if info is None or isinstance(info, str) else json.dumps(info)
        try:
            parsed = json.loads(text or "null")
        except ValueError:
            parsed = None
        return self.set(cpu_info=Parsed(parsed, text=text))

    def supports(self, *triples: Sequence[str]) -> "HostBuilder":
        """(architecture, hypervisor type, vm mode), canonical."""
        return self.set(supported_instances=Parsed(tuple(tuple(triple) for triple in triples)))

    def stats(self, data: Mapping[str, Any] | None = None, **more: Any) -> "HostBuilder":
        """The ``stats`` object alone; counters made of it have methods of their own."""
        return self.set(stats=Parsed({**(data or {}), **more}))

    def metrics(self, values: Mapping[str, Any]) -> "HostBuilder":
        """Metric values by name, or whole ``Metric`` objects by name."""
        items = (
            value if isinstance(value, Metric) else Metric(name, value, "2026-01-02T03:04:05", "test")
            for name, value in values.items()
        )
        return self.set(metrics=Parsed(tuple(items)))

    def numa(self, topology: Any) -> "HostBuilder":
        return self.set(numa_topology=topology)

    def pci(self, pools: Any) -> "HostBuilder":
        return self.set(pci_stats=pools)

    # -- where it is

    def node(self, nodename: str) -> "HostBuilder":
        """Another name for the node, and the uuid that goes with it."""
        return self.set(nodename=nodename, uuid=uuid_of(nodename))

    def cell(self, cell_uuid: str) -> "HostBuilder":
        return self.set(cell_uuid=cell_uuid)

    def aggregate(self, name: str, metadata: Mapping[str, str] | None = None, **more: str) -> "HostBuilder":
        """Put the host in an aggregate; hosts that name the same aggregate share it and its metadata."""
        self.aggregates.setdefault(name, {}).update(metadata or {}, **more)
        return self

    def az(self, zone: str) -> "HostBuilder":
        return self.aggregate(f"az-{zone}", availability_zone=zone)

    # -- its service

    def service(self, **columns: Any) -> "HostBuilder":
        """Any columns of ``ServiceRow`` as they are."""
        self.service_columns.update(columns)
        return self

    def disabled(self, reason: str | None = None) -> "HostBuilder":
        return self.service(disabled=True, disabled_reason=reason)

    def forced_down(self) -> "HostBuilder":
        return self.service(forced_down=True)

    def seen(self, seconds_ago: float) -> "HostBuilder":
        """The age of the last heartbeat; negative for one from the future."""
        moment = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=seconds_ago)
        return self.service(last_seen_up=moment)

    def down(self) -> "HostBuilder":
        """No heartbeat for an hour."""
        return self.seen(3600)

    # -- one request

    def holding(self, *uuids: str, **image_properties: str) -> "HostBuilder":
        """Instances on the host, each with these image properties."""
        self.instances.update({uuid: dict(image_properties) for uuid in uuids})
        return self

    def candidate(self, *candidates: Any) -> "HostBuilder":
        """Allocation candidates, best first."""
        self.candidates.extend(candidates)
        return self

    @property
    def place(self) -> tuple[str, str]:
        return self.columns["cell_uuid"], self.columns["host"]

    def row(self) -> HostRow:
        return HostRow(**self.columns)

    def service_row(self) -> ServiceRow:
        return ServiceRow(**self.service_columns)


class Instances:
    """An ``InstanceSource`` over what the builders hold; ``asked`` counts the look-ups."""

    def __init__(self, hosts: Iterable[HostBuilder]) -> None:
        self.places: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
        for host in hosts:
            self.places.setdefault(host.place, {}).update(host.instances)
        self.asked = 0
        self.reread: list[str] = []

    def reread_images(self, uuids: Iterable[str]) -> None:
        self.reread += uuids

    def locate(self, uuids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
        self.asked += 1
        wanted = list(uuids)
        found = {uuid: [place for place, held in self.places.items() if uuid in held] for uuid in wanted}
        return {uuid: places for uuid, places in found.items() if places}

    def on_host(self, cell_uuid: str, host: str) -> dict[str, Any]:
        self.asked += 1
        return {uuid: SimpleNamespace(uuid=uuid) for uuid in self.places.get((cell_uuid, host), ())}

    def image_properties(
        self, places: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], list[dict[str, str]]]:
        self.asked += 1
        return {place: list(self.places.get(place, {}).values()) for place in places}


def make_host(host: str, nodename: str | None = None) -> HostBuilder:
    return HostBuilder(host, nodename)


def make_aggregates(hosts: Iterable[HostBuilder]) -> Aggregates:
    """The aggregates that the hosts name, ids in order of first mention."""
    members: dict[str, set[str]] = {}
    metadata: dict[str, dict[str, str]] = {}
    for host in hosts:
        for name, values in host.aggregates.items():
            members.setdefault(name, set()).add(host.columns["host"])
            metadata.setdefault(name, {}).update(values)
    return Aggregates(
        HostAggregate(number, uuid_of(f"aggregate {name}"), name, frozenset(members[name]), metadata[name])
        for number, name in enumerate(members, 1)
    )


def make_table(
    hosts: Iterable[HostBuilder],
    *,
    disabled_cells: Iterable[str] = (),
    read_at: float = 0.0,
    previous: HostTable | None = None,
) -> HostTable:
    """Hosts in the given order; the last builder of a service host gives its service."""
    hosts = list(hosts)
    services = {host.place: host.service_row() for host in hosts}
    return HostTable(
        [host.row() for host in hosts],
        services,
        make_aggregates(hosts),
        frozenset(disabled_cells),
        read_at,
        previous,
    )


def make_view(hosts: Iterable[HostBuilder], *, instances: Any = None, **table: Any) -> HostView:
    """A root view of all the hosts in the given order, with the candidates and instances they were given."""
    hosts = list(hosts)
    source = instances or Instances(hosts)
    return HostView.of(
        make_table(hosts, **table), np.arange(len(hosts)), [list(host.candidates) for host in hosts], source
    )
