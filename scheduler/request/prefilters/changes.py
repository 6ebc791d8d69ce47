"""The changes that pre-filters make to a RequestSpec (spec: filters-and-weighers 4.0, "Where changes go")."""

from collections.abc import Iterable

from scheduler import objects
from scheduler.request.reading import read


def require_root(spec, *traits: str) -> None:
    """The root provider of the host must have these traits."""
    params = _level_params(spec)
    params.root_required = {*read(params, "root_required", ()), *traits}


def forbid_root(spec, *traits: str) -> None:
    """The root provider of the host must not have any of these traits."""
    params = _level_params(spec)
    params.root_forbidden = {*read(params, "root_forbidden", ()), *traits}


def require_any_aggregate(spec, uuids: Iterable[str]) -> None:
    """The host must be in one of these aggregates, beside whatever else is required."""
    destination = ensure_destination(spec)
    destination.aggregates = [*read(destination, "aggregates", ()), ",".join(uuids)]


def forbid_aggregates(spec, uuids: Iterable[str]) -> None:
    """The host must be in none of these aggregates."""
    destination = ensure_destination(spec)
    destination.forbidden_aggregates = {*read(destination, "forbidden_aggregates", ()), *uuids}


def ensure_destination(spec):
    """The requested destination; a new one, without host, node or cell, if there is none."""
    destination = read(spec, "requested_destination")
    if destination is None:
        destination = spec.requested_destination = objects.Destination()
    return destination


def _level_params(spec):
    params = read(spec, "request_level_params")
    if params is None:
        params = spec.request_level_params = objects.RequestLevelParams()
    return params
