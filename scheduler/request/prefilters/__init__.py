"""Request pre-filters: they change a RequestSpec in place before the query to Placement.

A pre-filter is a function ``(spec, context, services) -> bool``. True says that it applied to the request,
which is logged at debug level; the others run in any case (spec: filters-and-weighers 4).
"""

import time

from oslo_log import log as logging

from scheduler.request.prefilters import aggregates, host_traits, networks
from scheduler.request.prefilters.base import PrefilterServices

LOG = logging.getLogger(f"nova.{__name__}")

# nova's order: some of them read what earlier ones added.
PREFILTERS = (
    aggregates.require_tenant_aggregate,
    aggregates.map_az_to_placement_aggregate,
    host_traits.require_image_type_support,
    host_traits.compute_status_filter,
    aggregates.isolate_aggregates,
    host_traits.transform_image_metadata,
    host_traits.accelerators_filter,
    host_traits.packed_virtqueue_filter,
    networks.routed_networks_filter,
    networks.remote_managed_ports_filter,
    host_traits.ephemeral_encryption_filter,
    host_traits.virtio_sound_filter,
    host_traits.tpm_secret_security_filter,
    host_traits.owner_nova_filter,
)


def run(spec, context, services: PrefilterServices) -> None:
    """Run them all on a request, once per call of ``select_destinations``, never for a rebuild check.

    Raises:
        RequestFilterFailed: A pre-filter refused the request. Changes made before stay.
        InvalidRequest: Or a subclass: flavor and image contradict each other, or have an unknown value.
        NetworkError: Neutron was needed and failed.
    """
    for prefilter in PREFILTERS:
        started = time.monotonic()
        if prefilter(spec, context, services):
            seconds = time.monotonic() - started
            LOG.debug("Request filter '%s' took %.1f seconds", prefilter.__name__, seconds)
