"""Random flavors and images, and the aliases of devices that nova-api knows beside them."""

from random import Random

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


def make(seed, number):
    """One case; every second one with its devices in Placement."""
    random, in_placement = Random(f"{seed}-{number}"), number % 2 == 0
    aliases = some(random, {"pci_passthrough:alias": EXTRA_SPECS["pci_passthrough:alias"]}, 1)
    return {
        "aliases": ALIASES + (IN_PLACEMENT if in_placement else ELSEWHERE),
        "in_placement": in_placement,
        "sizes": {
            "vcpus": random.choice([2, 4, 4, 8]),
            "memory_mb": random.choice([1024, 4096]),
            "root_gb": 1,
        },
        "extra_specs": aliases | some(random, EXTRA_SPECS, random.choice([1, 2, 3, 5])),
        "properties": some(random, PROPERTIES, random.choice([0, 0, 1, 3])),
    }


def some(random, choices, most):
    names = random.sample(sorted(choices), random.choice(range(most + 1)))
    return {name: random.choice(choices[name]) for name in names}
