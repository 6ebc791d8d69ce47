"""What a process keeps: the size of every container that can be reached from some objects.

Only objects of this project, containers and the caches of cachetools are entered. Libraries keep their own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
import functools
import sys
from types import ModuleType
from typing import Any

import cachetools

ENTERED = ("scheduler.", "tests.", "cachetools")
#: Entries and bytes by which an unbounded container may grow between two looks.
MOST_NEW_ENTRIES = 500
MOST_NEW_BYTES = 16 << 20


@dataclass(frozen=True)
class Size:
    """The size of a container.

    Attributes:
        entries: Number of its entries.
        size: Bytes of all that was first reached through it.
        bound: The most entries that it takes; None if it has no bound of its own.
    """

    entries: int
    size: int
    bound: float | None = None


def measure(roots: Mapping[str, Any]) -> dict[str, Size]:
    """Return the containers that can be reached from ``roots``, by the way that leads to each.

    A way names attributes; all entries of a container have one way, and their sizes are added up.
    """
    found: dict[str, Size] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, str, Any]] = [(name, name, root) for name, root in roots.items()]
    while waiting:
        way, owner, value = waiting.pop()
        if id(value) in seen or isinstance(value, type | ModuleType):
            continue
        seen.add(id(value))
        if _is_container(value):
            old = found.get(way, Size(0, 0))
            found[way] = Size(old.entries + len(value), old.size, _bound(value))
            owner = way
        _add_bytes(found, owner, value)
        waiting.extend((f"{way}{step}", owner, item) for step, item in _inside(value))
    return found


def compare(before: Mapping[str, Size], after: Mapping[str, Size]) -> list[str]:
    """Return one line for each container that is beyond its bound, or grew though it has none."""
    found = []
    for way, now in after.items():
        was = before.get(way, Size(0, 0))
        if now.bound is not None and now.entries > now.bound:
            found.append(f"{way} has {now.entries} entries, more than its bound of {now.bound}")
        elif (
            now.bound is None and not _in_bounded(way, after) and now.entries - was.entries > MOST_NEW_ENTRIES
        ):
            found.append(f"{way} grew from {was.entries} to {now.entries} entries")
        if now.size - was.size > MOST_NEW_BYTES:
            found.append(f"{way} grew from {was.size} to {now.size} bytes")
    return found


def _in_bounded(way: str, sizes: Mapping[str, Size]) -> bool:
    """Tell whether what a way leads to is inside a container with a bound, which limits it too."""
    return any(size.bound is not None and way.startswith(f"{outer}[") for outer, size in sizes.items())


def module_roots() -> dict[str, Any]:
    """Return what the loaded modules of this project hold: containers, caches of functions, objects."""
    roots: dict[str, Any] = {}
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("scheduler"):
            for name, value in vars(module).items():
                if not name.startswith("__") and not isinstance(value, type | ModuleType):
                    roots[f"{module_name}.{name}"] = value
    return roots


def _bound(value: Any) -> float | None:
    if isinstance(value, cachetools.Cache):
        return value.maxsize
    return value.bound if isinstance(value, _CacheOfFunction) else None


def _add_bytes(found: dict[str, Size], owner: str, value: Any) -> None:
    if owner in found:
        old = found[owner]
        found[owner] = Size(old.entries, old.size + sys.getsizeof(value, 0), old.bound)


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list | set | frozenset | tuple | cachetools.Cache | _CacheOfFunction) or (
        type(value).__name__ in {"deque", "mappingproxy"}
    )


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, and the step that leads there."""
    if isinstance(value, functools._lru_cache_wrapper):  # noqa: SLF001 - the type has no public name
        yield ".cache", _CacheOfFunction(value)
    elif isinstance(value, Mapping):
        yield from _pairs(value)
    elif _is_container(value) and not isinstance(value, _CacheOfFunction):
        yield from (("[]", item) for item in list(value))
    elif type(value).__module__.startswith(ENTERED):
        yield from ((f".{name}", item) for name, item in _attributes(value))


def _pairs(value: Mapping) -> Iterable[tuple[str, Any]]:
    for key, item in list(value.items()):
        yield "[key]", key
        yield "[]", item


def _attributes(value: Any) -> list[tuple[str, Any]]:
    names = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    found = {name: getattr(value, name) for name in names if isinstance(name, str) and hasattr(value, name)}
    return list({**found, **getattr(value, "__dict__", {})}.items())


class _CacheOfFunction:
    """The entries of a ``functools.lru_cache``."""

    def __init__(self, function: Any) -> None:
        self._info = function.cache_info()
        self.bound = self._info.maxsize

    def __len__(self) -> int:
        return self._info.currsize
