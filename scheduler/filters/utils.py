"""nova's helpers for filters, which filters of operators import (spec: filters-and-weighers 1.12)."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_log import log as logging

from scheduler.hosts.aggregates import split_metadata
from scheduler.hosts.host_state import HostState

LOG = logging.getLogger(f"nova.{__name__}")


def aggregate_values_from_key(host_state: HostState, key_name: str) -> set[str]:
    """Return the texts stored under a key in the host's aggregates, unsplit."""
    return {a.metadata[key_name] for a in host_state.aggregates if key_name in a.metadata}


def aggregate_metadata_get_by_host(host_state: HostState, key: str | None = None) -> dict[str, set[str]]:
    """Return all metadata of the host's aggregates (with ``key``: of those that have it), split at commas."""
    aggregates = [a for a in host_state.aggregates if key is None or key in a.metadata]
    return {name: set(values) for name, values in split_metadata(aggregates).items()}


def validate_num_values(
    vals: Iterable[str], default: Any = None, cast_to: Callable = int, based_on: Callable = min
) -> Any:
    """Return the number that ``based_on`` picks out of several texts; ``default`` if there are none.

    Raises:
        ValueError: One of the texts is no number.
    """
    numbers = [cast_to(value) for value in vals]
    if len(numbers) > 1:
        LOG.debug("%d aggregate values found; using the %s of %s", len(numbers), based_on.__name__, numbers)
    return based_on(numbers) if numbers else default


def instance_uuids_overlap(host_state: HostState, uuids: Iterable[str] | str) -> bool:
    """Return whether any of the instances is on the host; reads the host's instances from its cell."""
    wanted = [uuids] if isinstance(uuids, str) else uuids
    return not set(wanted).isdisjoint(host_state.instances)
