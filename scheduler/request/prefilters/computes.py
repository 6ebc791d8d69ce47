"""Pre-filters on the state of computes and on who owns them (spec: filters-and-weighers 4)."""

from oslo_log import log as logging

from scheduler.request.prefilters.changes import forbid_root, require_root
from scheduler.request.prefilters.services import PrefilterServices
from scheduler.request.reading import read

LOG = logging.getLogger(__name__)

_OWNER = "OWNER_NOVA"

# nova-compute reports the trait from this service version on; before, requiring it would leave no host.
OWNER_SINCE_VERSION = 73


def compute_status_filter(spec, _context, _services: PrefilterServices) -> bool:
    """Keep out of computes that are disabled, as far as Placement knows it already (4.5)."""
    forbid_root(spec, "COMPUTE_STATUS_DISABLED")
    return True


def owner_nova_filter(spec, _context, services: PrefilterServices) -> bool:
    """Require providers that nova owns, once all computes say so; PCI devices of flavors likewise (4.15)."""
    if _OWNER in read(read(spec, "request_level_params"), "root_required", ()):
        return True
    lowest = services.minimum_compute_version()
    if lowest < OWNER_SINCE_VERSION:
        LOG.warning(
            "Trait %s is not required: the lowest nova-compute version is %d, it is reported from %d on",
            _OWNER,
            lowest,
            OWNER_SINCE_VERSION,
        )
        return False
    require_root(spec, _OWNER)
    _require_owned_devices(spec)
    return True


def _require_owned_devices(spec) -> None:
    alias_requests = {
        request.request_id
        for request in read(read(spec, "pci_requests"), "requests", ())
        if read(request, "alias_name") is not None and read(request, "request_id")
    }
    for group in read(spec, "requested_resources", ()):
        # Groups of PCI requests are called <request id>-<n>.
        if (read(group, "requester_id") or "").rpartition("-")[0] in alias_requests:
            group.required_traits = {*group.required_traits, _OWNER}
