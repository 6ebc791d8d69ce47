"""The topology and the PCI requests that Berth makes of a flavor are those that nova-api makes."""

from collections import Counter
import json

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.operators.snapshot.as_nova_api import (
    guest_topology,
    pci_requests,
    read_aliases,
    request_groups,
)
from scheduler.request.flavor_and_image import FlavorAndImage
from tests.integration.interop.flavor_caller import CELL, plain

KIND = "flavors"


def outcome(case):
    """As ``flavor_caller`` has it."""
    aliases = read_aliases(map(json.dumps, case["aliases"]), in_placement=case["in_placement"])
    spec = objects.RequestSpec(
        flavor=objects.Flavor(**case["sizes"], extra_specs=case["extra_specs"]),
        image=objects.ImageMeta(properties=objects.ImageMetaProps.from_dict(case["properties"])),
    )
    wishes = FlavorAndImage(spec)
    try:
        topology, requests = guest_topology(wishes), pci_requests(wishes, aliases)
        groups = request_groups(requests) if case["in_placement"] else []
    except BerthError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "cells": topology and [plain(cell, *CELL) for cell in topology.cells],
        "emulator": topology and topology.emulator_threads_policy,
        "requests": [plain(one, "count", "spec", "alias_name", "numa_policy") for one in requests.requests],
        "groups": [plain(group, "resources", "required_traits") for group in groups],
    }


def test_flavors_come_to_what_nova_makes_of_them(answered):
    seen, different = Counter(), []
    for case, wanted in answered:
        ours = outcome(case)
        seen["refused" if "error" in wanted else "a topology" if wanted["cells"] else "none"] += 1
        seen["devices"] += bool(wanted.get("requests"))
        if ("error" in ours) != ("error" in wanted) or ("error" not in wanted and ours != wanted):
            different.append((case, wanted, ours))
    assert different[:3] == [], f"{len(different)} of {len(answered)}"
    assert min(seen.values()) > len(answered) / 20, seen
