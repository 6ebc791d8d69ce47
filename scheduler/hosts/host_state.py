"""One host under nova's attribute names, for operators' own classes and for explanations.

Its public attributes are exactly nova's (spec: filters-and-weighers 1.12): a bare flavor extra spec that
equals one of them is a capability test, so any more would change what requests mean.
"""
# ruff: noqa: SLF001 - what is not nova's is in functions and descriptors of this module

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from functools import cached_property
import marshal
from types import MappingProxyType, SimpleNamespace
from typing import Any

import netaddr

from scheduler.hosts.aggregates import AVAILABILITY_ZONE, AggregateSet, HostAggregate
from scheduler.hosts.coordinates import ViewPosition
from scheduler.hosts.nova_values import NumaTopology, PciStats
from scheduler.hosts.rows import MetricList, ServiceRow


class AggregateOfHost:
    """A copy of an aggregate, with the types that nova's object has."""

    def __init__(self, known: HostAggregate) -> None:
        self._known = known
        self.id, self.uuid, self.name = known.id, known.uuid, known.name
        self.metadata = dict(known.metadata)

    @cached_property
    def hosts(self) -> list[str]:
        """Names of service hosts: a list is long, and few rules read it."""
        return sorted(self._known.hosts)

    @property
    def availability_zone(self) -> str | None:
        """The zone that the metadata names."""
        return self.metadata.get(AVAILABILITY_ZONE)


class _Value:
    """An attribute that is read from the table until a rule sets it, for the rest of the request."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    def __get__(self, host: Any, _owner: type | None = None) -> Any:
        return self if host is None else self._read(host)


class _Number:
    """A number in a column: what a rule sets counts for all rules of the request after it."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, host: Any, _owner: type | None = None) -> Any:
        return self if host is None else host._shared.column(self._name)[host._position].item()

    def __set__(self, host: Any, value: float) -> None:
        host._shared.write_number(self._name, host._position, value)


class HostState:
    """A live view of one host of a request: reads see what the request has consumed so far."""

    def __init__(self, shared: Any, position: ViewPosition) -> None:
        """Show one host.

        Args:
            shared: What all views of the request share.
            position: The host's position in the root view.
        """
        self._shared = shared
        self._position = position
        self._row = shared.table.rows[shared.rows[position]]
        self._instances: dict[str, Any] | None = None
        self._dictionaries: dict[int, tuple[dict, Any]] = {}

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB "
            f"io_ops: {self.num_io_ops} instances: {self.num_instances}, "
            f"allocation_candidates: {len(self._shared.candidates[self._position])}"
        )

    def _value(self, name: str) -> Any:
        return self._shared.coded_column(name)[self._position]

    host = _Value(lambda self: self._row.host)
    nodename = _Value(lambda self: self._row.nodename)
    uuid = _Value(lambda self: self._row.uuid)
    cell_uuid = _Value(lambda self: self._row.cell_uuid)
    free_ram_mb, total_usable_ram_mb = _Number(), _Number()
    free_disk_mb, total_usable_disk_gb, disk_mb_used = _Number(), _Number(), _Number()
    vcpus_total, vcpus_used = _Number(), _Number()
    num_instances, num_io_ops, failed_builds = _Number(), _Number(), _Number()
    cpu_allocation_ratio, ram_allocation_ratio, disk_allocation_ratio = _Number(), _Number(), _Number()
    hypervisor_type = _Value(lambda self: self._row.hypervisor_type)
    hypervisor_version = _Number()
    hypervisor_hostname = _Value(lambda self: self._row.nodename)
    cpu_info = _Value(lambda self: self._row.cpu_info.text)
    metrics = _Value(lambda self: MetricList(deepcopy(self._row.metrics.value)))

    @_Value
    def numa_topology(self) -> NumaTopology | None:
        topology = self._value("numa_topology")
        return None if topology is None else NumaTopology(topology)

    @_Value
    def pci_stats(self) -> PciStats | None:
        pools, topology = self._value("pci_stats"), self._value("numa_topology")
        return None if pools is None else PciStats(pools, topology and topology.sockets)

    @_Value
    def host_ip(self) -> Any:
        """A ``netaddr.IPAddress``, or None; it never equals a text."""
        return netaddr.IPAddress(self._row.host_ip) if self._row.host_ip else None

    @_Value
    def supported_instances(self) -> list[list[str]]:
        return [list(triple) for triple in self._row.supported_instances.value]

    @cached_property
    def stats(self) -> dict[str, Any]:
        """A copy: what a rule changes in it is seen by the rules of this request alone."""
        # deepcopy would need two calls within each other for each level of what a compute has written
        return marshal.loads(marshal.dumps(self._row.stats.value))  # noqa: S302 - of our own

    @cached_property
    def aggregates(self) -> list[AggregateOfHost]:
        """Copies, as for ``stats``."""
        return [AggregateOfHost(known) for known in self._value("aggregates")]

    @_Value
    def updated(self) -> datetime | None:
        return self._row.updated and self._row.updated.replace(tzinfo=UTC)

    @_Value
    def service(self) -> Mapping[str, Any]:
        """The service record as a read-only map; times are aware UTC."""
        table = self._shared.table
        return service_map(table.services[self._shared.rows[self._position]], table.seen_since)

    @_Value
    def instances(self) -> dict[str, Any]:
        """Instances on the host by uuid: read at the first access. Those of this request have a uuid only."""
        instances = self._instances
        if instances is None:
            instances = self._instances = dict(
                self._shared.instances.source.on_host(self.cell_uuid, self.host)
            )
        for uuid in self._shared.instances.placed_on(self._shared.rows[self._position]):
            instances.setdefault(uuid, SimpleNamespace(uuid=uuid))
        return instances

    @property
    def limits(self) -> dict[str, Any]:
        return self._shared.limits_of(self._position)

    @limits.setter
    def limits(self, value: dict[str, Any]) -> None:
        self._shared.limits_of(self._position)  # what other rules wrote is replaced too
        self._shared.limits[self._position] = value

    @property
    def allocation_candidates(self) -> list[Any]:
        """Dictionaries with ``allocations`` and ``mappings``. Rules may change them, and leave some out."""
        left = self._shared.candidates[self._position]
        if not (isinstance(left, list) and all(isinstance(each, dict) for each in left)):
            left = [self._dictionary(each) for each in left]
            self._shared.candidates[self._position] = left
        return left

    @allocation_candidates.setter
    def allocation_candidates(self, value: Iterable[Any]) -> None:
        _ = self._dictionaries or self.allocation_candidates  # what a copied dictionary is compared with
        self._shared.candidates[self._position] = list(value)

    def _dictionary(self, candidate: Any) -> dict:
        if isinstance(candidate, dict):
            return candidate
        made: dict = candidate.as_dict()
        self._dictionaries[id(made)] = made, candidate
        return made

    def update(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: nova has this method, but here the table is always up to date."""

    def consume_from_request(self, spec_obj: Any) -> None:
        """Do nothing: nova has this method, but here the selection consumes, not a rule."""


def instances_held(host: HostState, uuids: Iterable[str]) -> list[str]:
    """Return those of the given instances that a host holds, without reading a database.

    No method of ``HostState``, whose public attributes are nova's alone.

    Raises:
        LookupError: An instance was not located before (``HostView.load``).
    """
    shared = host._shared
    return shared.instances.held(uuids, int(shared.rows[host._position]))


def claimable(host: HostState, candidates: Iterable[Any]) -> list[Any]:
    """Return what is to be claimed for the dictionaries of a host; a rule may have copied or changed them."""
    known = host._dictionaries
    made = []
    for each in candidates:
        if isinstance(each, dict) and known:
            same = (pair for pair in known.values() if pair[0] == each)
            _, origin = known.get(id(each)) or next(same, None) or next(iter(known.values()))
            made.append(origin.having(each))
        elif not isinstance(each, dict):  # of a host without candidates nothing can be claimed
            made.append(each)
    return made


def aggregate_set(host: HostState) -> AggregateSet:
    """Return the aggregates of a host as they were read; hosts in the same ones share the object."""
    aggregates: AggregateSet = host._value("aggregates")
    return aggregates


def service_map(service: ServiceRow, seen_since: datetime | None = None) -> Mapping[str, Any]:
    """Return a service as the map that nova's rules read (spec: host-state-and-cells 3.3).

    Args:
        seen_since: Since when it was seen if it is alive; its own heartbeat may have been read long ago.
    """
    fields = {name: getattr(service, name) for name in service.__slots__}
    if fields.pop("alive") and seen_since is not None:
        fields["last_seen_up"] = max(service.last_seen_up or seen_since, seen_since)
    for name, value in fields.items():
        if isinstance(value, datetime):
            fields[name] = value.replace(tzinfo=UTC)
    return MappingProxyType(fields | {"deleted": False, "deleted_at": None})
