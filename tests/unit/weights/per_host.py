"""The weighers once more, each for one host and as plainly as the chapter has them (spec: filters-and-weighers
1.9, 3).

Every function takes (host, spec, conf), the host as a ``HostState``, and gives the raw weight.
"""

from scheduler.errors import ComputeHostMetricNotFound
from scheduler.objects import ImageMetaProps


def ram(host, spec, conf):
    return host.free_ram_mb


def cpu(host, spec, conf):
    return host.vcpus_total * host.cpu_allocation_ratio - host.vcpus_used


def disk(host, spec, conf):
    return host.free_disk_mb


def metrics(host, spec, conf):
    factor = multiplier(host, "metrics_weight_multiplier", conf.metrics.weight_multiplier)
    values = {metric.name: metric.value for metric in host.metrics}
    total = 0.0
    for entry in conf.metrics.weight_setting:
        name, ratio = entry.split("=")
        if values.get(name) is not None:
            total += values[name] * float(ratio)
        elif conf.metrics.required:
            raise ComputeHostMetricNotFound(name, host.host, host.nodename)
        elif float(ratio) * factor:
            return conf.metrics.weight_of_unavailable
    return total


def io_ops(host, spec, conf):
    return host.num_io_ops


def pci(host, spec, conf):
    free = sum(pool["count"] for pool in host.pci_stats.pools) if host.pci_stats else 0
    return 100 - min(free, 99)


def soft_affinity(host, spec, conf):
    return _members(host, spec, "soft-affinity")


def soft_anti_affinity(host, spec, conf):
    return -_members(host, spec, "soft-anti-affinity")


def _members(host, spec, policy):
    group = spec.instance_group
    if group is None or group.policy != policy:
        return 0
    return len(set(group.members) & set(host.instances))


def build_failures(host, spec, conf):
    return host.failed_builds


def cross_cell(host, spec, conf):
    wanted = spec.requested_destination
    if not wanted or not wanted.cell or not wanted.allow_cross_cell_move:
        return 0
    return 1 if host.cell_uuid == wanted.cell.uuid else -1


def hypervisor_version(host, spec, conf):
    return host.hypervisor_version or 0


def num_instances(host, spec, conf):
    return host.num_instances


def image_properties(host, spec, conf):
    options = conf.filter_scheduler
    if options.image_props_weight_multiplier == 0 or spec.image is None:
        return 0.0
    ratios = dict(entry.split("=") for entry in options.image_props_weight_setting)
    wanted, total = _typed(spec.image.properties), 0.0
    for stored in host.images:
        for pair in wanted & _typed(ImageMetaProps.from_dict(dict(stored))):
            total += float(ratios.get(pair[0], 0)) if ratios else 1
    return total


def _typed(properties):
    return {(name, str(value)) for name, value in properties.to_dict().items()}


def multiplier(host, key, configured):
    texts = {aggregate.metadata[key] for aggregate in host.aggregates if key in aggregate.metadata}
    try:
        return min((float(text) for text in texts), default=configured)
    except ValueError:
        return configured


# name: (raw weight, minval, sign, option)
PLAIN = {
    "RAMWeigher": (ram, 0, 1, "ram_weight_multiplier"),
    "CPUWeigher": (cpu, 0, 1, "cpu_weight_multiplier"),
    "DiskWeigher": (disk, 0, 1, "disk_weight_multiplier"),
    "MetricsWeigher": (metrics, None, 1, "metrics_weight_multiplier"),
    "IoOpsWeigher": (io_ops, 0, 1, "io_ops_weight_multiplier"),
    "PCIWeigher": (pci, None, 1, "pci_weight_multiplier"),
    "ServerGroupSoftAffinityWeigher": (soft_affinity, None, 1, "soft_affinity_weight_multiplier"),
    "ServerGroupSoftAntiAffinityWeigher": (
        soft_anti_affinity,
        None,
        1,
        "soft_anti_affinity_weight_multiplier",
    ),
    "BuildFailureWeigher": (build_failures, None, -1, "build_failure_weight_multiplier"),
    "CrossCellWeigher": (cross_cell, None, 1, "cross_cell_move_weight_multiplier"),
    "HypervisorVersionWeigher": (hypervisor_version, None, 1, "hypervisor_version_weight_multiplier"),
    "NumInstancesWeigher": (num_instances, None, 1, "num_instances_weight_multiplier"),
    "ImagePropertiesWeigher": (image_properties, None, 1, "image_props_weight_multiplier"),
}


def totals(names, hosts, spec, conf):
    """The total of each host, added weigher by weigher; a host that is alone is not weighed."""
    sums = [0.0] * len(hosts)
    for name in names if len(hosts) > 1 else ():
        raw_weight, minval, sign, option = PLAIN[name]
        raw = [raw_weight(host, spec, conf) for host in hosts]
        if minval is not None:
            raw = [max(weight, minval) for weight in raw]
        low, high = float(min(raw) if minval is None else minval), float(max(raw))
        configured = conf.metrics.weight_multiplier if option.startswith("metrics") else None
        for number, host in enumerate(hosts):
            normal = 0.0 if low == high else (raw[number] - low) / (high - low)
            factor = conf.filter_scheduler[option] if configured is None else configured
            sums[number] += sign * multiplier(host, option, factor) * normal
    return sums
