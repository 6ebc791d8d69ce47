"""The query strings that nova makes of sample requests (spec: placement-and-workflow 1.14)."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from scheduler import objects
from scheduler.request import prefilters, query, targets
from tests.unit.request.builders import (
    AGG_A,
    AGG_B,
    AGG_C,
    NODE,
    FoundNode,
    make_conf,
    make_group,
    make_level_params,
    make_pci_requests,
    make_services,
    make_spec,
)

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
    name: str
    spec: objects.RequestSpec
    queries: list[str]
    prefilter: Callable = no_prefilters
    found: int = 0


CASES = [
    Case(
        "1 base",
        make_spec(),
        ["limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"],
    ),
    Case(
        "2 every computes new",
        make_spec(),
        [
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"
        ],
        run_prefilters,
    ),
    Case(
        "3 one compute at version 72",
        make_spec(),
        [
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&root_required=%21COMPUTE_STATUS_DISABLED"
        ],
        run_prefilters_among_old_computes,
    ),
    Case(
        "4 ephemeral and swap",
        make_spec(sizes={"ephemeral_gb": 10, "swap": 1500}),
        ["limit=1000&resources=DISK_GB%3A32%2CMEMORY_MB%3A4096%2CVCPU%3A2"],
    ),
    Case(
        "5 volume boot",
        make_spec(is_bfv=True),
        ["limit=1000&resources=MEMORY_MB%3A4096%2CVCPU%3A2"],
    ),
    Case(
        "6 volume boot with swap",
        make_spec(is_bfv=True, sizes={"swap": 1}),
        ["limit=1000&resources=DISK_GB%3A1%2CMEMORY_MB%3A4096%2CVCPU%3A2"],
    ),
    Case(
        "7 bare metal",
        make_spec(BARE_METAL),
        ["limit=1000&resources=CUSTOM_BAREMETAL_GOLD%3A1"],
    ),
    Case(
        "8 two groups, isolated",
        make_spec(TWO_GPUS),
        [
            "group_policy=isolate&limit=1000&required=HW_CPU_X86_AVX2%2C%21CUSTOM_BAD&required1=CUSTOM_GPU_A&required2=%21CUSTOM_GPU_B&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resources1=VGPU%3A1&resources2=VGPU%3A1"
        ],
    ),
    Case(
        "9 free-form suffix",
        make_spec({"resources_GPU-a:VGPU": "1", "trait_GPU-a:CUSTOM_GPU_A": "required"}),
        [
            "limit=1000&required_GPU-a=CUSTOM_GPU_A&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resources_GPU-a=VGPU%3A1"
        ],
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
        [
            "group_policy=none&limit=1000&resources=DISK_GB%3A20&resources1=MEMORY_MB%3A4096%2CVCPU%3A2&resources2=VCPU%3A1"
        ],
    ),
    Case(
        "11 image traits",
        make_spec(
            {"trait:HW_CPU_X86_VMX": "required"},
            {"traits_required": ["HW_CPU_X86_AVX512F", "HW_CPU_X86_VMX"]},
        ),
        [
            "limit=1000&required=HW_CPU_X86_AVX512F%2CHW_CPU_X86_VMX&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"
        ],
    ),
    Case(
        "12 dedicated",
        make_spec({"hw:cpu_policy": "dedicated"}, sizes=FOUR_CPUS),
        [
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CPCPU%3A4",
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A4",
        ],
    ),
    Case(
        "13 dedicated, isolated threads",
        make_spec(ISOLATED_THREADS, sizes=FOUR_CPUS),
        [
            "limit=1000&required=%21HW_CPU_HYPERTHREADING&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CPCPU%3A5",
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A4",
        ],
    ),
    Case(
        "14 mixed",
        make_spec(MIXED, sizes=FOUR_CPUS),
        [
            "limit=1000&required=HW_CPU_HYPERTHREADING&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CPCPU%3A4%2CVCPU%3A1"
        ],
    ),
    Case(
        "15 mixed by realtime mask",
        make_spec(
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "true", "hw:cpu_realtime_mask": "^0-1"},
            sizes=FOUR_CPUS,
        ),
        ["limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CPCPU%3A2%2CVCPU%3A2"],
    ),
    Case(
        "16 memory encryption",
        make_spec({"hw:mem_encryption": "true"}, {"hw_firmware_type": "uefi"}),
        [
            "limit=1000&required=HW_CPU_X86_AMD_SEV&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CMEM_ENCRYPTION_CONTEXT%3A1%2CVCPU%3A2&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"
        ],
        run_prefilters,
    ),
    Case(
        "17 intel-tdx",
        make_spec(
            {"hw:mem_encryption": "true", "hw:mem_encryption_model": "intel-tdx"},
            {"hw_firmware_type": "uefi", "hw_firmware_stateless": True, "hw_video_model": "none"},
        ),
        [
            "limit=1000&required=COMPUTE_SECURITY_STATELESS_FIRMWARE%2CHW_CPU_X86_INTEL_TDX&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CMEM_ENCRYPTION_CONTEXT%3A1%2CVCPU%3A2"
        ],
    ),
    Case(
        "18 many features",
        make_spec(MANY_FEATURES, {"hw_firmware_type": "uefi", "hw_firmware_stateless": True}),
        [
            "limit=1000&required=COMPUTE_ADDRESS_SPACE_EMULATED%2CCOMPUTE_SECURITY_STATELESS_FIRMWARE%2CCOMPUTE_SECURITY_TPM_2_0%2CCOMPUTE_SECURITY_TPM_CRB%2CCOMPUTE_SECURITY_UEFI_SECURE_BOOT%2CCOMPUTE_SOCKET_PCI_NUMA_AFFINITY&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&root_required=COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"
        ],
        run_prefilters,
    ),
    Case(
        "19 persistent memory",
        make_spec({"hw:pmem": "4GB, 4GB,16gb"}),
        [
            "limit=1000&resources=CUSTOM_PMEM_NAMESPACE_16GB%3A1%2CCUSTOM_PMEM_NAMESPACE_4GB%3A2%2CDISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"
        ],
    ),
    Case(
        "20 port with bandwidth",
        make_spec(requested_resources=[BANDWIDTH_PORT]),
        [
            "limit=1000&requireda0000000-0000-0000-0000-00000000000a=CUSTOM_PHYSNET_2%2CCUSTOM_VNIC_TYPE_NORMAL&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resourcesa0000000-0000-0000-0000-00000000000a=NET_BW_EGR_KILOBIT_PER_SEC%3A1000%2CNET_BW_IGR_KILOBIT_PER_SEC%3A2000"
        ],
    ),
    Case(
        "21 port in the extended format",
        make_spec(
            requested_resources=EXTENDED_PORT,
            request_level_params=make_level_params(same_subtree=[[UUID_B, UUID_C]]),
        ),
        [
            "group_policy=none&limit=1000&requiredb0000000-0000-0000-0000-00000000000b=CUSTOM_PHYSNET_2%2CCUSTOM_VNIC_TYPE_NORMAL&requiredc0000000-0000-0000-0000-00000000000c=CUSTOM_VNIC_TYPE_NORMAL&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resourcesb0000000-0000-0000-0000-00000000000b=NET_BW_EGR_KILOBIT_PER_SEC%3A1000&resourcesc0000000-0000-0000-0000-00000000000c=NET_PACKET_RATE_KILOPACKET_PER_SEC%3A500&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED&same_subtree=b0000000-0000-0000-0000-00000000000b%2Cc0000000-0000-0000-0000-00000000000c"
        ],
        run_prefilters,
    ),
    Case(
        "22 device profile",
        make_spec(
            {"accel:device_profile": "dp"},
            requested_resources=[make_group("device_profile_0", {"FPGA": 1}, "CUSTOM_FPGA_INTEL")],
        ),
        [
            "limit=1000&requireddevice_profile_0=CUSTOM_FPGA_INTEL&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resourcesdevice_profile_0=FPGA%3A1&root_required=COMPUTE_ACCELERATORS%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"
        ],
        run_prefilters,
    ),
    Case(
        "23 PCI devices",
        make_spec(
            requested_resources=PCI_GROUPS,
            pci_requests=make_pci_requests({"request_id": UUID_D, "alias_name": "a", "count": 2}),
        ),
        [
            "group_policy=none&limit=1000&requiredd0000000-0000-0000-0000-00000000000d-0=CUSTOM_GOLD%2CHW_CPU_X86_VMX%2COWNER_NOVA&requiredd0000000-0000-0000-0000-00000000000d-1=CUSTOM_GOLD%2CHW_CPU_X86_VMX%2COWNER_NOVA&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resourcesd0000000-0000-0000-0000-00000000000d-0=CUSTOM_PCI_8086_154D%3A1&resourcesd0000000-0000-0000-0000-00000000000d-1=CUSTOM_PCI_8086_154D%3A1&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"
        ],
        run_prefilters,
    ),
    Case(
        "24 aggregates",
        make_spec(requested_destination=objects.Destination(aggregates=[f"{AGG_A},{AGG_B}", AGG_C])),
        [
            "limit=1000&member_of=in%3Aaaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa%2Cbbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb&member_of=in%3Acccccccc-cccc-cccc-cccc-cccccccccccc&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"
        ],
    ),
    Case(
        "25 forbidden aggregates",
        make_spec(
            requested_destination=objects.Destination(aggregates=[AGG_C], forbidden_aggregates={AGG_A, AGG_B})
        ),
        [
            "limit=1000&member_of=%21in%3Aaaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa%2Cbbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb&member_of=in%3Acccccccc-cccc-cccc-cccc-cccccccccccc&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"
        ],
    ),
    Case(
        "26 one node",
        make_spec(force_hosts=["h"]),
        [
            "in_tree=11111111-1111-1111-1111-111111111111&limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"
        ],
        found=1,
    ),
    Case(
        "26 destination",
        make_spec(requested_destination=objects.Destination(host="h", node="n")),
        [
            "in_tree=11111111-1111-1111-1111-111111111111&limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"
        ],
        found=1,
    ),
    Case(
        "27 two nodes",
        make_spec(force_hosts=["h"]),
        ["resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"],
        found=2,
    ),
    Case(
        "27 hint group",
        make_spec(scheduler_hints={"group": ["x"]}),
        ["resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"],
    ),
    Case(
        "27 hint same_host",
        make_spec(scheduler_hints={"same_host": ["x"]}),
        ["resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"],
    ),
    Case(
        "27 hint different_host",
        make_spec(scheduler_hints={"different_host": ["x"]}),
        ["resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2"],
    ),
    Case(
        "28 root traits",
        make_spec(
            request_level_params=make_level_params(
                root_required={"COMPUTE_NODE", "CUSTOM_B"}, root_forbidden={"CUSTOM_Z", "CUSTOM_Y"}
            )
        ),
        [
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&root_required=COMPUTE_NODE%2CCUSTOM_B%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED%2C%21CUSTOM_Y%2C%21CUSTOM_Z"
        ],
        run_prefilters,
    ),
    Case(
        "29 image pre-filters",
        make_spec(image=IMAGE_PROPERTIES, disk_format="qcow2"),
        [
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&root_required=COMPUTE_GRAPHICS_MODEL_QXL%2CCOMPUTE_IMAGE_TYPE_QCOW2%2CCOMPUTE_NET_VIF_MODEL_E1000%2CCOMPUTE_STORAGE_BUS_SATA%2CCOMPUTE_STORAGE_BUS_VIRTIO%2CHW_ARCH_X86_64%2COWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED"
        ],
        run_image_prefilters,
    ),
    Case(
        "30 disk from a group",
        make_spec({"resources1:DISK_GB": "7"}),
        ["limit=1000&resources=MEMORY_MB%3A4096%2CVCPU%3A2&resources1=DISK_GB%3A7"],
    ),
    Case(
        "31 group of traits only",
        make_spec({"trait1:CUSTOM_A": "required"}),
        ["limit=1000&required1=CUSTOM_A&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resources1="],
    ),
    Case(
        "32 two groups without policy",
        make_spec({"resources1:VGPU": "1", "resources2:VGPU": "1"}),
        [
            "limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A4096%2CVCPU%3A2&resources1=VGPU%3A1&resources2=VGPU%3A1"
        ],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_query_string(case):
    spec = case.spec.obj_clone()
    case.prefilter(spec)
    nodes = [FoundNode(NODE, "h", f"n{i}") for i in range(case.found)]
    bound = targets.apply_lookup(spec, targets.named_target(spec), nodes)
    assert [q.querystring for q in query.build(spec, make_conf(), bound)] == case.queries
