import json

import pytest

from scheduler import objects
from scheduler.rpc import payloads
from scheduler.rpc.context import RequestContext
from tests.support.wire_examples import NAMES, message, spec

SPECS = [name for name in NAMES if "spec_obj" in message(name).get("args", {})]
TOKEN = "gAAAAABo-TOKEN"


def request(name="boot_two_instances", **changes):
    asked = objects.hydrate(spec(name), RequestContext(auth_token=TOKEN))
    for field, value in changes.items():
        setattr(asked, field, value)
    return asked


def shape(value):
    """The keys of nested dicts, without the values."""
    return {key: shape(item) for key, item in value.items()} if isinstance(value, dict) else None


def same_image(asked, example):
    """The examples' images differ from that of the request; take theirs."""
    asked.image = objects.ImageMeta.from_dict(example)
    return asked


def versioned(asked):
    return json.loads(json.dumps(payloads.versioned_request(asked)))


def legacy(asked):
    return json.loads(json.dumps(payloads.unversioned_request(asked)))["request_spec"]


def test_versioned_form_is_nova_s():
    example = message("notification_versioned_start")["payload"]
    found = versioned(request())
    assert shape(found) == shape(example)
    for name in (
        "flavor",
        "force_hosts",
        "num_instances",
        "security_groups",
        "scheduler_hints",
        "project_id",
    ):
        assert found["nova_object.data"][name] == example["nova_object.data"][name]


def test_legacy_form_is_nova_s():
    example = message("notification_legacy_start")["payload"]["request_spec"]
    found = legacy(same_image(request(user_id="admin"), example["image"]))
    found["instance_properties"]["pci_requests"]["instance_uuid"] = found["instance_properties"]["uuid"]
    assert found == example


@pytest.mark.parametrize("name", SPECS)
def test_no_secrets(name):
    for found in (versioned(request(name)), legacy(request(name))):
        text = json.dumps(found)
        assert TOKEN not in text
        assert "SECRET" not in text
        assert "changes" not in text


def data_of(asked, *names):
    found = versioned(asked)
    for name in names:
        found = found["nova_object.data"][name]
    return found


@pytest.mark.parametrize(
    "name", ["image", "flavor", "numa_topology", "pci_requests", "retry", "instance_group"]
)
def test_null_parts(name):
    asked = objects.RequestSpec(flavor=objects.Flavor(), instance_uuid="u")
    if name == "flavor":
        asked = objects.RequestSpec(instance_uuid="u")
    assert data_of(asked, name) is None


def test_empty_request():
    data = versioned(objects.RequestSpec())["nova_object.data"]
    assert data["num_instances"] == 1
    assert data["security_groups"] == []
    assert data["instance_uuid"] is None
    assert legacy(objects.RequestSpec()) == {
        "num_instances": 1,
        "image": {},
        "instance_properties": {},
        "instance_type": {},
    }


def test_forced_hosts_are_texts():
    asked = request(force_hosts=["h", "other"], force_nodes=["n"])
    assert (data_of(asked, "force_hosts"), data_of(asked, "force_nodes")) == ("h", "n")
    assert data_of(request(force_hosts=[]), "force_hosts") is None


def test_destination():
    found = data_of(request("migrate_to_named_host"), "requested_destination")
    assert found["nova_object.name"] == "DestinationPayload"
    cell = found["nova_object.data"].pop("cell")
    assert found["nova_object.data"] == {"aggregates": None, "host": "compute2", "node": "compute2"}
    assert sorted(cell["nova_object.data"]) == ["disabled", "name", "uuid"]
    empty = data_of(request(requested_destination=objects.Destination()), "requested_destination")
    assert empty["nova_object.data"] == {"aggregates": None}


def test_group_numa_and_pci():
    asked = request("boot_anti_affinity_numa_pci")
    assert data_of(asked, "instance_group", "rules") == {"max_server_per_host": "2"}
    assert data_of(asked, "instance_group", "hosts") == ["compute2"]
    assert data_of(asked, "numa_topology", "instance_uuid") == asked.instance_uuid
    assert data_of(asked, "numa_topology", "cells")[0]["nova_object.data"]["cpu_topology"] is None
    assert data_of(asked, "pci_requests", "requests")[0]["nova_object.data"]["alias_name"] == "a1"
    in_legacy = legacy(asked)["instance_properties"]["pci_requests"]["requests"][0]
    assert sorted(in_legacy) == ["alias_name", "count", "numa_policy", "request_id", "requester_id", "spec"]


def test_retry():
    nodes = [objects.ComputeNode(host="h", hypervisor_hostname="n")]
    asked = request(
        retry=objects.SchedulerRetries(num_attempts=2, hosts=objects.ComputeNodeList(objects=nodes))
    )
    assert data_of(asked, "retry", "hosts") == ["n"]
    assert data_of(asked, "retry", "num_attempts") == 2


def test_encryption_secret_is_left_out():
    props = objects.ImageMetaProps(hw_ephemeral_encryption_secret_uuid="s", hw_cpu_cores=2)
    asked = request(image=objects.ImageMeta(properties=props))
    assert data_of(asked, "image", "properties")["nova_object.data"] == {"hw_cpu_cores": 2}
