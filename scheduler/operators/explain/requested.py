"""What is requested besides the flavor: hosts, hints, server group and image."""

from collections.abc import Iterator
from typing import Any

from scheduler import objects
from scheduler.decisions.document import Decision
from scheduler.logs import count_text
from scheduler.request.reading import read


def requested_lines(decision: Decision) -> Iterator[tuple[str, str]]:
    """Yield a title and a text for each part of the request; nothing if the request was not kept."""
    spec = decision.request_spec()
    if spec is None:
        return
    if forced := [*read(spec, "force_hosts", ()), *read(spec, "force_nodes", ())]:
        yield "forced to", ", ".join(forced)
    if destination := _destination(read(spec, "requested_destination")):
        yield "requested destination", destination
    if ignored := read(spec, "ignore_hosts", ()):
        yield "ignored hosts", ", ".join(ignored)
    if hints := read(spec, "scheduler_hints", {}):
        yield "hints", ", ".join(f"{name}={value}" for name, values in hints.items() for value in values)
    if group := read(spec, "instance_group"):
        yield "server group", _group(group, decision.instances)
    if image := _image(read(spec, "image")):
        yield "image", image


def _destination(destination: Any) -> str:
    found = {
        "host": read(destination, "host"),
        "node": read(destination, "node"),
        "cell": read(read(destination, "cell"), "name") or read(read(destination, "cell"), "uuid"),
    }
    return ", ".join(f"{name} {value}" for name, value in found.items() if value)


def _group(group: objects.InstanceGroup, instances: list[str]) -> str:
    """Describe a server group; the instances of the request do not count as its members."""
    uuid, name, policy = (read(group, each) for each in ("uuid", "name", "policy"))
    named = f"{name} ({uuid})" if name else uuid
    policies = policy or ", ".join(filter(None, read(group, "policies", ())))
    rules = [f"{name}={value}" for name, value in read(group, "_rules", {}).items()]
    members = len(set(read(group, "members", ())).difference(instances))
    hosts = sorted(filter(None, read(group, "hosts", ())))
    where = f" on {', '.join(hosts)}" if hosts else ""
    return f"{named}: {', '.join([policies, *rules])}, {count_text(members, 'member')}{where}"


def _image(image: Any) -> str:
    properties = read(image, "properties")
    found = {} if properties is None else dict(map(_property, properties.to_dict().items()))
    texts = ", ".join(f"{name}={value}" for name, value in sorted(found.items()))
    return ": ".join(filter(None, (read(image, "name") or read(image, "id") or "", texts)))


def _property(pair: tuple[str, Any]) -> tuple[str, str]:
    name, value = pair
    return name, ",".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value)
