"""What nova's objects say on the wire is what Berth reads, and the other way round."""

import datetime as dt
import json

import pytest

from scheduler import objects
from scheduler.rpc.context import RequestContext
from scheduler.rpc.serializer import ObjectSerializer

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]

SEED, COUNT = 1, 80
SERIALIZER = ObjectSerializer()

#: Classes of which Berth reads only some fields.
PARTLY = {"ComputeNode", "Instance"}

#: What Berth reads where aggregates have null.
EMPTY = {"hosts": [], "metadata": {}}


def read(arguments):
    """What Berth reads in arguments."""
    return SERIALIZER.deserialize_entity(RequestContext(), arguments)


def seen(value):
    """A value in the form in which ``wire_objects.seen`` shows what nova reads."""
    if hasattr(value, "set_fields"):
        fields = {name: seen(item) for name, item in value.set_fields()}
        return {"name": value.obj_name(), "version": value.VERSION, "fields": fields}
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    if isinstance(value, set):
        return sorted(map(seen, value))
    if isinstance(value, list):
        return [seen(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def differences(path, theirs, ours):
    """Where two trees differ, as texts."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        only = theirs.keys() ^ ours.keys()
        yield from (f"{path}.{key} is only {'nova' if key in theirs else 'Berth'}'s" for key in sorted(only))
        theirs = expected(theirs, ours)
        for key in theirs.keys() & ours.keys():
            yield from differences(f"{path}.{key}", theirs[key], ours[key])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(f"{path}[{number}]", *pair)
    elif theirs != ours or type(theirs) is not type(ours):
        yield f"{path}: {theirs!r} at nova, {ours!r} at Berth"


def expected(theirs, ours):
    """What nova reads, as Berth is to read it."""
    fields = theirs.get("fields")
    if theirs.get("name") in PARTLY:
        fields = {name: value for name, value in fields.items() if name in ours["fields"]}
    if theirs.get("name") == "Aggregate":
        fields = {name: EMPTY.get(name) if value is None else value for name, value in fields.items()}
    return {**theirs, "fields": fields} if fields else theirs


@pytest.fixture(scope="module")
def messages(nova):
    return nova.run("wire_objects", "make", SEED, COUNT)


def test_there_are_some_of_each_release(messages):
    requests = [one["release"] for one in messages if one["method"] == "select_destinations"]
    assert sorted(set(requests)) == [str(number) for number in range(27, 35)]
    assert (len(requests), len(messages)) == (COUNT, 4 * COUNT)


def test_berth_reads_what_nova_reads(messages):
    found = [
        f"{one['release']} {difference}"
        for one in messages
        for difference in differences(one["method"], one["seen"], seen(read(one["args"])))
    ]
    assert found == [], "\n".join(found)


def test_nova_reads_what_berth_makes_of_its_requests(messages, nova):
    requests = [one["args"] for one in messages if one["method"] == "select_destinations"]
    for request in requests:
        # of the nodes that were tried, Berth keeps little more than the names
        request["spec_obj"]["nova_object.data"].pop("retry", None)
    ours = [SERIALIZER.serialize_entity(None, read(request)) for request in requests]
    theirs = nova.run("wire_objects", "read", given=requests)
    assert list(differences("", theirs, nova.run("wire_objects", "read", given=ours))) == []


def selection(number):
    """One of a reply; numbers differ in what is set."""
    numa = objects.NUMATopologyLimits(cpu_allocation_ratio=16.0, ram_allocation_ratio=1.5)
    if number % 4 == 1:
        numa.network_metadata = objects.NetworkMetadata(physnets={"a", "b"}, tunneled=bool(number % 3))
    limits = objects.SchedulerLimits.from_dict({"numa_topology": numa if number % 2 else None})
    return objects.Selection(
        compute_node_uuid=f"6a0c0e6b-9d0f-4a64-b7a5-{number:012}",
        service_host=f"cmp-{number}",
        nodename=f"cmp-{number}.str\u00f6m",
        cell_uuid="00000000-0000-0000-0000-000000000001",
        limits=limits,
        allocation_request=json.dumps({"allocations": {"rp": {"resources": {"VCPU": number}}}}),
        allocation_request_version="1.36" if number % 7 else None,
        availability_zone="az" if number % 2 else "nova",
    )


def test_nova_reads_the_selections_that_berth_sends(nova):
    reply = [[selection(3 * number + place) for place in range(3)] for number in range(20)]
    (theirs,) = nova.run("wire_objects", "read", given=[SERIALIZER.serialize_entity(None, reply)])
    assert list(differences("", theirs, seen(reply))) == []
