"""The query strings that nova makes of the examples of the reference (spec: placement-and-workflow 1.14)."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
import re
from typing import NamedTuple

import pytest

from scheduler import objects
from scheduler.request import prefilters, query, targets
from tests.unit.request.builders import (
    AGG_A,
    AGG_B,
    AGG_C,
    NODE,
    make_conf,
    make_group,
    make_level_params,
    make_pci_requests,
    make_services,
    make_spec,
)

REFERENCE = Path(__file__).parents[3] / "doc/source/reference"
EXAMPLES = "### 1.14 Worked examples"

UUID_A = "a0000000-0000-0000-0000-00000000000a"
UUID_B = "b0000000-0000-0000-0000-00000000000b"
UUID_C = "c0000000-0000-0000-0000-00000000000c"
UUID_D = "d0000000-0000-0000-0000-00000000000d"

FOUR_CPUS = {"vcpus": 4}
BARE_METAL = {
    "resources:VCPU": "0",
    "resources:MEMORY_MB": "0",
    "resources:DISK_GB": "0",
    "resources:CUSTOM_BAREMETAL_GOLD": "1",
}
TWO_GPUS = {
    "resources1:VGPU": "1",
    "resources2:VGPU": "1",
    "trait1:CUSTOM_GPU_A": "required",
    "trait2:CUSTOM_GPU_B": "forbidden",
    "group_policy": "isolate",
    "trait:HW_CPU_X86_AVX2": "required",
    "trait:CUSTOM_BAD": "forbidden",
}
ISOLATED_THREADS = {
    "hw:cpu_policy": "dedicated",
    "hw:emulator_threads_policy": "isolate",
    "hw:cpu_thread_policy": "isolate",
}
MIXED = {
    "hw:cpu_policy": "mixed",
    "hw:cpu_dedicated_mask": "0-2",
    "hw:emulator_threads_policy": "isolate",
    "hw:cpu_thread_policy": "require",
}
MANY_FEATURES = {
    "hw:tpm_version": "2.0",
    "hw:tpm_model": "tpm-crb",
    "os:secure_boot": "required",
    "hw:maxphysaddr_mode": "emulate",
    "hw:pci_numa_affinity_policy": "socket",
}
IMAGE_PROPERTIES = {
    "hw_disk_bus": "virtio",
    "hw_cdrom_bus": "sata",
    "hw_vif_model": "e1000",
    "hw_video_model": "qxl",
    "hw_architecture": "x86_64",
}
BANDWIDTH = ("CUSTOM_PHYSNET_2", "CUSTOM_VNIC_TYPE_NORMAL")
BANDWIDTH_PORT = make_group(
    UUID_A, {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 2000}, *BANDWIDTH
)
EXTENDED_PORT = [
    make_group(UUID_B, {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}, *BANDWIDTH),
    make_group(UUID_C, {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 500}, "CUSTOM_VNIC_TYPE_NORMAL"),
]
PCI_GROUPS = [
    make_group(f"{UUID_D}-{n}", {"CUSTOM_PCI_8086_154D": 1}, "CUSTOM_GOLD", "HW_CPU_X86_VMX") for n in (0, 1)
]


def no_prefilters(spec):
    pass


def run_prefilters(spec):
    prefilters.run(spec, None, make_services())


def run_prefilters_among_old_computes(spec):
    prefilters.run(spec, None, make_services(version=72))


def run_image_prefilters(spec):
    conf = make_conf("query_placement_for_image_type_support", "image_metadata_prefilter")
    prefilters.run(spec, None, make_services(conf))


class Case(NamedTuple):
    """A request; its name begins with its number in the reference."""

    name: str
    spec: objects.RequestSpec
    prefilter: Callable = no_prefilters
    found: int = 0


CASES = [
    Case("1 base", make_spec()),
    Case("2 every computes new", make_spec(), run_prefilters),
    Case("3 one compute at version 72", make_spec(), run_prefilters_among_old_computes),
    Case("4 ephemeral and swap", make_spec(sizes={"ephemeral_gb": 10, "swap": 1500})),
    Case("5 volume boot", make_spec(is_bfv=True)),
    Case("6 volume boot with swap", make_spec(is_bfv=True, sizes={"swap": 1})),
    Case("7 bare metal", make_spec(BARE_METAL)),
    Case("8 two groups, isolated", make_spec(TWO_GPUS)),
    Case(
        "9 free-form suffix", make_spec({"resources_GPU-a:VGPU": "1", "trait_GPU-a:CUSTOM_GPU_A": "required"})
    ),
    Case(
        "10 defaults suppressed by groups",
        make_spec(
            {
                "resources1:VCPU": "2",
                "resources1:MEMORY_MB": "4096",
                "resources2:VCPU": "1",
                "group_policy": "none",
            }
        ),
    ),
    Case(
        "11 image traits",
        make_spec(
            {"trait:HW_CPU_X86_VMX": "required"},
            {"traits_required": ["HW_CPU_X86_AVX512F", "HW_CPU_X86_VMX"]},
        ),
    ),
    Case("12 dedicated", make_spec({"hw:cpu_policy": "dedicated"}, sizes=FOUR_CPUS)),
    Case("13 dedicated, isolated threads", make_spec(ISOLATED_THREADS, sizes=FOUR_CPUS)),
    Case("14 mixed", make_spec(MIXED, sizes=FOUR_CPUS)),
    Case(
        "15 mixed by realtime mask",
        make_spec(
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "true", "hw:cpu_realtime_mask": "^0-1"},
            sizes=FOUR_CPUS,
        ),
    ),
    Case(
        "16 memory encryption",
        make_spec({"hw:mem_encryption": "true"}, {"hw_firmware_type": "uefi"}),
        run_prefilters,
    ),
    Case(
        "17 intel-tdx",
        make_spec(
            {"hw:mem_encryption": "true", "hw:mem_encryption_model": "intel-tdx"},
            {"hw_firmware_type": "uefi", "hw_firmware_stateless": True, "hw_video_model": "none"},
        ),
    ),
    Case(
        "18 many features",
        make_spec(MANY_FEATURES, {"hw_firmware_type": "uefi", "hw_firmware_stateless": True}),
        run_prefilters,
    ),
    Case("19 persistent memory", make_spec({"hw:pmem": "4GB, 4GB,16gb"})),
    Case("20 port with bandwidth", make_spec(requested_resources=[BANDWIDTH_PORT])),
    Case(
        "21 port in the extended format",
        make_spec(
            requested_resources=EXTENDED_PORT,
            request_level_params=make_level_params(same_subtree=[[UUID_B, UUID_C]]),
        ),
        run_prefilters,
    ),
    Case(
        "22 device profile",
        make_spec(
            {"accel:device_profile": "dp"},
            requested_resources=[make_group("device_profile_0", {"FPGA": 1}, "CUSTOM_FPGA_INTEL")],
        ),
        run_prefilters,
    ),
    Case(
        "23 PCI devices",
        make_spec(
            requested_resources=PCI_GROUPS,
            pci_requests=make_pci_requests({"request_id": UUID_D, "alias_name": "a", "count": 2}),
        ),
        run_prefilters,
    ),
    Case(
        "24 aggregates",
        make_spec(requested_destination=objects.Destination(aggregates=[f"{AGG_A},{AGG_B}", AGG_C])),
    ),
    Case(
        "25 forbidden aggregates",
        make_spec(
            requested_destination=objects.Destination(aggregates=[AGG_C], forbidden_aggregates={AGG_A, AGG_B})
        ),
    ),
    Case("26 one node", make_spec(force_hosts=["h"]), found=1),
    Case("26 destination", make_spec(requested_destination=objects.Destination(host="h", node="n")), found=1),
    Case("27 two nodes", make_spec(force_hosts=["h"]), found=2),
    Case("27 hint group", make_spec(scheduler_hints={"group": ["x"]})),
    Case("27 hint same_host", make_spec(scheduler_hints={"same_host": ["x"]})),
    Case("27 hint different_host", make_spec(scheduler_hints={"different_host": ["x"]})),
    Case(
        "28 root traits",
        make_spec(
            request_level_params=make_level_params(
                root_required={"COMPUTE_NODE", "CUSTOM_B"}, root_forbidden={"CUSTOM_Z", "CUSTOM_Y"}
            )
        ),
        run_prefilters,
    ),
    Case(
        "29 image pre-filters", make_spec(image=IMAGE_PROPERTIES, disk_format="qcow2"), run_image_prefilters
    ),
    Case("30 disk from a group", make_spec({"resources1:DISK_GB": "7"})),
    Case("31 group of traits only", make_spec({"trait1:CUSTOM_A": "required"})),
    Case("32 two groups without policy", make_spec({"resources1:VGPU": "1", "resources2:VGPU": "1"})),
]


@cache
def strings_of_the_reference():
    """Number -> query strings: that of an example, and that of its fallback if there is one."""
    found = {}
    (chapter,) = [text for path in REFERENCE.glob("*.md") if EXAMPLES in (text := path.read_text())]
    for line in chapter.split(EXAMPLES)[1].split("###")[0].splitlines():
        if row := re.fullmatch(r"\| (\d+)f? \|.*\| `(.*)` \|", line):
            found.setdefault(row[1], []).append(row[2])
    return found


def test_each_example_of_the_reference_is_asked():
    assert {case.name.split()[0] for case in CASES} == strings_of_the_reference().keys()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_query_string(case):
    spec = case.spec.obj_clone()
    case.prefilter(spec)
    nodes = [targets.NamedNode(NODE, "h", f"n{i}") for i in range(case.found)]
    bound = targets.apply_lookup(spec, targets.named_target(spec), nodes)
    assert [q.querystring for q in query.build(spec, make_conf(), bound)] == strings_of_the_reference()[
        case.name.split()[0]
    ]
