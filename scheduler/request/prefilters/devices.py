"""Pre-filters on virtual devices: accelerators, packed virtqueues, sound cards.

Spec: filters-and-weighers 4.
"""

from scheduler.request.prefilters.changes import require_root
from scheduler.request.prefilters.services import PrefilterServices
from scheduler.request.wishes import Wishes

_SOUND_MODELS = frozenset({"sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"})


def accelerators_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``accel:device_profile`` of the flavor: the compute must know accelerators (4.8)."""
    if Wishes(spec).extra_specs.get("accel:device_profile"):
        require_root(spec, "COMPUTE_ACCELERATORS")
    return True


def packed_virtqueue_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``hw:virtio_packed_ring`` or ``hw_virtio_packed_ring`` (4.9).

    :raises FlavorImageConflict: they differ.
    """
    if Wishes(spec).agreed_flag("hw:virtio_packed_ring", "hw_virtio_packed_ring"):
        require_root(spec, "COMPUTE_NET_VIRTIO_PACKED")
    return True


def virtio_sound_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``hw:sound_model`` or ``hw_sound_model``; only ``virtio`` needs a trait (4.13).

    :raises FlavorImageConflict: they differ.
    :raises InvalidSetting: the model does not exist.
    """
    if Wishes(spec).agreed_choice("hw:sound_model", "hw_sound_model", _SOUND_MODELS) != "virtio":
        return False
    require_root(spec, "COMPUTE_SOUND_MODEL_VIRTIO")
    return True
