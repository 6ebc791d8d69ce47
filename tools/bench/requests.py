"""Build the requests that the benchmarks measure, and the options for them."""

import json
from typing import Any
import uuid

from scheduler import conf as options
from scheduler import objects
from tools.bench import hosts
from tools.rig.load import IMAGE, BootRequest, Flavor

INSTANCE = str(uuid.UUID(int=8))
MEMBERS = [hosts.uuid_of(number) for number in range(20)]
ALL_WEIGHERS_ON = {"image_props_weight_multiplier": 1.0, "num_instances_weight_multiplier": 1.0}
ADDED_RULES_ON = {
    "failure_domain_key": "rack",
    "failure_domain_weight_multiplier": 1.0,
    "free_share_weight_multiplier": 1.0,
    "keep_room_for": ["large=32:131072:200", "huge=64:262144:400"],
    "build_failure_half_life": 3600.0,
    "same_host_weight_multiplier": 1.0,
    "leaving_host_weight_multiplier": 1.0,
}
WEIGHTED_METRICS = ["cpu.percent=-1.0", "cpu.frequency=0.5"]

EXTRA_SPECS = {
    "capabilities:cpu_info:vendor": "Intel",
    "capabilities:num_instances": "<= 60",
    "capabilities:free_ram_mb": ">= 1024",
    "capabilities:io_workload": "0",
    "aggregate_instance_extra_specs:ssd": "true",
}
QUERY = ["and", [">=", "$free_ram_mb", 1024], ["<", "$num_io_ops", 8], ["=", "$hypervisor_type", "QEMU"]]


def make_conf(**overrides: Any) -> Any:
    """Return the options of a new installation; ``overrides`` are options of [filter_scheduler]."""
    conf = options.new()
    conf([], project="benchmark", default_config_files=[], default_config_dirs=[])
    # the synthetic hosts report once, at the start of a benchmark that may take minutes
    conf.set_override("service_down_time", 86400)
    for name, value in overrides.items():
        conf.set_override(name, value, "filter_scheduler")
    return conf


def demanding_conf() -> Any:
    """Return options with which every rule has work."""
    isolated = [f"compute-{number:05d}" for number in range(10)]
    conf = make_conf(isolated_hosts=isolated, isolated_images=["another"], **ALL_WEIGHERS_ON)
    conf.set_override("weight_setting", WEIGHTED_METRICS, "metrics")
    for name, value in ADDED_RULES_ON.items():
        conf.set_override(name, value, "berth")
    return conf


def plain(extra_specs: dict[str, str] | None = None, **fields: Any) -> objects.RequestSpec:
    """Return a plain boot request: 2 vCPUs, 4 GiB of memory, 20 GiB of disk."""
    flavor = Flavor(1, "m1", 2, 4096, 20, tuple((extra_specs or {}).items()))
    spec = BootRequest([INSTANCE], flavor).spec()
    for name, value in {"image": _image(), **fields}.items():
        setattr(spec, name, value)
    return spec


def demanding(policy: str = "anti-affinity", **fields: Any) -> objects.RequestSpec:
    """Return a request that gives work to every rule except those on NUMA cells and PCI devices."""
    hints = {
        "different_host": MEMBERS[:3],
        "same_host": MEMBERS[3:],
        "build_near_host_ip": ["10.0.0.0"],
        "cidr": ["/8"],
        "query": [json.dumps(QUERY)],
        "different_failure_domain": ["true"],
    }
    tried = objects.ComputeNode(host="compute-00001", hypervisor_hostname="compute-00001")
    given = {
        "image": _image(os_distro="debian", img_hv_requested_version=">=6.0,<10.0"),
        "scheduler_hints": hints,
        "instance_group": group(policy, MEMBERS),
        "availability_zone": hosts.ZONES[0],
        "requested_destination": objects.Destination(
            cell=objects.CellMapping(uuid=hosts.CELLS[0]), allow_cross_cell_move=True
        ),
        "retry": objects.SchedulerRetries(num_attempts=1, hosts=objects.ComputeNodeList(objects=[tried])),
    }
    return plain(EXTRA_SPECS, **{**given, **fields})


def group(policy: str, members: list[str]) -> objects.InstanceGroup:
    """Return a server group; a group with affinity has instances on ten hosts."""
    held = [f"compute-{number:05d}" for number in range(10)] if policy == "affinity" else []
    return objects.InstanceGroup(policy=policy, policies=[policy], members=members, hosts=held)


def _image(**properties: str) -> objects.ImageMeta:
    given = {"hw_architecture": "x86_64", "hw_vm_mode": "hvm", **properties}
    return objects.ImageMeta(id=IMAGE, properties=objects.ImageMetaProps.from_dict(given))
