"""Hosts that can run what the image was made for (spec: filters-and-weighers 2.5)."""

from collections.abc import Collection, Iterable
import json
from typing import Any

import numpy as np
from oslo_utils import versionutils

from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.columns import of_numbers
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest

Wanted = tuple[str | None, str | None, str | None]
"""Architecture, hypervisor type and VM mode; None for any."""


class ImagePropertiesFilter(HostFilter):
    """The host supports the image's architecture, hypervisor type and VM mode, in one combination.

    ``image_properties_default_architecture`` stands in for an architecture that is not given. If the image
    wants none of the three every host passes; otherwise ``img_hv_requested_version`` and
    ``hw_maxphysaddr_bits`` must be met too, by hosts that report a version and bits.
    """

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        default = self.conf.filter_scheduler.image_properties_default_architecture
        wanted = (
            request.image_property("hw_architecture") or default,
            request.image_property("img_hv_type"),
            request.image_property("hw_vm_mode"),
        )
        if not any(wanted):
            return None
        version_text = request.image_property("img_hv_requested_version")
        predicate = versionutils.VersionPredicate(version_text) if version_text else None
        bits = request.image_property("hw_maxphysaddr_bits") or 0

        def passes(hosts: HostView) -> np.ndarray:
            kept = hosts.coded("supported_instances").spread(lambda value: supports(value.value, wanted))
            if predicate:
                versions = of_numbers(hosts.numbers("hypervisor_version"))
                kept &= versions.spread(lambda version: version_suits(version, predicate))
            if bits:
                kept &= hosts.coded("cpu_info").spread(
                    lambda info: (address_bits(info.value) or bits) >= bits
                )
            return kept

        def reason(host: HostState) -> str:
            triples = host.supported_instances
            if not triples:
                return "host advertises no supported instances"
            if not supports(triples, wanted):
                texts = "/".join(name or "any" for name in wanted)
                return f"image wants {texts}, host supports {['/'.join(triple) for triple in triples]}"
            if predicate and not version_suits(host.hypervisor_version, predicate):
                version = versionutils.convert_version_to_str(host.hypervisor_version)
                return f"hypervisor version {version} does not satisfy {version_text}"
            return f"maxphysaddr bits {address_bits(json.loads(host.cpu_info))} below {bits}"

        return Judge(passes, reason)


def supports(triples: Iterable[Collection[str]], wanted: Wanted) -> bool:
    """Return whether one triple has all that is wanted, in whatever place."""
    names = [name for name in wanted if name]
    return any(all(name in triple for name in names) for triple in triples)


def version_suits(version: int, predicate: versionutils.VersionPredicate) -> bool:
    """Return whether a hypervisor version is as required.

    A host that reports no version (0) suits; others report 6001000 for 6.1.0.
    """
    return not version or predicate.satisfied_by(versionutils.convert_version_to_str(version))


def address_bits(cpu_info: Any) -> int:
    """Return the physical address bits of a parsed ``cpu_info``; 0 if it does not say."""
    size = cpu_info.get("maxphysaddr") if isinstance(cpu_info, dict) else None
    bits = size.get("bits") if isinstance(size, dict) else None
    return bits if isinstance(bits, int) else 0
