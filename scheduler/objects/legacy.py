"""Requests in the form of two plain dicts, as before RequestSpec (spec: wire-and-config 1.8)."""

import json

from scheduler import errors
from scheduler.objects import base
from scheduler.objects.image_meta import Flavor, ImageMeta
from scheduler.objects.instance import InstanceGroup
from scheduler.objects.limits import SchedulerLimits, SchedulerRetries

_FROM_PROPERTIES = {
    "instance_uuid": "uuid",
    "project_id": "project_id",
    "user_id": "user_id",
    "availability_zone": "availability_zone",
}
_FROM_FLAVOR = ("root_gb", "ephemeral_gb", "memory_mb", "vcpus")


def request_from_dicts(cls, context, request_spec, filter_properties):
    """Return a RequestSpec of class ``cls`` for its legacy form; both dicts may be None.

    Raises:
        InvalidRequest: A value does not suit its field.
    """
    try:
        return cls(context, **_values(context, request_spec, filter_properties))
    except errors.InvalidRequest:
        raise
    except Exception as error:
        raise base.InvalidField("request_spec", error) from error


def _values(context, request_spec, filter_properties):
    asked = _dict(request_spec, "request_spec")
    wanted = _dict(filter_properties, "filter_properties")
    return {
        "num_instances": asked.get("num_instances", 1),
        "image": _image(asked.get("image")),
        **_instance_values(asked.get("instance_properties")),
        **_flavor(asked.get("instance_type")),
        **{name: wanted.get(name) for name in ("ignore_hosts", "force_hosts", "force_nodes")},
        "retry": SchedulerRetries.from_dict(context, wanted["retry"]) if wanted.get("retry") else None,
        "limits": _limits(wanted.get("limits", {})),
        "instance_group": _group(wanted),
        "scheduler_hints": _hints(wanted.get("scheduler_hints", {})),
        "requested_destination": wanted.get("requested_destination"),
        "requested_resources": None,
    }


def request_spec_dict(spec):
    return {
        "num_instances": spec.num_instances,
        "image": spec.image.to_dict() if spec.image else {},
        "instance_properties": _instance_properties(spec),
        "instance_type": spec.flavor if "flavor" in spec else {},
    }


def filter_properties_dict(spec):
    """Return the legacy ``filter_properties`` dict of a RequestSpec; empty values are left out."""
    names = ("ignore_hosts", "force_hosts", "force_nodes", "requested_destination")
    wanted = {name: getattr(spec, name) for name in names}
    wanted["retry"] = spec.retry.to_dict() if spec.retry else None
    wanted["limits"] = spec.limits.to_dict() if spec.limits else None
    wanted["scheduler_hints"] = {hint: spec.get_scheduler_hint(hint) for hint in spec.scheduler_hints or ()}
    return {name: value for name, value in wanted.items() if value} | _group_properties(spec.instance_group)


def _dict(value, name):
    if value is not None and not isinstance(value, dict):
        raise errors.InvalidRequest(f"{name} has to be a dict, not a {type(value).__name__}")
    return value or {}


def _image(image):
    if isinstance(image, dict):
        return ImageMeta.from_dict(image)
    return image if isinstance(image, ImageMeta) else None


def _instance_values(properties):
    if properties is None:
        return {}
    properties = _dict(properties, "instance_properties")
    values = {field: properties.get(key) for field, key in _FROM_PROPERTIES.items()}
    if values["instance_uuid"] is None:
        del values["instance_uuid"]
    values["numa_topology"] = _object(properties.get("numa_topology"))
    values["pci_requests"] = _object(properties.get("pci_requests"))
    return values


def _object(value):
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise base.InvalidField("instance_properties", error) from error
    return base.hydrate(value) if isinstance(value, dict) else value


def _flavor(flavor):
    if isinstance(flavor, Flavor):
        return {"flavor": flavor}
    if not isinstance(flavor, dict):
        return {}
    fields = {name: value for name, value in flavor.items() if name in Flavor.fields}
    return {"flavor": Flavor(**fields)}


def _limits(limits):
    return SchedulerLimits.from_dict(limits) if isinstance(limits, dict) else limits


def _group(wanted):
    if wanted.get("instance_group"):
        return wanted["instance_group"]
    if wanted.get("group_updated") is not True:
        return None
    policies = list(wanted.get("group_policies") or ())
    values = {
        "policy": policies[0] if policies else None,
        "hosts": list(wanted.get("group_hosts") or ()),
        "members": list(wanted.get("group_members") or ()),
    }
    if wanted.get("group_uuid"):
        values["uuid"] = wanted["group_uuid"]
    return InstanceGroup(**values)


def _hints(hints):
    if hints is None:
        return None
    hints = _dict(hints, "scheduler_hints")
    return {name: value if isinstance(value, list) else [value] for name, value in hints.items()}


def _instance_properties(spec):
    names = {name: name for name in ("numa_topology", "pci_requests")} | {
        v: k for k, v in _FROM_PROPERTIES.items()
    }
    properties = {key: getattr(spec, field) for key, field in names.items() if field in spec}
    if "flavor" in spec:
        properties |= {name: getattr(spec.flavor, name) for name in _FROM_FLAVOR if name in spec.flavor}
    return properties


def _group_properties(group):
    if not group:
        return {}
    return {
        "group_updated": True,
        "group_hosts": set(group.hosts or ()),
        "group_policies": {group.policy} if group.policy else set(),
        "group_members": set(group.members or ()),
        "group_uuid": group.uuid if "uuid" in group else None,
    }
