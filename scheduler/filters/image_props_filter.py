"""Hosts that can run what the image was made for (spec: filters-and-weighers 2.5)."""

import json
from typing import Any

import numpy as np
from oslo_utils import versionutils

from scheduler.filters.base import HostFilter
from scheduler.filters.columns import of_numbers
from scheduler.filters.utils import image_property
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

VERSION = "img_hv_requested_version"

Wanted = tuple[str | None, str | None, str | None]


class ImagePropertiesFilter(HostFilter):
    """The host supports the image's architecture, hypervisor type and VM mode, in one combination.

    ``image_properties_default_architecture`` stands in for an architecture that is not given. If the image
    wants none of the three every host passes; otherwise ``img_hv_requested_version`` and
    ``hw_maxphysaddr_bits`` must be met too, by hosts that report a version and bits.
    """

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def applies(self, request: Any) -> bool:
        return any(self._wanted(request))

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        wanted = self._wanted(request)
        supported = hosts.coded("supported_instances")
        kept = supported.spread(lambda value: _supports(value.triples, wanted))
        predicate, bits = _version_wanted(request), _bits_wanted(request)
        if predicate:
            versions = of_numbers(hosts.numbers("hypervisor_version"))
            kept &= versions.spread(lambda version: _version_suits(version, predicate))
        if bits:
            kept &= hosts.coded("cpu_info").spread(lambda info: (_bits(info.parsed) or bits) >= bits)
        return kept

    def reason(self, host: HostState, request: Any) -> str:
        triples, wanted = host.supported_instances, self._wanted(request)
        if not triples:
            return "host advertises no supported instances"
        if not _supports(triples, wanted):
            texts = "/".join(name or "any" for name in wanted)
            return f"image wants {texts}, host supports {['/'.join(triple) for triple in triples]}"
        predicate = _version_wanted(request)
        if predicate and not _version_suits(host.hypervisor_version, predicate):
            version = versionutils.convert_version_to_str(host.hypervisor_version)
            return f"hypervisor version {version} does not satisfy {image_property(request, VERSION)}"
        return f"maxphysaddr bits {_bits(json.loads(host.cpu_info))} below {_bits_wanted(request)}"

    def _wanted(self, request: Any) -> Wanted:
        architecture = image_property(request, "hw_architecture")
        return (
            architecture or self.conf.filter_scheduler.image_properties_default_architecture,
            image_property(request, "img_hv_type"),
            image_property(request, "hw_vm_mode"),
        )


def _version_wanted(request: Any) -> versionutils.VersionPredicate | None:
    text = image_property(request, VERSION)
    return versionutils.VersionPredicate(text) if text else None


def _bits_wanted(request: Any) -> int:
    return image_property(request, "hw_maxphysaddr_bits") or 0


def _supports(triples: Any, wanted: Wanted) -> bool:
    """Whether one triple has all that is wanted, in whatever place."""
    names = [name for name in wanted if name]
    return any(all(name in triple for name in names) for triple in triples)


def _version_suits(version: int, predicate: versionutils.VersionPredicate) -> bool:
    """A host that reports no version (0) suits; others report 6001000 for 6.1.0."""
    return not version or predicate.satisfied_by(versionutils.convert_version_to_str(version))


def _bits(cpu_info: Any) -> int:
    """The physical address bits of a parsed ``cpu_info``; 0 if it does not say."""
    size = cpu_info.get("maxphysaddr") if isinstance(cpu_info, dict) else None
    bits = size.get("bits") if isinstance(size, dict) else None
    return bits if isinstance(bits, int) else 0
