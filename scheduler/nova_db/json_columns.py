"""The JSON texts of compute nodes as plain values (spec: host-state-and-cells 1.6).

Each function takes a text as stored, or None, and never raises: what cannot be used is left out, and named in
the value's ``problem``.
"""

from collections.abc import Callable
import json
import math
from typing import Any

import orjson

from scheduler.hosts.rows import PERCENT_METRICS, Metric, Parsed, Triples
from scheduler.objects import image_props

HYPERVISORS = frozenset(image_props.HYPERVISORS.split())
MODES = frozenset(image_props.VM_MODES.split())

LARGEST_COUNTER = 2**31 - 1

METRICS = PERCENT_METRICS.union(
    "cpu.frequency cpu.user.time cpu.kernel.time cpu.idle.time cpu.iowait.time".split(),
    "numa.membw.max numa.membw.current".split(),
)


def parse_stats(text: str | None) -> Parsed[dict[str, Any]]:
    """Parse ``stats``. Null reads as an empty object, and a number as its text, as in nova."""
    data, problem = _parsed(text, dict)
    return Parsed({key: str(of) if isinstance(of, int | float) else of for key, of in data.items()}, problem)


def counter(data: dict[str, Any], key: str) -> int:
    """Return a counter among the stats, which are mostly texts; 0 for what is no number, or is too large."""
    try:
        number = int(data.get(key) or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if abs(number) <= LARGEST_COUNTER else 0


def parse_cpu_info(text: str | None) -> Parsed[Any]:
    """Parse ``cpu_info``, which may be any text: one that is no JSON parses to None and is no problem."""
    # The reader that nova uses, since flavors can require the texts of numbers: orjson rounds large ones and
    # refuses NaN.
    try:
        return Parsed(json.loads(text or "null"), text=text)
    except (ValueError, RecursionError):
        return Parsed(None, text=text)


def parse_supported_instances(text: str | None) -> Parsed[Triples]:
    """Parse ``supported_instances``: triples of the names in requests; others are left out."""
    return Parsed(*_items(text, _triple))


def parse_metrics(text: str | None) -> Parsed[tuple[Metric, ...]]:
    """Parse ``metrics``: whole numbers, also of percentages, which are stored as fractions."""
    return Parsed(*_items(text, _metric))


def _parsed(text: str | None, kind: type) -> tuple[Any, str | None]:
    """Return the value of the text and None, or an empty value and the problem."""
    try:
        value = orjson.loads(text or "null")
    except ValueError:
        return kind(), "not JSON"
    if value is None:
        return kind(), None
    return (value, None) if isinstance(value, kind) else (kind(), f"not a JSON {kind.__name__}")


def _items(text: str | None, read: Callable[[Any], Any]) -> tuple[tuple[Any, ...], str | None]:
    stored, problem = _parsed(text, list)
    values = [(item, read(item)) for item in stored]
    unread = [item for item, value in values if value is None]
    if unread:
        problem = f"cannot use {repr(unread[0])[:100]}"
    return tuple(value for _, value in values if value is not None), problem


def _triple(item: Any) -> tuple[str, str, str] | None:
    if not isinstance(item, list) or len(item) != 3 or not all(isinstance(name, str) for name in item):
        return None
    architecture, hypervisor, mode = (name.lower() for name in item)
    architecture = image_props.ARCHITECTURE_ALIASES.get(architecture, architecture)
    hypervisor = image_props.HYPERVISOR_ALIASES.get(hypervisor, hypervisor)
    mode = image_props.VM_MODE_ALIASES.get(mode, mode)
    return (architecture, hypervisor, mode) if hypervisor in HYPERVISORS and mode in MODES else None


def _metric(item: Any) -> Metric | None:
    name, value = (item.get("name"), item.get("value")) if isinstance(item, dict) else (None, None)
    if not isinstance(name, str) or name not in METRICS or not _is_number_or_null(value):
        return None
    if value is not None:
        value = int(value * 100 if name in PERCENT_METRICS else value)
    return Metric(name, value, item.get("timestamp"), item.get("source"), item.get("numa_membw_values"))


def _is_number_or_null(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
