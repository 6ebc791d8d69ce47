"""Pre-filters on networks: routed networks, remote-managed ports."""

from collections.abc import Callable, Iterable

from oslo_utils.strutils import bool_from_string

from scheduler import errors
from scheduler.request.prefilters.base import PrefilterServices, ensure_destination, require_root
from scheduler.request.reading import read


def routed_networks_filter(spec, context, services: PrefilterServices) -> bool:
    """Keep a request to hosts that reach the segments of its networks.

    ``[scheduler]query_placement_for_routed_network_aggregates`` (off). An entry with neither port nor network
    adds nothing (spec: filters-and-weighers 4.10, 6).

    Raises:
        RequestFilterFailed: A segment has no aggregates, or its network cannot be read.
        NetworkError: A port cannot be read.
    """
    if not services.conf.scheduler.query_placement_for_routed_network_aggregates:
        return False
    networks = read(spec, "requested_networks")
    if networks is None:
        return True
    destination = ensure_destination(spec)
    for requested in networks:
        aggregates = _aggregates_of(requested, context, services)
        if aggregates:
            destination.require_aggregates(aggregates)
    return True


def _aggregates_of(requested, context, services: PrefilterServices) -> list[str]:
    network_id = read(requested, "network_id")
    port_id = read(requested, "port_id")
    if port_id:
        port = services.network.port(context, port_id)
        if port.get("fixed_ips"):
            subnet_id = port["fixed_ips"][0]["subnet_id"]
            return _aggregates_of_segments(
                f"subnet {subnet_id}",
                lambda: [services.network.segment_of_subnet(context, subnet_id)],
                context,
                services,
            )
        network_id = port["network_id"]
    if not network_id:
        return []
    return _aggregates_of_segments(
        f"network {network_id}",
        lambda: services.network.segments_of_network(context, network_id),
        context,
        services,
    )


def _aggregates_of_segments(
    what: str, segments: Callable[[], Iterable[str | None]], context, services: PrefilterServices
) -> list[str]:
    try:
        segment_uuids = [segment for segment in segments() if segment]
    except errors.NetworkError as error:
        raise _not_found(services, what, error) from error
    uuids: list[str] = []
    for segment in segment_uuids:
        aggregates = services.provider_aggregates(context, segment)
        if not aggregates:
            raise _not_found(services, what, f"segment {segment} is in none")
        uuids.extend(aggregates)
    return uuids


def _not_found(services: PrefilterServices, what: str, why) -> errors.RequestFilterFailed:
    services.warnings.warning(("segments", what), "No aggregates found for the %s: %s", what, why)
    return errors.RequestFilterFailed(f"Aggregates not found for the {what}")


def remote_managed_ports_filter(spec, context, services: PrefilterServices) -> bool:
    """Require computes that know remote-managed ports, if the request has such a port (4.11).

    nova reads every requested port from Neutron for its type. The API did so too, when it made the PCI
    request that such a port needs: Neutron is queried only for ports that the PCI requests do not describe.

    Raises:
        NetworkError: Neutron did not answer.
    """
    networks = read(spec, "requested_networks", ())
    if any(_is_remote_managed(spec, requested, context, services) for requested in networks):
        require_root(spec, "COMPUTE_REMOTE_MANAGED_PORTS")
    return True


def _is_remote_managed(spec, requested, context, services: PrefilterServices) -> bool:
    port_id = read(requested, "port_id")
    if not port_id:
        return False
    by_request = _from_pci_requests(spec, requested)
    if by_request is not None:
        return by_request
    return services.network.port(context, port_id).get("binding:vnic_type") == "remote-managed"


def _from_pci_requests(spec, requested) -> bool | None:
    """Whether the port is remote-managed; None if the request does not say."""
    pci_requests = read(spec, "pci_requests")
    if pci_requests is None:
        return None
    ours = [request for request in read(pci_requests, "requests", ()) if _is_for(request, requested)]
    if not ours:
        return False
    values = [item.get("remote_managed") for request in ours for item in request.spec]
    if None in values or not values:
        return None
    return any(bool_from_string(value) for value in values)


def _is_for(pci_request, requested) -> bool:
    request_id = read(requested, "pci_request_id")
    return (request_id is not None and read(pci_request, "request_id") == request_id) or read(
        pci_request, "requester_id"
    ) == requested.port_id
