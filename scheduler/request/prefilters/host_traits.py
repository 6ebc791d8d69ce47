"""Pre-filters that require or forbid traits of the host's root provider (spec: filters-and-weighers 4).

They depend on the image, the flavor's devices and secrets, and the state and owner of computes.
"""

import os_traits

from scheduler import errors
from scheduler.request.features import vtpm_of
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.prefilters.base import PrefilterServices, require_root
from scheduler.request.reading import read

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
    without image or format requires nothing (spec: filters-and-weighers 4.4).
    """
    if not services.conf.scheduler.query_placement_for_image_type_support or read(spec, "is_bfv"):
        return False
    disk_format = read(read(spec, "image"), "disk_format")
    if not disk_format:
        return False
    trait = f"COMPUTE_IMAGE_TYPE_{disk_format.upper()}"
    if not _exists(trait):
        services.warnings.error(
            trait,
            "Trait %s of the image's disk format does not exist; it is not required",
            trait,
        )
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
    wishes = FlavorAndImage(spec)
    values = {name: wishes.image(name) for name in _PREFIXES}
    traits = [trait_of(name, value) for name, value in values.items() if value]
    unknown = next((trait for trait in traits if not _exists(trait)), None)
    if unknown:
        services.warnings.error(
            unknown,
            "Trait %s of an image property does not exist; no trait of the image is required",
            unknown,
        )
        return False
    if traits:
        require_root(spec, *traits)
    return True


def trait_of(name: str, value: str) -> str:
    """Return the trait that stands for ``value`` of the image property ``name``, whether it exists or not."""
    return f"{_PREFIXES[name]}_{value.replace('-', '_').upper()}"


def _exists(trait: str) -> bool:
    return hasattr(os_traits, trait)


_OWNER = "OWNER_NOVA"

# nova-compute reports the trait from this service version on; before, requiring it would leave no host.
OWNER_SINCE_VERSION = 73


def compute_status_filter(spec, _context, _services: PrefilterServices) -> bool:
    """Keep out of computes that are disabled, as far as Placement knows it already (4.5)."""
    params = spec.request_level_params
    params.root_forbidden = {*params.root_forbidden, "COMPUTE_STATUS_DISABLED"}
    return True


def owner_nova_filter(spec, _context, services: PrefilterServices) -> bool:
    """Require providers that nova owns, once all computes say so; PCI devices of flavors likewise (4.15)."""
    if _OWNER in spec.root_required:
        return True
    lowest = services.minimum_compute_version()
    if lowest < OWNER_SINCE_VERSION:
        services.warnings.warning(
            (_OWNER, lowest),
            "Trait %s is not required: the oldest nova-compute has service version %d, and computes "
            "report it from version %d",
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


_SOUND_MODELS = frozenset({"sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"})


def accelerators_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``accel:device_profile`` of the flavor: the compute must know accelerators (4.8)."""
    if FlavorAndImage(spec).extra_specs.get("accel:device_profile"):
        require_root(spec, "COMPUTE_ACCELERATORS")
    return True


def packed_virtqueue_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``hw:virtio_packed_ring`` or ``hw_virtio_packed_ring`` (4.9)."""
    if FlavorAndImage(spec).agreed_flag("hw:virtio_packed_ring", "hw_virtio_packed_ring"):
        require_root(spec, "COMPUTE_NET_VIRTIO_PACKED")
    return True


def virtio_sound_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``hw:sound_model`` or ``hw_sound_model``; only ``virtio`` needs a trait (4.13)."""
    if FlavorAndImage(spec).agreed_choice("hw:sound_model", "hw_sound_model", _SOUND_MODELS) != "virtio":
        return False
    require_root(spec, "COMPUTE_SOUND_MODEL_VIRTIO")
    return True


_FORMATS = frozenset({"plain", "luks", "luksv2"})
_TPM_SECURITY = {
    level: f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{level.upper()}" for level in ("user", "host", "deployment")
}


def ephemeral_encryption_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``hw:ephemeral_encryption``, ``hw:ephemeral_encryption_format`` and their image properties (4.12)."""
    wishes = FlavorAndImage(spec)
    if not wishes.agreed_flag("hw:ephemeral_encryption", "hw_ephemeral_encryption"):
        return False
    require_root(spec, "COMPUTE_EPHEMERAL_ENCRYPTION")
    wanted = wishes.agreed_choice(
        "hw:ephemeral_encryption_format", "hw_ephemeral_encryption_format", _FORMATS
    )
    if wanted:
        require_root(spec, f"COMPUTE_EPHEMERAL_ENCRYPTION_{wanted.upper()}")
    return True


def tpm_secret_security_filter(spec, _context, services: PrefilterServices) -> bool:
    """``hw:tpm_secret_security`` (``user``, ``host``, ``deployment``), for requests with a vTPM (4.14).

    Raises:
        RequestFilterFailed: The value is another one.
    """
    wishes = FlavorAndImage(spec)
    if vtpm_of(wishes) is None:
        return False
    level = wishes.extra_specs.get("hw:tpm_secret_security") or "user"
    trait = _TPM_SECURITY.get(level)
    if trait is None:
        services.warnings.warning(
            ("tpm", level),
            "hw:tpm_secret_security=%s of the flavor is not one of %s",
            level,
            ", ".join(_TPM_SECURITY),
        )
        raise errors.RequestFilterFailed(f"Unknown TPM secret security {level!r}")
    require_root(spec, trait)
    return True
