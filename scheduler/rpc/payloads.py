"""The bodies of notifications, in nova's two forms (spec: wire-and-config 5.2).

The unversioned form is a plain dict, the versioned form an envelope of payload objects.
"""

from collections.abc import Callable, Iterable, Mapping
import datetime as dt
from functools import partial
from typing import TypeVar

from scheduler import objects
from scheduler.objects import base

Payload = dict[str, object]
T = TypeVar("T")

_PLAIN_PCI_REQUEST = ("count", "spec", "alias_name", "request_id", "requester_id", "numa_policy")
_FLAVOR = (
    "flavorid memory_mb vcpus root_gb ephemeral_gb name swap rxtx_factor vcpu_weight disabled is_public "
    "extra_specs projects description"
).split()
_CELL = (
    "id cpuset pcpuset cpuset_reserved memory pagesize cpu_pinning_raw cpu_policy cpu_thread_policy"
).split()
_PCI_REQUEST = "count spec alias_name request_id numa_policy".split()
_GROUP = "uuid name user_id project_id policies members hosts policy".split()
_SERVICE = (
    "host binary topic report_count disabled disabled_reason availability_zone last_seen_up forced_down "
    "version uuid"
).split()
_REQUEST = (
    "instance_uuid project_id user_id availability_zone num_instances scheduler_hints ignore_hosts".split()
)
_PRIVATE = frozenset(["hw_ephemeral_encryption_secret_uuid"])


def unversioned_request(spec: objects.RequestSpec) -> Payload:
    """Return ``{"request_spec": ...}``, in which an object is a dict of the fields that are set.

    (spec: wire-and-config 1.8)
    """
    legacy = spec.to_legacy_request_spec_dict()
    properties = legacy["instance_properties"]
    if properties.get("pci_requests"):
        properties["pci_requests"] = _plain_pci_requests(properties["pci_requests"])
    return {"request_spec": _plain(legacy)}


def _plain_pci_requests(requests: objects.InstancePCIRequests) -> Payload:
    # named one by one: an object's private parts include the context, and with it the user's token
    return {
        "instance_uuid": requests.instance_uuid if "instance_uuid" in requests else None,
        "requests": [
            {name: getattr(item, name) for name in _PLAIN_PCI_REQUEST} for item in requests.requests
        ],
    }


def _plain(value: object) -> object:
    if isinstance(value, objects.WireObject):
        return {name: _plain(item) for name, item in value.set_fields()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return value


def versioned_request(spec: objects.RequestSpec) -> Payload:
    """Return a RequestSpec as the envelope RequestSpecPayload 1.1."""
    return _envelope(
        "RequestSpecPayload",
        "1.1",
        _fields(spec, _REQUEST)
        | {
            "num_instances": spec.num_instances,
            "flavor": _of(spec, "flavor", _flavor),
            "image": _of(spec, "image", _image),
            "numa_topology": _of(spec, "numa_topology", partial(_topology, spec=spec)),
            "pci_requests": _of(spec, "pci_requests", _pci_requests),
            "requested_destination": _of(spec, "requested_destination", _destination),
            "retry": _of(spec, "retry", _retry),
            "force_hosts": (spec.force_hosts or [None])[0],
            "force_nodes": (spec.force_nodes or [None])[0],
            "instance_group": _of(spec, "instance_group", _group),
            "security_groups": [group.identifier for group in spec.security_groups],
        },
    )


def versioned_service(service: Mapping[str, object]) -> Payload:
    """Return the columns and values of a service record as the envelope ServiceStatusPayload 1.1."""
    return _envelope("ServiceStatusPayload", "1.1", {name: service.get(name) for name in _SERVICE})


def _flavor(flavor: objects.Flavor) -> Payload:
    return _payload("FlavorPayload", "1.4", flavor, _FLAVOR)


def _image(image: objects.ImageMeta) -> Payload:
    names = [name for name in image.fields if name != "properties"]
    known = dict(image.properties.set_fields()).keys() - _PRIVATE
    properties = _payload("ImageMetaPropsPayload", "1.20", image.properties, sorted(known))
    return _payload("ImageMetaPayload", "1.0", image, names, properties=properties)


def _topology(topology: objects.InstanceNUMATopology, spec: objects.RequestSpec) -> Payload:
    owner = topology if "instance_uuid" in topology else spec
    policy, cells = _fields(topology, ["emulator_threads_policy"]), list(map(_cell, topology.cells))
    return _payload("InstanceNUMATopologyPayload", "1.0", owner, ["instance_uuid"], cells=cells, **policy)


def _cell(cell: objects.InstanceNUMACell) -> Payload:
    topology = _of(cell, "cpu_topology", _cpu_topology)
    return _payload("InstanceNUMACellPayload", "1.2", cell, _CELL, cpu_topology=topology)


def _cpu_topology(topology: objects.VirtCPUTopology) -> Payload:
    return _payload("VirtCPUTopologyPayload", "1.0", topology, topology.fields)


def _pci_requests(requests: objects.InstancePCIRequests) -> Payload:
    items = [_payload("InstancePCIRequestPayload", "1.1", r, _PCI_REQUEST) for r in requests.requests]
    return _payload("InstancePCIRequestsPayload", "1.0", requests, ["instance_uuid"], requests=items)


def _destination(destination: objects.Destination) -> Payload:
    data: dict[str, object] = {"aggregates": destination.aggregates}
    data |= {name: value for name in ("host", "node") if (value := getattr(destination, name)) is not None}
    if destination.cell is not None:
        # of a cell only this: its URLs have passwords in them
        data["cell"] = _payload("CellMappingPayload", "2.0", destination.cell, ["uuid", "name", "disabled"])
    return _envelope("DestinationPayload", "1.0", data)


def _retry(retry: objects.SchedulerRetries) -> Payload:
    hosts = [node.hypervisor_hostname for node in retry.hosts] if "hosts" in retry else None
    return _payload("SchedulerRetriesPayload", "1.0", retry, ["num_attempts"], hosts=hosts)


def _group(group: objects.InstanceGroup) -> Payload:
    rules = {name: str(limit) for name, limit in group.rules.items()}
    return _payload("ServerGroupPayload", "1.1", group, _GROUP, rules=rules)


def _of(obj: objects.WireObject, name: str, make: Callable[[T], Payload]) -> Payload | None:
    value = getattr(obj, name) if name in obj else None
    return None if value is None else make(value)


def _fields(obj: objects.WireObject, names: Iterable[str]) -> Payload:
    """Return the named fields as JSON, null for those that are not set."""
    return {
        name: obj.fields[name].to_primitive(obj, name, getattr(obj, name)) if name in obj else None
        for name in names
    }


def _payload(
    name: str, version: str, obj: objects.WireObject, names: Iterable[str], **more: object
) -> Payload:
    """Return an envelope of the named fields of an object, and of more."""
    return _envelope(name, version, _fields(obj, names) | more)


def _envelope(name: str, version: str, data: Payload) -> Payload:
    return {base.NAME: name, base.NAMESPACE: "nova", base.VERSION: version, base.DATA: data}
