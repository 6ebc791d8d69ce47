"""The rules once more, each for one host and as plainly as the chapter has them (spec: filters-and-weighers 2).

Every function takes (host, spec, conf), the host as a ``HostState``, and says whether the host passes.
"""

import ipaddress
import json
import operator
import time

from packaging.version import Version

from scheduler.filters.extra_specs_ops import match


def hint(spec, name):
    return (spec.scheduler_hints or {}).get(name) or []


def metadata(host):
    merged = {}
    for aggregate in host.aggregates:
        for key, text in aggregate.metadata.items():
            merged.setdefault(key, set()).update(part.strip() for part in text.split(","))
    return merged


def raw(host, key):
    return {aggregate.metadata[key] for aggregate in host.aggregates if key in aggregate.metadata}


def compute(host, spec, conf):
    service = host.service
    if service["disabled"] or service["forced_down"]:
        return False
    seen = service["last_seen_up"] or service["created_at"]
    return abs(time.time() - seen.timestamp()) <= conf.service_down_time


def capabilities(host, spec, conf):
    specs = dict(spec.flavor.extra_specs)
    if "hw:maxphysaddr_bits" in specs:
        specs["capabilities:cpu_info:maxphysaddr:bits"] = ">= " + specs.pop("hw:maxphysaddr_bits")
    for key, requirement in specs.items():
        path = key.split(":")
        if len(path) > 1 and path.pop(0) != "capabilities":
            continue
        if ":" not in key and not hasattr(host, key) and key not in host.stats:
            continue
        value = _walk(host, path)
        if value is None or not match(str(value), requirement):
            return False
    return True


def _walk(value, path):
    for name in path:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        if isinstance(value, dict):
            value = value.get(name)
        elif getattr(value, name, None) is not None:
            value = getattr(value, name)
        elif hasattr(value, "stats"):
            value = value.stats.get(name)
        else:
            return None
    return value


def image_properties(host, spec, conf):
    properties = spec.image.properties.to_dict() if spec.image else {}
    default = conf.filter_scheduler.image_properties_default_architecture
    wanted = [
        properties.get("hw_architecture", default),
        properties.get("img_hv_type"),
        properties.get("hw_vm_mode"),
    ]
    wanted = [name for name in wanted if name]
    if not wanted:
        return True
    if not any(all(name in triple for name in wanted) for triple in host.supported_instances):
        return False
    number = host.hypervisor_version
    if number and "img_hv_requested_version" in properties:
        version = Version(f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}")
        for condition in properties["img_hv_requested_version"].split(","):
            holds = {">=": version.__ge__, "<": version.__lt__}["<" if condition[0] == "<" else condition[:2]]
            if not holds(Version(condition.lstrip("<>="))):
                return False
    bits = _walk(host, ["cpu_info", "maxphysaddr", "bits"])
    return not bits or bits >= properties.get("hw_maxphysaddr_bits", 0)


def isolated_hosts(host, spec, conf):
    options = conf.filter_scheduler
    image = spec.image.id if spec.image and "id" in spec.image else None
    host_isolated, image_isolated = host.host in options.isolated_hosts, image in options.isolated_images
    if options.restrict_isolated_hosts_to_isolated_images:
        return host_isolated == image_isolated
    return host_isolated or not image_isolated


def different_host(host, spec, conf):
    return not any(uuid in host.instances for uuid in hint(spec, "different_host"))


def same_host(host, spec, conf):
    uuids = hint(spec, "same_host")
    return not uuids or any(uuid in host.instances for uuid in uuids)


def simple_cidr(host, spec, conf):
    if not hint(spec, "build_near_host_ip"):
        return True
    (near,), (cidr,) = hint(spec, "build_near_host_ip"), hint(spec, "cidr") or ["/24"]
    return ipaddress.ip_address(str(host.host_ip)) in ipaddress.ip_network(near + cidr, strict=False)


def anti_affinity(host, spec, conf):
    group = spec.instance_group
    if group is None or group.policy != "anti-affinity" or spec.instance_uuid in host.instances:
        return True
    return len(set(group.members) & set(host.instances)) < group.rules.get("max_server_per_host", 1)


def affinity(host, spec, conf):
    group = spec.instance_group
    return group is None or "affinity" not in group.policies or not group.hosts or host.host in group.hosts


def image_isolation(host, spec, conf):
    for key, allowed in metadata(host).items():
        try:
            value = spec.image.properties.get(key) if spec.image else None
        except AttributeError:
            continue
        if value and str(value) not in allowed:
            return False
    return True


def aggregate_extra_specs(host, spec, conf):
    for key, requirement in spec.flavor.extra_specs.items():
        scope, colon, rest = key.partition(":")
        if colon and scope != "aggregate_instance_extra_specs":
            continue
        values = sorted(metadata(host).get(rest if colon else key, ()), key=lambda value: not value.isdigit())
        if not any(match(value, requirement) for value in values):
            return False
    return True


def tenants(host, spec, conf):
    listed = [values for key, values in metadata(host).items() if key.startswith("filter_tenant_id")]
    return not listed or spec.project_id in set().union(*listed)


def flavors(host, spec, conf):
    values = raw(host, "instance_type")
    return not values or spec.flavor.name in [part.strip() for text in values for part in text.split(",")]


def zone(host, spec, conf):
    zones = metadata(host).get("availability_zone") or {conf.default_availability_zone}
    return not spec.availability_zone or spec.availability_zone in zones


def io_ops(host, spec, conf):
    return host.num_io_ops < conf.filter_scheduler.max_io_ops_per_host


def aggregate_io_ops(host, spec, conf):
    try:
        limits = [int(value) for value in raw(host, "max_io_ops_per_host")]
    except ValueError:
        limits = []
    return host.num_io_ops < min(limits, default=conf.filter_scheduler.max_io_ops_per_host)


def num_instances(host, spec, conf):
    return host.num_instances < conf.filter_scheduler.max_instances_per_host


def ram(host, spec, conf):
    wanted, total = spec.memory_mb, host.total_usable_ram_mb
    usable = total * host.ram_allocation_ratio - (total - host.free_ram_mb)
    return total >= wanted and usable >= wanted


def cores(host, spec, conf):
    wanted, total = spec.vcpus, host.vcpus_total
    if not total:
        return True
    limit = total * host.cpu_allocation_ratio
    return not (limit > 0 and wanted > total) and limit - host.vcpus_used >= wanted


def disk(host, spec, conf):
    wanted, total = (
        1024 * (spec.root_gb + spec.ephemeral_gb) + spec.swap,
        1024 * host.total_usable_disk_gb,
    )
    usable = total * host.disk_allocation_ratio - (total - host.free_disk_mb)
    return total >= wanted and usable >= wanted


def metrics(host, spec, conf):
    names = {metric.name for metric in host.metrics}
    return all(entry.partition("=")[0] in names for entry in conf.metrics.weight_setting)


def json_query(host, spec, conf):
    texts = hint(spec, "query")
    result = _evaluated(json.loads(texts[0]), host) if texts else True
    return any(result) if isinstance(result, list) else bool(result)


def _evaluated(query, host):
    if not query:
        return True
    values = []
    for argument in query[1:]:
        if isinstance(argument, list):
            argument = _evaluated(argument, host)  # noqa: PLW2901
        elif isinstance(argument, str):
            argument = _resolved(argument, host)  # noqa: PLW2901
        if argument is not None:
            values.append(argument)
    return _OPERATORS[query[0]](values)


def _resolved(text, host):
    if not text.startswith("$"):
        return text or None
    name, *keys = text[1:].split(".")
    value = getattr(host, name, None)
    for key in keys:
        value = None if value is None else value.get(key)
    return value


def _compared(compare):
    def holds(values):
        # every pair is compared, so that one which cannot be compared raises
        results = [compare(values[0], other) for other in values[1:]]
        return bool(results) and all(results)

    return holds


_OPERATORS = {
    "=": _compared(operator.eq),
    "<": _compared(operator.lt),
    ">": _compared(operator.gt),
    "<=": _compared(operator.le),
    ">=": _compared(operator.ge),
    "in": lambda v: len(v) > 1 and v[0] in v[1:],
    "not": lambda v: [not value for value in v],
    "or": any,
    "and": all,
}

PLAIN = {
    "ComputeFilter": compute,
    "ComputeCapabilitiesFilter": capabilities,
    "ImagePropertiesFilter": image_properties,
    "IsolatedHostsFilter": isolated_hosts,
    "DifferentHostFilter": different_host,
    "SameHostFilter": same_host,
    "SimpleCIDRAffinityFilter": simple_cidr,
    "ServerGroupAntiAffinityFilter": anti_affinity,
    "ServerGroupAffinityFilter": affinity,
    "AggregateImagePropertiesIsolation": image_isolation,
    "AggregateInstanceExtraSpecsFilter": aggregate_extra_specs,
    "AggregateMultiTenancyIsolation": tenants,
    "AggregateTypeAffinityFilter": flavors,
    "AvailabilityZoneFilter": zone,
    "IoOpsFilter": io_ops,
    "AggregateIoOpsFilter": aggregate_io_ops,
    "NumInstancesFilter": num_instances,
    "RamFilter": ram,
    "CoreFilter": cores,
    "DiskFilter": disk,
    "MetricsFilter": metrics,
    "JsonFilter": json_query,
}
