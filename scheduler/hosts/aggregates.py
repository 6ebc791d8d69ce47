"""Host aggregates as plain values (spec: host-state-and-cells 1.4, filters-and-weighers 1.12)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

AVAILABILITY_ZONE = "availability_zone"


@dataclass(frozen=True)
class Aggregate:
    """One host aggregate; ``hosts`` are service host names, ``metadata`` text by text."""

    id: int
    uuid: str | None
    name: str
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def availability_zone(self) -> str | None:
        return self.metadata.get(AVAILABILITY_ZONE)


class AggregateSet:
    """The aggregates that one host is in. Hosts in the same aggregates share one object."""

    def __init__(self, aggregates: Iterable[Aggregate]) -> None:
        self.aggregates = tuple(sorted(aggregates, key=lambda aggregate: aggregate.id))
        self._raw: dict[str, frozenset[str]] = {}

    def __iter__(self):
        return iter(self.aggregates)

    def __len__(self) -> int:
        return len(self.aggregates)

    def raw(self, key: str) -> frozenset[str]:
        """The distinct texts stored under ``key``, unsplit."""
        values = self._raw.get(key)
        if values is None:
            values = frozenset(a.metadata[key] for a in self.aggregates if key in a.metadata)
            self._raw[key] = values
        return values

    def smallest(self, key: str, number: Callable[[str], float], default: float) -> float:
        """The smallest ``number`` stored under ``key``; ``default`` if there is none, or any is no number."""
        try:
            return min(map(number, self.raw(key)), default=default)
        except ValueError:
            LOG.warning("Aggregate metadata %s has a value that is no number: it is ignored", key)
            return default

    @cached_property
    def metadata(self) -> Mapping[str, frozenset[str]]:
        """All metadata of all aggregates, values split at commas and stripped, united by key."""
        return MappingProxyType(split_metadata(self.aggregates))

    def availability_zone(self, default: str) -> str:
        """One of the zones that the aggregates name, the first in order of text; else ``default``."""
        return min(self.metadata.get(AVAILABILITY_ZONE, ()), default=default)


def split_metadata(aggregates: Iterable[Aggregate]) -> dict[str, frozenset[str]]:
    """Metadata of several aggregates, split at commas, by key."""
    merged: dict[str, set[str]] = {}
    for aggregate in aggregates:
        for key, value in aggregate.metadata.items():
            merged.setdefault(key, set()).update(part.strip() for part in value.split(","))
    return {key: frozenset(values) for key, values in merged.items()}


class Aggregates:
    """All aggregates at one moment, and the set that each host is in."""

    def __init__(self, aggregates: Iterable[Aggregate] = ()) -> None:
        self.by_id = {aggregate.id: aggregate for aggregate in aggregates}
        self._sets: dict[tuple[int, ...], AggregateSet] = {(): AggregateSet(())}
        ids: dict[str, list[int]] = {}
        for aggregate_id in sorted(self.by_id):
            for host in self.by_id[aggregate_id].hosts:
                ids.setdefault(host, []).append(aggregate_id)
        self._ids = {host: tuple(host_ids) for host, host_ids in ids.items()}

    def __iter__(self):
        return iter(self.by_id.values())

    def of_host(self, host: str) -> AggregateSet:
        """The aggregates of a service host; one shared object per distinct set."""
        ids = self._ids.get(host, ())
        found = self._sets.get(ids)
        if found is None:
            found = self._sets[ids] = AggregateSet(self.by_id[i] for i in ids)
        return found

    def replacing(self, changed: Iterable[Aggregate]) -> "Aggregates":
        """A new whole in which ``changed`` take the place of those with their ids."""
        return Aggregates({**self.by_id, **{a.id: a for a in changed}}.values())

    def without(self, aggregate_id: int) -> "Aggregates":
        """A new whole without one aggregate."""
        return Aggregates(a for a in self if a.id != aggregate_id)
