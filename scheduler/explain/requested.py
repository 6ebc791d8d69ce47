"""What a request asks for beside its flavor: hosts, hints, server group and image."""

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest

Document = dict[str, Any]


def requested(request: SchedulingRequest) -> Document:
    """Return what a request asks for as values that JSON has; empty or null where it asks for nothing.

    Its own instances do not count as members of its server group.
    """
    spec = request.spec
    forced = [*read(spec, "force_hosts", ()), *read(spec, "force_nodes", ())]
    return {
        "forced": forced,
        # what is looked up of a forced host is written to a destination that pre-filters made
        "destination": None if forced else _destination(read(spec, "requested_destination")),
        "ignored": list(read(spec, "ignore_hosts", ())),
        "hints": {name: list(value) for name, value in read(spec, "scheduler_hints", {}).items()},
        "server_group": _server_group(request),
        "image": _image(read(spec, "image")),
    }


def _destination(destination: Any) -> Document | None:
    found = {
        "host": read(destination, "host"),
        "node": read(destination, "node"),
        "cell": read(read(destination, "cell"), "name") or read(read(destination, "cell"), "uuid"),
    }
    return found if any(found.values()) else None


def _server_group(request: SchedulingRequest) -> Document | None:
    group = request.server_group
    if group is None:
        return None
    return {
        "uuid": group.uuid,
        "name": group.name,
        "policy": group.policy or ", ".join(filter(None, group.policies)),
        "rules": dict(read(request.spec.instance_group, "_rules", {})),
        "members": len(set(group.members).difference(request.instance_uuids)),
        "hosts": sorted(filter(None, group.hosts)),
    }


def _image(image: Any) -> Document | None:
    if image is None:
        return None
    properties = read(image, "properties")
    found = {
        "id": read(image, "id"),
        "name": read(image, "name"),
        "properties": {} if properties is None else dict(map(_property, properties.to_dict().items())),
    }
    return found if any(found.values()) else None


def _property(pair: tuple[str, Any]) -> tuple[str, str]:
    name, value = pair
    return name, ",".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value)


def requested_lines(decision: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a title and a text for each thing that is asked for; logs of earlier releases have none."""
    found = decision.get("requested") or {}
    if found.get("forced"):
        yield "forced to", ", ".join(found["forced"])
    if found.get("destination"):
        given = [f"{name} {value}" for name, value in found["destination"].items() if value]
        yield "requested destination", ", ".join(given)
    if found.get("ignored"):
        yield "ignored hosts", ", ".join(found["ignored"])
    if found.get("hints"):
        hints = found["hints"].items()
        yield "hints", ", ".join(f"{name}={value}" for name, values in hints for value in values)
    if found.get("server_group"):
        yield "server group", _group_text(found["server_group"])
    if found.get("image"):
        yield "image", _image_text(found["image"])


def _group_text(group: Mapping[str, Any]) -> str:
    named = " ".join(filter(None, (group["name"], f"({group['uuid']})" if group["name"] else group["uuid"])))
    hosts = f" on {', '.join(group['hosts'])}" if group["hosts"] else ""
    rules = [f"{name}={value}" for name, value in group["rules"].items()]
    return f"{named}: {', '.join([group['policy'], *rules])}, {group['members']} members{hosts}"


def _image_text(image: Mapping[str, Any]) -> str:
    named = image["name"] or image["id"] or ""
    properties = ", ".join(f"{name}={value}" for name, value in sorted(image["properties"].items()))
    return ": ".join(filter(None, (named, properties)))
