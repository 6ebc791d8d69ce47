"""What pre-filters need from the world, so that they know neither databases nor clients."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Aggregate(Protocol):
    """A host aggregate; aggregates without a UUID are unknown to Placement and left out."""

    uuid: str | None
    metadata: Mapping[str, str]


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
