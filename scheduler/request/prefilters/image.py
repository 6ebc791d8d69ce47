"""Pre-filters that turn what the image is into traits of the host."""

import os_traits
from oslo_log import log as logging

from scheduler.request.prefilters.changes import require_root
from scheduler.request.prefilters.services import PrefilterServices
from scheduler.request.reading import read
from scheduler.request.wishes import Wishes

LOG = logging.getLogger(__name__)

# In the order in which they are tried: the first one without a trait is the one that the log names.
_PREFIXES = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    "hw_viommu_model": "COMPUTE_VIOMMU",
}


def require_image_type_support(spec, _context, services: PrefilterServices) -> bool:
    """Require that the host can run the image's disk format.

    ``[scheduler]query_placement_for_image_type_support`` (off). A volume boot has no such image, a request
    without image or format asks for nothing (spec: filters-and-weighers 4.4).
    """
    if not services.conf.scheduler.query_placement_for_image_type_support or read(spec, "is_bfv"):
        return False
    disk_format = read(read(spec, "image"), "disk_format")
    if not disk_format:
        return False
    trait = f"COMPUTE_IMAGE_TYPE_{disk_format.upper()}"
    if not _exists(trait):
        LOG.error("There is no trait %s for the image's disk format; any host will do", trait)
        return False
    require_root(spec, trait)
    return True


def transform_image_metadata(spec, _context, services: PrefilterServices) -> bool:
    """Require the buses, models and architectures that the image names.

    ``[scheduler]image_metadata_prefilter`` (off). All or nothing: a single value without a trait (every
    ``hw_viommu_model``, for one) drops them all, as in nova, whose operators' clouds rely on such images
    starting somewhere (spec: filters-and-weighers 4.7, 6).
    """
    if not services.conf.scheduler.image_metadata_prefilter:
        return False
    wishes = Wishes(spec)
    values = {name: wishes.image(name) for name in _PREFIXES}
    traits = [trait_of(name, value) for name, value in values.items() if value]
    unknown = next((trait for trait in traits if not _exists(trait)), None)
    if unknown:
        LOG.error("There is no trait %s for a property of the image; none of them is required", unknown)
        return False
    if traits:
        require_root(spec, *traits)
    return True


def trait_of(name: str, value: str) -> str:
    """The trait that stands for ``value`` of the image property ``name``, whether it exists or not."""
    return f"{_PREFIXES[name]}_{value.replace('-', '_').upper()}"


def _exists(trait: str) -> bool:
    return hasattr(os_traits, trait)
