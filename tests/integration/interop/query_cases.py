"""Random requests, and the small cloud that they are about, as plain JSON: for nova and for Berth alike."""

import random

AGGREGATES = {
    "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa": {"availability_zone": "az1", "trait:CUSTOM_GOLD": "required"},
    "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb": {"availability_zone": "az1", "filter_tenant_id": "p1"},
    "cccccccc-cccc-cccc-cccc-cccccccccccc": {"availability_zone": "az2", "filter_tenant_id3": "p1"},
    "dddddddd-dddd-dddd-dddd-dddddddddddd": {
        "trait:HW_CPU_X86_VMX": "required",
        "trait:CUSTOM_SILVER": "forbidden",
        "filter_tenant_id": "p2,p3",
    },
    "eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee": {"trait:COMPUTE_NODE": "required", "filter_tenant_id_b": "p3"},
    "ffffffff-ffff-ffff-ffff-ffffffffffff": {},
}
UUIDS = list(AGGREGATES)

#: (host, node, uuid, cell)
NODES = [
    ("h1", "n1", "11111111-1111-1111-1111-111111111111", "one"),
    ("h2", "n2a", "22222222-2222-2222-2222-22222222222a", "one"),
    ("h2", "n2b", "22222222-2222-2222-2222-22222222222b", "one"),
    ("h3", "n3", "33333333-3333-3333-3333-333333333333", "two"),
]
CELLS = {
    "one": "c1c1c1c1-0000-0000-0000-000000000001",
    "two": "c2c2c2c2-0000-0000-0000-000000000002",
}

UNROUTED = "00000000-0000-0000-0000-0000000000a0"
NETWORKS = {UNROUTED: [], "00000000-0000-0000-0000-0000000000a1": ["seg1"]}
NETWORKS |= {
    "00000000-0000-0000-0000-0000000000a2": ["seg1", "seg2"],
    "00000000-0000-0000-0000-0000000000a3": ["no"],
}
SUBNETS = {"sub0": None, "sub1": "seg1"}
SEGMENTS = {"seg1": UUIDS[:2], "seg2": UUIDS[2:3], "no": []}
PORTS = {
    "00000000-0000-0000-0000-0000000000b0": {
        "network_id": list(NETWORKS)[1],
        "fixed_ips": [],
        "binding:vnic_type": "normal",
    },
    "00000000-0000-0000-0000-0000000000b1": {
        "network_id": list(NETWORKS)[2],
        "fixed_ips": [{"subnet_id": "sub1"}],
        "binding:vnic_type": "direct",
    },
    "00000000-0000-0000-0000-0000000000b2": {
        "network_id": UNROUTED,
        "fixed_ips": [{"subnet_id": "sub0"}],
        "binding:vnic_type": "remote-managed",
    },
}

SWITCHES = (
    "limit_tenants_to_placement_aggregate",
    "placement_aggregate_required_for_tenants",
    "query_placement_for_image_type_support",
    "enable_isolated_aggregate_filtering",
    "image_metadata_prefilter",
    "query_placement_for_routed_network_aggregates",
)

TRAITS = "CUSTOM_GOLD CUSTOM_SILVER HW_CPU_X86_VMX HW_CPU_HYPERTHREADING COMPUTE_NODE OWNER_NOVA".split()
CLASSES = "VCPU PCPU MEMORY_MB DISK_GB VGPU CUSTOM_A CUSTOM_B MEM_ENCRYPTION_CONTEXT".split()
SUFFIXES = ["", "", "1", "2", "_GPU-a", "_b", "-"]
REFUSED = ("odd", "x", "0-99", "^0-99", "3.0")
BOOLEANS = ["true", "True", "yes", "1", "on", "false", "0", "no", "", "strange"]

EXTRA = {
    "hw:cpu_policy": ["dedicated", "dedicated", "mixed", "shared", "", "odd"],
    "hw:cpu_thread_policy": ["prefer", "isolate", "require", "odd"],
    "hw:emulator_threads_policy": ["share", "isolate", "isolate", "", "odd"],
    "hw:cpu_dedicated_mask": ["0", "0-1", "^0", "^0-1", "1,^1", "0-99", "", "x", " 1 , 2", "^0,^1", "0-3,^2"],
    "hw:cpu_realtime": BOOLEANS,
    "hw:cpu_realtime_mask": ["^0", "^0-1", "0-1", "1", "", "^0-99", "x"],
    "hw:numa_nodes": ["1", "2"],
    "hw:mem_page_size": ["large", "2048"],
    "hw:locked_memory": ["true"],
    "hw:mem_encryption": BOOLEANS,
    "hw:mem_encryption_model": ["amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx", "odd"],
    "hw:pmem": ["4GB", "4GB, 4GB,16gb", "", ",", "a b,a-b"],
    "hw:tpm_version": ["1.2", "2.0", "3.0", ""],
    "hw:tpm_model": ["tpm-tis", "tpm-crb", "odd", ""],
    "hw:tpm_secret_security": ["user", "host", "deployment", "odd", ""],
    "hw:pci_numa_affinity_policy": ["required", "legacy", "preferred", "socket", "odd", ""],
    "os:secure_boot": ["required", "disabled", "optional", "odd", ""],
    "hw:maxphysaddr_mode": ["passthrough", "emulate", "odd", ""],
    "hw:maxphysaddr_bits": ["42"],
    "hw:virtio_packed_ring": BOOLEANS,
    "hw:ephemeral_encryption": BOOLEANS,
    "hw:ephemeral_encryption_format": ["luks", "luksv2", "plain", "odd", ""],
    "hw:sound_model": ["virtio", "ich9", "odd", ""],
    "accel:device_profile": ["dp", ""],
    "group_policy": ["none", "isolate", "odd", ""],
    "quota:cpu_shares": ["10"],
    "pci_passthrough:alias": ["a:1"],
}
#: Extra specs that have a say only together.
TOGETHER = [
    ["hw:cpu_policy", "hw:cpu_dedicated_mask", "hw:emulator_threads_policy"],
    ["hw:cpu_policy", "hw:cpu_realtime", "hw:cpu_realtime_mask", "hw:emulator_threads_policy"],
    ["hw:cpu_policy", "hw:cpu_thread_policy"],
    ["hw:mem_encryption", "hw:mem_encryption_model"],
    ["hw:tpm_version", "hw:tpm_model", "hw:tpm_secret_security"],
    ["hw:ephemeral_encryption", "hw:ephemeral_encryption_format"],
]
IMAGE = {
    "hw_cpu_policy": ["dedicated", "mixed", "shared"],
    "hw_cpu_thread_policy": ["prefer", "isolate", "require"],
    "hw_cpu_realtime_mask": ["^0", "^0-1", "0", "^0-99"],
    "hw_mem_encryption": [True, False],
    "hw_mem_encryption_model": ["amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"],
    "hw_firmware_type": ["uefi", "uefi", "uefi", "bios"],
    "hw_firmware_stateless": [True, True, False],
    "hw_machine_type": ["q35", "pc-q35-2.1", "pc"],
    "hw_video_model": ["none", "qxl", "virtio"],
    "hw_tpm_version": ["1.2", "2.0"],
    "hw_tpm_model": ["tpm-tis", "tpm-crb"],
    "hw_pci_numa_affinity_policy": ["required", "legacy", "preferred", "socket"],
    "os_secure_boot": ["required", "disabled", "optional"],
    "hw_maxphysaddr_mode": ["passthrough", "emulate"],
    "hw_virtio_packed_ring": [True, False],
    "hw_ephemeral_encryption": [True, False],
    "hw_ephemeral_encryption_format": ["luks", "luksv2", "plain"],
    "hw_sound_model": ["virtio", "ich9"],
    "hw_cdrom_bus": ["sata", "ide", "scsi"],
    "hw_disk_bus": ["virtio", "scsi", "lxc", "uml", "fdc"],
    "hw_vif_model": ["e1000", "virtio", "vmxnet3", "rtl8139"],
    "hw_architecture": ["x86_64", "aarch64", "i686"],
    "hw_emulation_architecture": ["aarch64", "ppc64le"],
    "hw_viommu_model": ["intel", "auto"],
    "hw_locked_memory": [True],
    "traits_required": [["CUSTOM_GOLD"], ["HW_CPU_X86_VMX", "CUSTOM_B"], []],
}


def cases(seed, count):
    """``count`` requests, always the same ones for a seed."""
    return [Maker(random.Random(f"{seed}-{number}")).case() for number in range(count)]


class Maker:
    """One request. Most have few peculiarities, so that most are not refused for the first of them."""

    def __init__(self, generator):
        self.random = generator
        self.much = generator.choice([0.02, 0.05, 0.1, 0.3])

    def often(self, probability=None):
        return self.random.random() < (self.much if probability is None else probability)

    def one(self, values):
        return self.random.choice(values)

    def mostly(self, values):
        """One of them; those that are refused are rare."""
        return self.one([value for value in values if value not in REFUSED or self.often(0.1)])

    def some(self, values, most):
        return self.random.sample(values, self.random.randint(0, min(most, len(values))))

    def case(self):
        alias = self.alias()
        networks = self.networks() if self.often(0.25) else None
        return {
            "flavor": self.flavor(),
            "image": self.image(),
            "spec": {
                "is_bfv": self.one([False, False, True]),
                "project_id": self.one(["p1", "p2", "p2,p3", "p4"]),
                "availability_zone": self.one([None, None, "az1", "az2", "nowhere", ""]),
                "force_hosts": self.one([[], ["h1"], ["h2"], ["h3", "h1"], ["no"]])
                if self.often(0.15)
                else None,
                "force_nodes": self.one([[], ["n1"], ["n2b"], ["no"]]) if self.often(0.1) else None,
                "scheduler_hints": self.hints(),
            },
            "destination": self.destination() if self.often(0.3) else None,
            "level": self.level(alias) if self.often(0.5) else None,
            "groups": self.groups(alias) if self.often(0.4) else [],
            "networks": networks,
            "pci_requests": self.pci_requests(alias, networks) if self.often(0.4) else None,
            "switches": [name for name in SWITCHES if self.often(0.2)],
            "max_placement_results": self.one([1000, 1000, 1, 77]),
            "disable_fallback": self.often(0.1),
            "version": self.one([73, 73, 80, 72]),
            "prefilters": self.often(0.8),
        }

    def alias(self):
        return f"d0000000-0000-0000-0000-{self.random.getrandbits(48):012x}"

    def flavor(self):
        return {
            "vcpus": self.one([1, 2, 3, 4, 8]),
            "memory_mb": self.one([64, 4096]),
            "root_gb": self.one([0, 1, 20]),
            "ephemeral_gb": self.one([0, 0, 10]),
            "swap": self.one([0, 0, 1, 1024, 1500]),
            "extra_specs": self.extra_specs(),
        }

    def extra_specs(self):
        specs = {}
        for name, values in EXTRA.items():
            if self.often():
                specs[name] = self.mostly(values)
        if self.often(0.5):
            specs |= {name: self.mostly(EXTRA[name]) for name in self.one(TOGETHER)}
        for _ in range(self.random.choice([0, 0, 0, 1, 2, 4])):
            name, value = self.placement_spec()
            specs[name] = value
        return specs

    def placement_spec(self):
        suffix = self.one([*SUFFIXES, "x" * 64, "x" * 65, "a.b"] if self.often() else SUFFIXES)
        if self.often(0.6):
            name = self.one([*CLASSES, "custom_a", "NO_CLASS", ""] if self.often() else CLASSES)
            amounts = [
                "0",
                "1",
                "2",
                "5",
                *([" 7 ", "-1", "2.5", "x", "", "1_0", "٣"] if self.often() else []),
            ]
            return f"resources{suffix}:{name}", self.one(amounts)
        return f"trait{suffix}:{self.one(TRAITS)}", self.one(["required", "required", "forbidden", "odd"])

    def image(self):
        names = [name for name in IMAGE if self.often()]
        if self.often(0.3):
            names += ["hw_firmware_type", "hw_firmware_stateless"]
        properties = {name: self.one(IMAGE[name]) for name in names}
        return {"disk_format": self.one(["qcow2", "raw", "iso", "ploop", "aki"]), "properties": properties}

    def hints(self):
        hint = self.one(["group", "same_host", "different_host", "query", "build_near_host_ip"])
        return {hint: self.one([["x"], [], ["x", "y"]])} if self.often(0.2) else {}

    def destination(self):
        return {
            "host": self.one([None, None, None, "h1", "h2", "h3"]),
            "node": self.one(["n1", "n2b", "n3", "no"]) if self.often(0.1) else None,
            "cell": self.one([None, None, *CELLS]),
            "aggregates": self.one([None, None, [UUIDS[0]], [f"{UUIDS[1]},{UUIDS[0]}", UUIDS[2]]]),
            "forbidden_aggregates": self.one([None, None, self.some(UUIDS, 3)]),
        }

    def level(self, alias):
        return {
            "root_required": self.some(TRAITS, 2),
            "root_forbidden": self.some(["CUSTOM_X", "CUSTOM_Y", "COMPUTE_STATUS_DISABLED"], 2),
            "same_subtree": self.one([[], [["_b", "_GPU-a"]], [[f"{alias}-0", f"{alias}-1"], ["1", "2"]]]),
        }

    def groups(self, alias):
        suffixes = [f"{alias}-0", f"{alias}-1", "device_profile_0", *PORTS, "1", "_b", f"{alias}"]
        return [self.group(suffix) for suffix in self.some(suffixes, 3)]

    def group(self, suffix):
        resources = "NET_BW_EGR_KILOBIT_PER_SEC FPGA CUSTOM_PCI_8086_154D VCPU DISK_GB".split()
        return {
            "requester_id": None if self.often(0.02) else suffix,
            "resources": {}
            if self.often(0.03)
            else {self.one(resources): self.one([1, 1000]), "CUSTOM_C": 1},
            "required_traits": self.some(TRAITS, 2),
            "forbidden_traits": self.some(["CUSTOM_NOT"], 1) if self.often(0.2) else [],
            "aggregates": self.one([[], [UUIDS[3:1:-1]], [UUIDS[:1], UUIDS[1:2]]]) if self.often(0.2) else [],
            "forbidden_aggregates": self.some(UUIDS, 2) if self.often(0.1) else [],
            "in_tree": NODES[0][2] if self.often(0.1) else None,
        }

    def networks(self):
        return [self.network() for _ in range(self.random.randint(0, 2))]

    def network(self):
        if self.often(0.5):
            return {"network_id": self.one([None, UNROUTED]), "port_id": self.one(list(PORTS))}
        return {"network_id": self.one(list(NETWORKS)), "port_id": None}

    def pci_requests(self, alias, networks):
        """As the API makes them: of an alias, and of the ports that are no normal ones."""
        requests = [{"request_id": alias, "alias_name": "a", "count": 2, "spec": [{"vendor_id": "8086"}]}]
        for entry in networks or ():
            kind = PORTS.get(entry["port_id"], {}).get("binding:vnic_type", "normal")
            if kind != "normal":
                spec = {"physical_network": "p", "remote_managed": str(kind == "remote-managed")}
                requests.append(
                    {"requester_id": entry["port_id"], "request_id": None, "count": 1, "spec": [spec]}
                )
        return requests[self.one([0, 0, 1]) :]
