"""Pools of free PCI devices as a compute node reports them.

A pool is a number of interchangeable devices, described by a flat map of keys (vendor, product, NUMA node and
the operator's tags). Pools with fewer keys come first and are consumed first (spec: numa-and-pci 1.5).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import orjson

from scheduler.objects import is_envelope
from scheduler.objects.base import Malformed, data_of, integer
from scheduler.pci.wire import hash_once

VERSIONS = ("1.0", "1.1")


@hash_once
@dataclass(frozen=True)
class PoolKind:
    """The description of a pool without its count and its provider.

    Hosts with the same hardware have equal kinds, so a request is matched with each of them once.

    Attributes:
        keys: Pairs (key, value), sorted. ``numa_node`` is an int or None, other values are text or None.
    """

    keys: tuple[tuple[str, str | int | None], ...]

    @cached_property
    def folded(self) -> Mapping[str, str | int | None]:
        """The keys with texts in lower case, for comparison with a request."""
        return {key: value.lower() if isinstance(value, str) else value for key, value in self.keys}

    def get(self, key: str) -> str | int | None:
        """Return the value of a key, None if it is missing."""
        return next((value for name, value in self.keys if name == key), None)

    @cached_property
    def numa_node(self) -> int | None:
        """The NUMA node of the devices, None if it is unknown."""
        node = self.get("numa_node")
        return node if isinstance(node, int) else None


@dataclass(frozen=True)
class Pool:
    """``count`` free devices of one kind; ``provider`` is the UUID of their Placement provider, if any."""

    kind: PoolKind
    count: int
    provider: str | None = None

    def flat(self) -> dict[str, str | int | None]:
        """Return the flat map that filters written for nova see as the pool."""
        flat = dict(self.kind.keys)
        if self.provider is not None:
            flat["rp_uuid"] = self.provider
        return {**flat, "count": self.count}


@hash_once
@dataclass(frozen=True)
class PoolSet:
    """The pools of one host, in the order of consumption.

    Attributes:
        problem: Why the stored pools could not be read; None if they could.
    """

    pools: tuple[Pool, ...] = ()
    problem: str | None = None

    @cached_property
    def kinds(self) -> tuple[PoolKind, ...]:
        return tuple(pool.kind for pool in self.pools)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        return tuple(pool.count for pool in self.pools)

    @cached_property
    def provider_index(self) -> Mapping[str, int]:
        """Provider UUID -> number, in the order of the pools, so that equal hosts have equal numbers."""
        named = dict.fromkeys(pool.provider for pool in self.pools if pool.provider is not None)
        return {provider: index for index, provider in enumerate(named)}

    @cached_property
    def providers(self) -> tuple[int, ...]:
        """The number of the provider of each pool, -1 for none."""
        return tuple(
            -1 if pool.provider is None else self.provider_index[pool.provider] for pool in self.pools
        )

    @cached_property
    def free_devices(self) -> int:
        return sum(self.counts)

    @cached_property
    def free_by_node(self) -> tuple[tuple[int, int], ...]:
        """(NUMA node, free devices), sorted by node; devices whose node is unknown are left out."""
        free: Counter[int] = Counter()
        for pool in self.pools:
            if pool.kind.numa_node is not None:
                free[pool.kind.numa_node] += pool.count
        return tuple(sorted(free.items()))

    def with_counts(self, counts: Iterable[int | None]) -> "PoolSet":
        """Return the pools with other counts, without those whose count is None."""
        changed = zip(self.pools, counts, strict=True)
        return replace(
            self, pools=tuple(replace(pool, count=count) for pool, count in changed if count is not None)
        )


def load_pools(text: str | None) -> PoolSet:
    """Return the pools in ``compute_nodes.pci_stats``; without pools and with a ``problem`` if unreadable."""
    try:
        return parse_pools(text)
    except Malformed as error:
        return PoolSet(problem=f"PCI device pools cannot be read: {error}")


def parse_pools(text: str | None) -> PoolSet:
    """Return the pools in ``compute_nodes.pci_stats`` (spec: numa-and-pci 1.5).

    A missing or empty text, and one that is not JSON, means no pools.

    Raises:
        Malformed: The text is JSON, but not a list of pools.
    """
    try:
        stored = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return PoolSet()
    if stored is None or (not isinstance(stored, bool) and not stored):
        return PoolSet()
    flats = [_flat_object(pool) for pool in _objects(stored)] if is_envelope(stored) else _plain(stored)
    return from_flat(flats)


def from_flat(flats: Iterable[Mapping[str, object]]) -> PoolSet:
    """Return the pools that flat maps describe, in the order of consumption."""
    ordered = sorted(flats, key=len)
    return PoolSet(tuple(_pool(flat) for flat in ordered))


def _objects(stored: object) -> list[object]:
    objects = data_of(stored, "PciDevicePoolList", VERSIONS.__contains__).get("objects", [])
    if not isinstance(objects, list):
        raise Malformed("the list of pools is not a list")
    return objects


def _flat_object(stored: object) -> dict[str, object]:
    data = data_of(stored, "PciDevicePool", VERSIONS.__contains__)
    tags = data.get("tags", {})
    if not isinstance(tags, dict):
        raise Malformed("the tags of a pool are not a map")
    fixed = {key: data[key] for key in ("vendor_id", "product_id", "numa_node", "count") if key in data}
    return {**fixed, **tags}


def _plain(stored: object) -> list[dict[str, object]]:
    """Return the flat maps in a text from before 2015: one map without envelope or a list of them."""
    pools = [stored] if isinstance(stored, dict) else stored
    if not isinstance(pools, list) or not all(isinstance(pool, dict) for pool in pools):
        raise Malformed("neither a list of pools nor a pool")
    for pool in pools:
        for key in ("vendor_id", "product_id", "count"):
            if key not in pool:
                raise Malformed(f"a pool without {key}")
    return [{"numa_node": None, **pool} for pool in pools]


def _pool(flat: Mapping[str, object]) -> Pool:
    provider = _text("rp_uuid", flat.get("rp_uuid"))
    keys = tuple(
        (key, _value(key, value)) for key, value in sorted(flat.items()) if key not in ("count", "rp_uuid")
    )
    return Pool(PoolKind(keys), _count(flat.get("count")), provider)


def _value(key: str, value: object) -> str | int | None:
    if key == "numa_node":
        return None if value is None else integer(key, value)
    if key in ("vendor_id", "product_id") and value is None:
        raise Malformed(f"{key} is null")
    return _text(key, value)


def _text(key: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    raise Malformed(f"{key!r:.40} is not a text")


def _count(value: object) -> int:
    count = integer("count", value)
    if count < 0:
        raise Malformed(f"count is {count}")
    return count
