"""Clouds and requests by chance, the same for the same seed: plain values that nova and Berth can both build.

A case is a dict: ``options`` by group, ``nodes`` (rows as in a cell's database, with the service and what the
host holds), ``aggregates``, and the fields of a ``request``. Made so that rules often disagree on hosts, with
values at the edges of what databases and the API let through.
"""

import json
import random

CELLS = ("c0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002")
IMAGE, OTHER_IMAGE = "1a000000-0000-4000-8000-000000000001", "1a000000-0000-4000-8000-000000000002"
INSTANCES = [f"5e000000-0000-4000-8000-00000000000{number}" for number in range(8)]
NEW = [f"ee000000-0000-4000-8000-00000000000{number}" for number in range(8)]
PROJECTS = ["p1", "p2"]
NAMES = ["h0", "h1", "h2", "H1", "h1.example"]

OPERATORS = "= == != >= <= s== s!= s< s<= s> s>= <in> <all-in> <or> < > <OR> S==".split()
WORDS = [
    "1",
    "2",
    "10",
    "2.0",
    "x",
    "X",
    "hvm",
    "xen",
    "QEMU",
    "true",
    "True",
    "kvm",
    "aes",
    "p1",
    "1e3",
    "é",
]
REQUIREMENTS = [
    *WORDS, "", " ", "1 ", " 1", "=", "<in>", "<all-in>", ">=2", ">= 2 3", "<or> 1 <or> x", "<or> a 1 2",
    "<or> 1", "<or> <or> 1", "<all-in> a e s", "<in> es", "!= 1", "s!= 1", "s== x y", "x y", ">= nan", "<= inf",
    "== 1_0", "== \u0661", "= -1", "s>\t1", "<in>  1  ", "== 0x10", "['aes', 'mmx']", "None", "{}", "[]",
]  # fmt: skip
METADATA_VALUES = [
    *WORDS, "1,2", " 1 , x", "", ",", "x,", "1,x,2.0", "p1,p2", "m1", "m1,m2", "hvm,xen", "2_0", "-1", "1e9", "nan",
    "inf", " 3 ", "0", "0.5", "-0.25", "1.5,2",
]  # fmt: skip
MULTIPLIERS = [
    "ram", "cpu", "disk", "metrics", "io_ops", "pci", "soft_affinity", "soft_anti_affinity", "build_failure",
    "cross_cell_move", "hypervisor_version", "num_instances", "image_props",
]  # fmt: skip
METADATA_KEYS = [
    "opt", "ssd", "hw_vm_mode", "os_distro", "hw_cpu_cores", "hw_qemu_guest_agent", "hw_numa_nodes", "nosuch", "fields",
    "get", "traits_required", "hw_machine_type", "os_type", "hw:opt", "trait:X",
    "filter_tenant_id", "filter_tenant_id2", "FILTER_TENANT_ID", "instance_type", "max_io_ops_per_host",
    "max_instances_per_host", "availability_zone", "aggregate_instance_extra_specs", "hw_cdrom_bus", "img_hv_type",
    *(f"{name}_weight_multiplier" for name in MULTIPLIERS),
]  # fmt: skip
ATTRIBUTES = [
    "free_ram_mb", "free_disk_mb", "vcpus_used", "vcpus_total", "num_instances", "num_io_ops", "failed_builds",
    "hypervisor_type", "hypervisor_version", "hypervisor_hostname", "host", "nodename", "uuid", "cell_uuid",
    "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio", "total_usable_ram_mb",
    "total_usable_disk_gb", "disk_mb_used", "host_ip", "numa_topology", "cpu_info",
]  # fmt: skip
PATHS = [
    *ATTRIBUTES, "opt", "opt:a", "uptime", "cpu_info:vendor", "cpu_info:features", "cpu_info:topology:cores",
    "cpu_info:topology", "cpu_info:maxphysaddr:bits", "cpu_info:a", "cpu_info:nul", "cpu_info:text:a", "nosuch",
    "update", "limits", "service:disabled", "service", "stats:opt", "aggregates", "", ":", "cpu_info:", "x:y:z",
    "limits:x", "supported_instances", "io_workload", "allocation_candidates",
]  # fmt: skip
CPU_INFOS = [
    '{"vendor": "Intel", "model": "x", "features": ["aes", "mmx"], "topology": {"cores": 10, "threads": 2}}',
    '{"vendor": "AMD", "topology": {"cores": 2.0}, "a": true, "nul": null, "maxphysaddr": {"bits": 42}}',
    '{"a": 1, "maxphysaddr": {"mode": "emulate", "bits": 20}, "text": "{\\"a\\": 1}"}',
    '{"a": NaN, "vendor": "\\u00e9", "topology": "x"}', '{"a": 12345678901234567890123}', '{"a": 1e2}',
    '{"a": {"b": 1}}', '{"a": [1, "x", null, true]}', '{"a": ""}', '{"maxphysaddr": {"bits": "42"}}',
    '{"maxphysaddr": {}}', "", "{}", "{ }", "[]", "[1, 2]", "null", "5", '"text"', "true", "no JSON", "x",
]  # fmt: skip
TRIPLES = [
    ["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"], ["i686", "qemu", "hvm"], ["x86_64", "xen", "xen"],
    ["aarch64", "kvm", "hvm"], ["amd64", "KVM", "HVM"], ["i386", "xapi", "pv"], ["i686", "baremetal", "baremetal"],
    ["x86_64", "vmware", "hvm"], ["x86_64", "xen", "hvm"],
]  # fmt: skip
PROPERTIES = {
    "hw_architecture": ["x86_64", "aarch64", "i686", "amd64", "X86_64", "x86_32"],
    "img_hv_type": ["kvm", "qemu", "xen", "xapi", "KVM", "baremetal"],
    "hw_vm_mode": ["hvm", "xen", "pv", "hv", "baremetal", "HVM"],
    "img_hv_requested_version": [">=6.0", ">=6.0,<6.2", "<5", "==6.0.0", "!=6.0", " >= 5 , <= 7.1", ">=0"],
    "hypervisor_type": ["kvm", "qemu"], "vm_mode": ["xen", "hvm"], "architecture": ["x86_64"],
    "hypervisor_version_requires": [">=6.0"], "os_distro": ["linux", "x", "windows,", ""],
    "hw_cpu_cores": ["0", "1", "2"], "hw_qemu_guest_agent": ["true", "yes", "no", "False", "1"],
    "hw_cdrom_bus": ["ide", "virtio"], "hw_machine_type": ["pc", "q35"], "os_type": ["linux"], "hw_numa_nodes": ["2"],
    "img_owner_id": ["p1"], "nosuch": ["x"],
}  # fmt: skip
ADDRESSES = ["10.0.0.1", "10.0.0.130", "10.0.1.1", "192.168.1.1", "fd00::1", "fd00:0:0:1::1", "::1"]
METRICS = ["cpu.frequency", "cpu.percent", "cpu.user.percent", "cpu.idle.time"]
COUNTS = [0, 0, 1, 2, 3, 7, 8, 9, 49, 50, 51]
# NUMA and PCI have cases of their own
FILTERS = [
    "AggregateImagePropertiesIsolation", "AggregateInstanceExtraSpecsFilter", "AggregateIoOpsFilter",
    "AggregateMultiTenancyIsolation", "AggregateNumInstancesFilter", "AggregateTypeAffinityFilter", "AllHostsFilter",
    "ComputeCapabilitiesFilter", "ComputeFilter", "DifferentHostFilter", "ImagePropertiesFilter", "IoOpsFilter",
    "IsolatedHostsFilter", "JsonFilter", "MetricsFilter", "NumInstancesFilter", "SameHostFilter",
    "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter", "SimpleCIDRAffinityFilter",
]  # fmt: skip
#: Those asked for several instances: the others turn down too many hosts, or raise by chance.
FEW_FILTERS = [
    "AggregateIoOpsFilter", "AggregateNumInstancesFilter", "AggregateTypeAffinityFilter", "ComputeCapabilitiesFilter",
    "ComputeFilter", "DifferentHostFilter", "ImagePropertiesFilter", "IoOpsFilter", "JsonFilter", "NumInstancesFilter",
    "SameHostFilter", "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter",
]  # fmt: skip
#: In the order in which Berth adds their scores.
WEIGHERS = [
    "RAMWeigher", "CPUWeigher", "DiskWeigher", "MetricsWeigher", "IoOpsWeigher", "PCIWeigher",
    "ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher", "BuildFailureWeigher", "CrossCellWeigher",
    "HypervisorVersionWeigher", "NumInstancesWeigher", "ImagePropertiesWeigher",
]  # fmt: skip
POLICIES = ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]
LARGEST = 2**31 - 1


def make(seed: int) -> dict:
    """One case."""
    return _Case(random.Random(seed)).case()


class _Case:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.pick = rng.choice

    def some(self, items, most):
        """Up to so many different items."""
        items = list(items)
        return self.rng.sample(items, self.rng.randint(0, min(most, len(items))))

    def often(self, value, other=None, chance=0.8):
        return value if self.rng.random() < chance else other

    def case(self):
        nodes = self.nodes()
        return {
            "options": self.options(),
            "nodes": nodes,
            "enabled": self.rng.sample(FEW_FILTERS, 3),
            "aggregates": self.aggregates(sorted({node["host"] for node in nodes})),
            "request": self.request(),
        }

    # -- hosts

    def nodes(self):
        names = [(self.pick(NAMES), self.pick("abc")) for _ in range(self.rng.randint(1, 7))]
        cells = {name: self.pick(CELLS) for name in NAMES}
        services = {name: self.service() for name in NAMES}
        unused = [*INSTANCES]
        held = {name: {uuid: self.held_image() for uuid in self.take(unused)} for name in NAMES}
        return [
            {
                "row": self.row(number, host, f"{host}-{suffix}"),
                "host": host,
                "cell": cells[host],
                "service": services[host],
                "instances": held[host],
            }
            for number, (host, suffix) in enumerate(dict.fromkeys(names), 1)
        ]

    def take(self, unused):
        return [unused.pop() for _ in range(min(len(unused), self.pick([0, 1, 1, 2, 3])))]

    def service(self):
        return {
            "disabled": self.often(False, True, 0.85),
            "disabled_reason": self.pick([None, "maintenance"]),
            "forced_down": self.often(False, True, 0.9),
            "seen": self.often(self.pick([0, 5, 30, 50, -30]), self.pick([90, 3600, -90, None])),
            "created": self.pick([10, 3600]),
            "version": self.pick([66, 73]),
        }

    def row(self, number, host, node):
        pick = self.pick
        stats = {
            key: self.stat()
            for key in self.some(["opt", "uptime", "hypervisor_type", "host_ip", "cpu_info"], 3)
        }
        counts = ("num_instances", "io_workload", "failed_builds")
        stats |= {name: str(pick(COUNTS)) for name in counts if self.often(True, False)}
        return {
            "id": number,
            "uuid": f"b0000000-0000-4000-8000-00000000000{number}",
            "host": host,
            "hypervisor_hostname": node,
            "vcpus": pick([0, 1, 2, 4, 8, 64]),
            "vcpus_used": pick([0, 1, 2, 5, 8, 300]),
            "memory_mb": pick([0, 512, 2048, 8192, LARGEST]),
            "memory_mb_used": pick([0, 512]),
            "local_gb": pick([0, 1, 10, 2000]),
            "local_gb_used": pick([0, 1, 20]),
            "free_ram_mb": pick([-512, 0, 1, 300, 512, 1024, 1024, 4096, 8192, LARGEST]),
            "free_disk_gb": pick([-5, 0, 1, 10, 10, 20, 1999]),
            "disk_available_least": pick([None, None, -7, 0, 5, 30]),
            "hypervisor_type": pick(["QEMU", "QEMU", "ironic", "2", ""]),
            "hypervisor_version": pick([0, 5, 82, 5000, 1002003, 6000000, 6001000, 7001000, LARGEST]),
            "cpu_info": pick(CPU_INFOS),
            "host_ip": self.often(pick(ADDRESSES), None, 0.97),
            "supported_instances": json.dumps(self.some(TRIPLES, 4)),
            "metrics": self.metrics(),
            "stats": json.dumps(stats),
            "cpu_allocation_ratio": pick([0.5, 1.0, 4.0, 16.0, 1.3]),
            "ram_allocation_ratio": pick([1.0, 1.5]),
            "disk_allocation_ratio": pick([1.0, 0.9]),
        }

    def stat(self):
        return self.pick(
            [None, "", "1", "2", "x", "QEMU", "true", "['aes', 'mmx']", '{"a": "1"}', '{"a": {"b": 2}}']
        )

    def metrics(self):
        def value(name):
            return (
                self.pick([0.0, 0.25, 0.57, 0.1, 1.0]) if "percent" in name else self.pick([0, 1, 2000, 3000])
            )

        items = [
            {
                "name": name,
                "value": value(name),
                "timestamp": "2026-01-02T03:04:05.000000",
                "source": "libvirt",
            }
            for name in self.often(METRICS, self.some(METRICS, 4), 0.5)
        ]
        return json.dumps(items)

    def held_image(self):
        properties = {
            name: self.pick(values) for name, values in PROPERTIES.items() if self.rng.random() < 0.3
        }
        return {
            name: value for name, value in properties.items() if not name.endswith(("requires", "version"))
        }

    def aggregates(self, hosts):
        return [
            {
                "id": number,
                "uuid": f"a0000000-0000-4000-8000-00000000000{number}",
                "name": f"a{number}",
                "hosts": self.some(hosts, 4),
                "metadata": self.metadata(),
            }
            for number in range(1, self.rng.randint(1, 5))
        ]

    def metadata(self):
        # of numbers that are none, infinite ones are missing: nova's order is undefined with them
        numbers = [" 3 ", "-1", "0", "0.5", "2", "1e9", "7", "10", "2_0", "x", "", "1,2", "\u0663"]
        return {
            key: self.pick(numbers) if key.endswith(("multiplier", "host")) else self.pick(METADATA_VALUES)
            for key in self.some(METADATA_KEYS, 6)
        }

    # -- the request

    def request(self):
        hints = self.hints()
        return {
            "instance_uuids": self.rng.sample([*INSTANCES, *NEW], 4),
            "project_id": self.often(self.pick(PROJECTS), None, 0.95),
            "flavor": {
                "name": self.pick(["m1", "m2", "M1"]),
                "vcpus": self.pick([1, 2, 8]),
                "memory_mb": self.pick([512, 4096]),
                "root_gb": self.pick([0, 1, 10]),
                "ephemeral_gb": self.pick([0, 1]),
                "swap": self.pick([0, 512]),
                **self.often({"extra_specs": self.extra_specs()}, {}, 0.97),
            },
            "image": self.image(),
            "hints": hints,
            "group": self.often(None, self.group(), 0.3),
            "destination": self.often(None, self.destination(), 0.7),
            "ignore_hosts": self.often(None, self.some([*NAMES, "zz"], 2), 0.7),
            "force_hosts": self.force_hosts(hints),
            "force_nodes": self.often(None, self.some([f"{name}-a" for name in NAMES], 3), 0.8),
        }

    def extra_specs(self):
        specs = {}
        for _ in range(self.pick([0, 1, 1, 1, 2, 3])):
            path = self.pick(PATHS)
            scope = self.pick(["", "capabilities:", "capabilities:"])
            if self.rng.random() < 0.4:
                path = self.pick(["opt", "ssd", "nosuch", "aggregate_instance_extra_specs", "hw:opt"])
                scope = self.pick(["", "aggregate_instance_extra_specs:"])
            elif self.rng.random() < 0.2:
                scope = self.pick(["hw:", "trait:", "Capabilities:", "capabilities", ":"])
            specs[scope + path] = self.requirement()
        if self.rng.random() < 0.1:
            specs["hw:maxphysaddr_bits"] = self.pick(["42", "20", "21"])
        return specs

    def requirement(self):
        if self.rng.random() < 0.4:
            return f"{self.pick(OPERATORS)} {self.pick(WORDS)}"
        return self.pick(REQUIREMENTS)

    def image(self):
        if self.rng.random() < 0.1:
            return None
        properties = {
            name: self.pick(values) for name, values in PROPERTIES.items() if self.rng.random() < 0.12
        }
        image = self.pick([{"id": IMAGE}, {"id": IMAGE}, {"id": OTHER_IMAGE}, {}])
        return {**image, "properties": properties}

    def hints(self):
        hints = {}
        for name in ("different_host", "same_host"):
            if self.rng.random() < 0.3:
                hints[name] = self.some([*INSTANCES, "nosuch", ""], 3)
        if self.rng.random() < 0.3:
            hints["build_near_host_ip"] = [
                self.often(self.pick(ADDRESSES), self.pick(["bogus", "", "10.0"]), 0.9)
            ]
            if self.rng.random() < 0.7:
                hints["cidr"] = [
                    self.pick(["/24", "/25", "/0", "/32", "/64", "/255.255.0.0", "24", "/33", "/", "x"])
                ]
        if self.rng.random() < 0.5:
            hints["query"] = [
                self.often(json.dumps(self.query()), self.pick(["", "no JSON", "null", "5", '"x"']), 0.95)
            ]
        if self.rng.random() < 0.1:
            hints["_nova_check_type"] = self.pick([["rebuild"], ["x"], ["rebuild", "x"], []])
        return hints

    def force_hosts(self, hints):
        """Forced hosts; a rebuild has some, and without them Berth differs from nova on purpose."""
        if hints.get("_nova_check_type") == ["rebuild"]:
            return [self.pick(NAMES)]
        return self.often(None, self.some(NAMES, 3), 0.8)

    def query(self, depth=0):
        if depth > 2 or (depth and self.rng.random() < 0.55):
            return self.operand()
        if self.rng.random() < 0.03:
            return self.pick([[], {}, {"a": 1}, ["nosuch", 1], ["AND"], [["=", 1, 1]], 0, False, None])
        operator = self.pick(["=", "<", ">", "<=", ">=", "in", "not", "or", "and", "and", "or"])
        if operator in ("<", ">", "<=", ">=") and self.rng.random() < 0.8:
            numbers = [
                f"${name}" for name in ("free_ram_mb", "vcpus_used", "num_io_ops", "cpu_allocation_ratio")
            ]
            return [
                operator,
                *(self.pick([*numbers, 0, 2, 1024, 1.5]) for _ in range(self.pick([1, 2, 2, 2, 3]))),
            ]
        return [operator, *(self.query(depth + 1) for _ in range(self.pick([0, 1, 2, 2, 2, 3])))]

    def operand(self):
        names = [
            *ATTRIBUTES, "stats.opt", "stats.num_instances", "stats.nosuch", "stats", "service.disabled", "service.host",
            "service.forced_down", "service.version", "service.disabled_reason", "service.nosuch", "nosuch", "nosuch.x",
            "limits", "limits.x", "instances", "metrics", "supported_instances", "", "update", "service.disabled.x",
            "stats.opt.a", "host.x", "aggregates", "allocation_candidates", "free_ram_mb.x", "instances.x", "cpu_info.a",
        ]  # fmt: skip
        constants = [
            0,
            1,
            2,
            3,
            1024,
            1.5,
            -1,
            True,
            False,
            None,
            "1",
            "x",
            "h0",
            "QEMU",
            "",
            "10.0.0.1",
            {},
            {"a": 1},
        ]
        return self.pick([f"${self.pick(names)}", self.pick(constants)])

    def group(self):
        policy = self.pick(POLICIES)
        return {
            "uuid": "9a000000-0000-4000-8000-000000000001",
            "policy": policy,
            "policies": [policy],
            "rules": self.pick([{}, {}, {"max_server_per_host": 2}, {"max_server_per_host": 3}]),
            "members": self.some([*INSTANCES, *NEW], 8),
            "hosts": self.some(NAMES, 3),
        }

    def destination(self):
        destination = {"allow_cross_cell_move": self.pick([True, True, False])}
        if self.rng.random() < 0.4:
            name = self.pick(NAMES)
            destination |= {"host": name, "node": self.pick([None, f"{name}-a"])}
        if self.rng.random() < 0.7:
            destination["cell"] = self.pick([*CELLS, None])
        return destination

    # -- options

    def options(self):
        rng, pick = self.rng, self.pick
        scheduling = {
            "max_io_ops_per_host": pick([8, 8, 2, 0]),
            "max_instances_per_host": pick([50, 2, 8]),
            "isolated_images": self.often([], pick([[IMAGE], ["nosuch", IMAGE], [OTHER_IMAGE]]), 0.5),
            "isolated_hosts": self.often([], self.some(NAMES, 2), 0.5),
            "restrict_isolated_hosts_to_isolated_images": pick([True, False]),
            "image_properties_default_architecture": self.often(None, pick(["x86_64", "aarch64"])),
            "image_props_weight_setting": self.ratios(
                ["os_distro", "hw_machine_type", "hw_cpu_cores", "nosuch"]
            ),
        }
        if rng.random() < 0.15:
            scheduling["aggregate_image_properties_isolation_namespace"] = pick(["hw", "os", "", "img_hv"])
            scheduling["aggregate_image_properties_isolation_separator"] = pick([".", "_", ""])
        for name in MULTIPLIERS:
            if name != "metrics" and rng.random() < (0.8 if name == "image_props" else 0.4):
                never_negative = name in ("pci", "soft_affinity", "soft_anti_affinity")
                scheduling[f"{name}_weight_multiplier"] = pick(
                    [0.0, 2.5, 0.3, 1e6] if never_negative else [-1.0, 0.0, 0.7, 1e-9]
                )
        metrics = {
            "weight_setting": self.often(self.ratios(METRICS), [], 0.6),
            "weight_multiplier": pick([1.0, 1.0, 0.0, -2.0]),
            "required": pick([True, False, False]),
            "weight_of_unavailable": pick([-10000.0, 5.0]),
        }
        return {"filter_scheduler": scheduling, "metrics": metrics}

    def ratios(self, names):
        odd = ["name", "=5", "cpu.frequency=a1", "cpu.frequency =1", "os_distro= 2", "cpu.percent==1"]
        entries = [
            f"{self.pick(names)}={self.pick(['1', '-1.5', '0', '2', '1e-3', ' 1'])}"
            for _ in range(self.rng.randint(0, 3))
        ]
        return [*entries, self.pick(odd)] if self.rng.random() < 0.1 else entries
