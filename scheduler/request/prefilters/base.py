"""The changes that pre-filters make to a RequestSpec (spec: filters-and-weighers 4.0, "Where changes go").

What pre-filters need from the world, so that they know neither databases nor clients.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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


class Aggregate(Protocol):
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
        """The port as Neutron shows it to the user of the request: ``fixed_ips``, ``network_id``, ..."""

    def segments_of_network(self, context, network_id: str) -> Collection[str]:
        """UUIDs of the segments of the network's subnets; none if it is not routed."""

    def segment_of_subnet(self, context, subnet_id: str) -> str | None:
        """UUID of the subnet's segment, or None."""


@dataclass(frozen=True)
class PrefilterServices:
    """The outside world of one scheduler.

    :ivar conf: the options; ``[scheduler]`` is read.
    :ivar aggregates: all host aggregates, as fresh as the pre-filters 1, 2 and 5 shall be.
    :ivar minimum_compute_version: the lowest version of any nova-compute in any cell that answers, or 0.
    :ivar network: Neutron; asked only where a request or an option demands it.
    :ivar provider_aggregates: ``(context, resource provider uuid)`` → UUIDs of its aggregates in Placement.
    """

    conf: Any
    aggregates: Callable[[], Iterable[Aggregate]]
    minimum_compute_version: Callable[[], int]
    network: Network
    provider_aggregates: Callable[[Any, str], Collection[str]]
