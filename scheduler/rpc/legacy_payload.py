"""Notifications in the older, unversioned form: plain dicts (spec: wire-and-config 5.2, 1.8)."""

import datetime as dt

_PCI_FIELDS = ("count", "spec", "alias_name", "request_id", "requester_id", "numa_policy")


def of_request(spec):
    """``{"request_spec": ...}``, objects flattened to what is set of them."""
    legacy = spec.to_legacy_request_spec_dict()
    properties = legacy["instance_properties"]
    if properties.get("pci_requests"):
        properties["pci_requests"] = _pci_requests(properties["pci_requests"])
    return {"request_spec": _plain(legacy)}


def _pci_requests(requests):
    # named one by one: an object's private parts include the context, and with it the user's token
    return {
        "instance_uuid": requests.instance_uuid if "instance_uuid" in requests else None,
        "requests": [{name: getattr(item, name) for name in _PCI_FIELDS} for item in requests.requests],
    }


def _plain(value):
    if hasattr(value, "set_fields"):
        return {name: _plain(item) for name, item in value.set_fields()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return value
