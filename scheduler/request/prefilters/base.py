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


def require_root(spec, *traits: str) -> None:
    """Require these traits of the root provider of the host."""
    params = spec.request_level_params
    params.root_required = {*params.root_required, *traits}


def ensure_destination(spec):
    """Return the requested destination; it is made, without host, node or cell, if there is none."""
    if spec.requested_destination is None:
        spec.requested_destination = objects.Destination()
    return spec.requested_destination


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
