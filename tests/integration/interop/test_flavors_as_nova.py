"""The topology and the PCI requests that Berth makes of a flavor are those that a real nova-api makes."""

from collections import Counter
import json
from random import Random

import pytest

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.operators.snapshot.as_nova_api import (
    guest_topology,
    pci_requests,
    read_aliases,
    request_groups,
)
from scheduler.request.flavor_and_image import FlavorAndImage
from tests.integration.interop.flavor_caller import plain

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SEED, COUNT = 1, 4000
CELL = ("id", "cpuset", "pcpuset", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")

ALIASES = [
    {"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "device_type": "type-PCI"},
    {"name": "nic", "vendor_id": "8086", "product_id": "154d", "numa_policy": "preferred"},
    {"name": "mig", "vendor_id": "1af4", "product_id": "1041", "live_migratable": "true"},
]

IN_PLACEMENT = [
    {"name": "vf", "resource_class": "qat-vf", "traits": "hw_cpu_x86_avx,fast-one,HW_CPU_X86_SSE"},
]
#: Placement could not tell these.
ELSEWHERE = [
    {"name": "two", "vendor_id": "8086", "product_id": "154d", "device_type": "type-VF"},
    {"name": "two", "vendor_id": "8086", "product_id": "1593", "device_type": "type-VF"},
    {"name": "pf", "vendor_id": "8086", "product_id": "1593", "numa_policy": "socket"},
]

EXTRA_SPECS = {
    "hw:numa_nodes": ["1", "2", "3", "4", "0", "x", "-1"],
    "hw:numa_cpus.0": ["0-1", "0", "0-3", "0,2", "9", "x"],
    "hw:numa_cpus.1": ["2-3", "1,3", "4-7", "1-3"],
    "hw:numa_mem.0": ["512", "1024", "4096", "x"],
    "hw:numa_mem.1": ["512", "1024", "3072"],
    "hw:mem_page_size": ["small", "large", "any", "2048", "2MB", "1GB", "4", "0", "x"],
    "hw:cpu_policy": ["dedicated", "shared", "mixed", "dedicated", "mixed", "x"],
    "hw:cpu_thread_policy": ["prefer", "isolate", "require", "x"],
    "hw:emulator_threads_policy": ["share", "isolate", "x"],
    "hw:cpu_dedicated_mask": ["0", "0-1", "^0", "^0-1", "0-3", "9", "x"],
    "hw:cpu_realtime": ["yes", "true", "no"],
    "hw:cpu_realtime_mask": ["^0", "1-3", "0-3", "0", "^9"],
    "resources:VCPU": ["4", "2"],
    "resources:PCPU": ["4", "5", "2", "x"],
    "trait:HW_CPU_HYPERTHREADING": ["required", "forbidden"],
    "hw:pmem": ["small", "small, big", ""],
    "hw:locked_memory": ["true", "false"],
    "hw:pci_numa_affinity_policy": ["required", "socket", "legacy", "x"],
    "pci_passthrough:alias": ["gpu:1", "gpu:2, vf:2", "nic:1", "mig:1", "two:1,pf:2", "none:1", "gpu"],
}
PROPERTIES = {
    "hw_numa_nodes": [1, 2, 4],
    "hw_numa_cpus.0": ["0-1", "0-3"],
    "hw_numa_mem.0": ["1024", "4096"],
    "hw_mem_page_size": ["small", "large", "any", "2048", "1GB"],
    "hw_cpu_policy": ["dedicated", "shared", "mixed"],
    "hw_cpu_thread_policy": ["prefer", "isolate", "require"],
    "hw_cpu_realtime_mask": ["^0", "0-1"],
    "hw_locked_memory": ["true", "false"],
    "hw_pci_numa_affinity_policy": ["required", "socket"],
}


def some(random, choices, most):
    names = random.sample(sorted(choices), random.choice(range(most + 1)))
    return {name: random.choice(choices[name]) for name in names}


def make_case(random):
    sizes = {"vcpus": random.choice([2, 4, 4, 8]), "memory_mb": random.choice([1024, 4096]), "root_gb": 1}
    return {
        "sizes": sizes,
        "extra_specs": some(random, EXTRA_SPECS, 5),
        "properties": some(random, PROPERTIES, random.choice([0, 0, 1, 3])),
        "cell": CELL,
    }


def outcome(case, aliases, *, in_placement):
    """As ``flavor_caller`` has it."""
    spec = objects.RequestSpec(
        flavor=objects.Flavor(**case["sizes"], extra_specs=case["extra_specs"]),
        image=objects.ImageMeta(properties=objects.ImageMetaProps.from_dict(case["properties"])),
    )
    wishes = FlavorAndImage(spec)
    try:
        topology, requests = guest_topology(wishes), pci_requests(wishes, aliases)
        groups = request_groups(requests) if in_placement else []
    except BerthError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "cells": topology and [plain(cell, *CELL) for cell in topology.cells],
        "emulator": topology and topology.emulator_threads_policy,
        "requests": [plain(one, "count", "spec", "alias_name", "numa_policy") for one in requests.requests],
        "groups": [plain(group, "resources", "required_traits") for group in groups],
    }


@pytest.mark.parametrize(
    ("configured", "in_placement"),
    [(ALIASES + IN_PLACEMENT, True), (ALIASES + ELSEWHERE, False)],
    ids=["devices in Placement", "devices not in Placement"],
)
def test_flavors_come_to_what_nova_makes_of_them(configured, in_placement, nova):
    random = Random(SEED)
    cases = [make_case(random) for _ in range(COUNT)]
    given = {"aliases": configured, "in_placement": in_placement, "cases": cases}
    theirs = nova.run("flavor_caller", given=given)
    aliases = read_aliases(map(json.dumps, configured), in_placement=in_placement)
    seen, different = Counter(), []
    for case, wanted in zip(cases, theirs, strict=True):
        ours = outcome(case, aliases, in_placement=in_placement)
        seen["refused" if "error" in wanted else "a topology" if wanted["cells"] else "none"] += 1
        seen["devices"] += bool(wanted.get("requests"))
        if ("error" in ours) != ("error" in wanted) or ("error" not in wanted and ours != wanted):
            different.append((case, wanted, ours))
    assert different[:3] == [], f"{len(different)} of {COUNT}"
    assert min(seen.values()) > 60, seen
