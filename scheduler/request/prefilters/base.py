"""What pre-filters share: the services that they query, and the parts of a RequestSpec that they change.

Through the services pre-filters know neither databases nor clients. For where each change goes see
spec: filters-and-weighers 4.0.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scheduler import objects
from scheduler.logs import RateLimitedLogger
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


class AggregateMetadata(Protocol):
    """A host aggregate; aggregates without a UUID are unknown to Placement and left out."""

    @property
    def uuid(self) -> str | None:
        """The uuid in Placement."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The texts under its keys."""


class Network(Protocol):
    """Neutron. Every method may raise a :class:`scheduler.errors.NetworkError`."""

    def port(self, context, port_id: str) -> Mapping[str, Any]:
        """Return the port as the user of the request sees it: ``fixed_ips``, ``network_id``, ..."""

    def segments_of_network(self, context, network_id: str) -> Collection[str]:
        """Return the UUIDs of the segments of the network's subnets; none if it is not routed."""

    def segment_of_subnet(self, context, subnet_id: str) -> str | None:
        """Return the UUID of the subnet's segment, or None."""


@dataclass(frozen=True)
class PrefilterServices:
    """The services for facts that the request does not contain.

    Attributes:
        conf: The options; ``[scheduler]`` is read.
        aggregates: All host aggregates, as they are best known.
        minimum_compute_version: The lowest version of any nova-compute in any cell that answers, or 0.
        network: Neutron; queried only if a request or an option requires it.
        provider_aggregates: ``(context, resource provider uuid)`` → UUIDs of its aggregates in Placement.
        warnings: Where what holds for every request is logged.
    """

    conf: Any
    aggregates: Callable[[], Iterable[AggregateMetadata]]
    minimum_compute_version: Callable[[], int]
    network: Network
    provider_aggregates: Callable[[Any, str], Collection[str]]
    warnings: RateLimitedLogger
