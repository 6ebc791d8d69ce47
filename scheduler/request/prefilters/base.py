"""What pre-filters share: the services that they query, and the parts of a RequestSpec that they change.

Through the services pre-filters know neither databases nor clients. For where each change goes see
spec: filters-and-weighers 4.0.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from scheduler import objects
from scheduler.logs import RateLimitedLogger
from scheduler.request.network import NeutronNetwork
from scheduler.request.reading import read


def require_root(spec, *traits: str) -> None:
    """Require these traits of the root provider of the host."""
    params = _level_params(spec)
    params.root_required = {*read(params, "root_required", ()), *traits}


def forbid_root(spec, *traits: str) -> None:
    """Forbid these traits on the root provider of the host."""
    params = _level_params(spec)
    params.root_forbidden = {*read(params, "root_forbidden", ()), *traits}


def require_any_aggregate(spec, uuids: Iterable[str]) -> None:
    """Require that the host is in one of these aggregates, besides all other requirements."""
    destination = ensure_destination(spec)
    destination.aggregates = [*read(destination, "aggregates", ()), ",".join(uuids)]


def forbid_aggregates(spec, uuids: Iterable[str]) -> None:
    """Require that the host is in none of these aggregates."""
    destination = ensure_destination(spec)
    destination.forbidden_aggregates = {*read(destination, "forbidden_aggregates", ()), *uuids}


def ensure_destination(spec):
    """Return the requested destination; it is made, without host, node or cell, if there is none."""
    destination = read(spec, "requested_destination")
    if destination is None:
        destination = spec.requested_destination = objects.Destination()
    return destination


def _level_params(spec):
    params = read(spec, "request_level_params")
    if params is None:
        params = spec.request_level_params = objects.RequestLevelParams()
    return params


@dataclass(frozen=True)
class PrefilterServices:
    """The services for facts that the request does not contain.

    Attributes:
        conf: The options; ``[scheduler]`` is read.
        aggregates: All host aggregates, as they are best known: their ``uuid`` and ``metadata``. Those
            without a UUID are unknown to Placement and left out.
        minimum_compute_version: The lowest version of any nova-compute in any cell that answers, or 0.
        network: Neutron; queried only if a request or an option requires it.
        provider_aggregates: ``(context, resource provider uuid)`` → UUIDs of its aggregates in Placement.
        warnings: Where what holds for every request is logged.
    """

    conf: Any
    aggregates: Callable[[], Iterable[Any]]
    minimum_compute_version: Callable[[], int]
    network: NeutronNetwork
    provider_aggregates: Callable[[Any, str], Collection[str]]
    warnings: RateLimitedLogger
