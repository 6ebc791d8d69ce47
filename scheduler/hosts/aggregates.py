"""Host aggregates as plain values (spec: host-state-and-cells 1.4, filters-and-weighers 1.12)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from oslo_log import log as logging

LOG = logging.getLogger(f"nova.{__name__}")

AVAILABILITY_ZONE = "availability_zone"


@dataclass(frozen=True)
class HostAggregate:
    """One host aggregate.

    Attributes:
        id: Its id in the API database.
        uuid: Its uuid; very old aggregates have none.
        name: Its name.
        hosts: Names of service hosts.
        metadata: Text by key.
    """

    id: int
    uuid: str | None
    name: str
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def availability_zone(self) -> str | None:
        """The zone that the metadata names."""
        return self.metadata.get(AVAILABILITY_ZONE)


class AggregateSet:
    """The aggregates that one host is in. Hosts in the same aggregates share one object."""

    def __init__(self, aggregates: Iterable[HostAggregate]) -> None:
        self.aggregates = tuple(sorted(aggregates, key=lambda aggregate: aggregate.id))
        self.uuids = frozenset(aggregate.uuid for aggregate in self.aggregates if aggregate.uuid)
        self._raw: dict[str, frozenset[str]] = {}
        self._smallest: dict[tuple[str, Callable[[str], float]], float | None] = {}

    def __iter__(self) -> Iterator[HostAggregate]:
        return iter(self.aggregates)

    def __len__(self) -> int:
        return len(self.aggregates)

    def raw(self, key: str) -> frozenset[str]:
        """Return the distinct texts that are stored under ``key``, not split at commas."""
        values = self._raw.get(key)
        if values is None:
            values = frozenset(a.metadata[key] for a in self.aggregates if key in a.metadata)
            self._raw[key] = values
        return values

    def smallest(self, key: str, number: Callable[[str], float], default: float) -> float:
        """Return the smallest number that is stored under ``key``.

        Args:
            number: Reads one text; raises ``ValueError`` for one that is no number.
            default: The result if no text is stored, or one is no number. The latter is logged once for this
                set of aggregates.
        """
        if (key, number) not in self._smallest:
            self._smallest[key, number] = self._read_smallest(key, number)
        smallest = self._smallest[key, number]
        return default if smallest is None else smallest

    def _read_smallest(self, key: str, number: Callable[[str], float]) -> float | None:
        try:
            return min(map(number, self.raw(key)), default=None)
        except ValueError:
            LOG.warning("Aggregate metadata key %s has a value that is not a number; ignoring the key", key)
            return None

    @cached_property
    def metadata(self) -> Mapping[str, frozenset[str]]:
        """The metadata of all aggregates by key, values split at commas and stripped."""
        return MappingProxyType(split_metadata(self.aggregates))

    def availability_zone(self, default: str) -> str:
        """Return the first zone, in order of text, that the aggregates name; ``default`` without one."""
        return default if self._zone is None else self._zone

    @cached_property
    def _zone(self) -> str | None:
        return min(self.metadata.get(AVAILABILITY_ZONE, ()), default=None)


def split_metadata(aggregates: Iterable[Any]) -> dict[str, frozenset[str]]:
    """Return the ``metadata`` of several aggregates by key, values split at commas and stripped."""
    merged: dict[str, set[str]] = {}
    for aggregate in aggregates:
        for key, value in aggregate.metadata.items():
            merged.setdefault(key, set()).update(part.strip() for part in value.split(","))
    return {key: frozenset(values) for key, values in merged.items()}


class Aggregates:
    """All aggregates at one moment, and the set that each host is in."""

    def __init__(self, aggregates: Iterable[HostAggregate] = ()) -> None:
        self.by_id = {aggregate.id: aggregate for aggregate in aggregates}
        self._sets: dict[tuple[int, ...], AggregateSet] = {(): AggregateSet(())}
        ids: dict[str, list[int]] = {}
        for aggregate_id in sorted(self.by_id):
            for host in self.by_id[aggregate_id].hosts:
                ids.setdefault(host, []).append(aggregate_id)
        self._ids = {host: tuple(host_ids) for host, host_ids in ids.items()}

    def __iter__(self) -> Iterator[HostAggregate]:
        return iter(self.by_id.values())

    @cached_property
    def uuids(self) -> frozenset[str]:
        """The uuids of all aggregates that have one."""
        return frozenset(aggregate.uuid for aggregate in self if aggregate.uuid)

    def named(self, names: Collection[str]) -> list[HostAggregate]:
        """Return the aggregates of these names or uuids; those without a uuid are left out."""
        return [each for each in self if each.uuid and (each.name in names or each.uuid in names)]

    def of_host(self, host: str) -> AggregateSet:
        """Return the aggregates of a service host; hosts in the same aggregates share one object."""
        ids = self._ids.get(host, ())
        aggregates = self._sets.get(ids)
        if aggregates is None:
            aggregates = self._sets[ids] = AggregateSet(self.by_id[i] for i in ids)
        return aggregates
