"""Requests from arguments."""

import argparse
import json

import pytest

from scheduler import objects
from scheduler.errors import InvalidSetting
from scheduler.operators.snapshot.request_specs import NotFound
from scheduler.operators.snapshot.requests import WrongArgument, hint_notes, make_request, pairs
from scheduler.request.reading import read
from tests.support.options import make_conf
from tests.unit.filters.asking import make_spec

GPU = json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1db4"})
CONF = make_conf(pci__alias=[GPU])
UUID = "11111111-1111-4111-8111-111111111111"


class Stored:
    """An API database with one flavor, one image and the request of one instance."""

    def __init__(self, **extra_specs):
        self.extra_specs = extra_specs

    def flavor(self, name):
        if name != "m1":
            raise NotFound(f"There is no flavor {name}")
        return objects.Flavor(name="m1", vcpus=1, memory_mb=64, root_gb=1, extra_specs=self.extra_specs)

    def image(self, image_id):
        return objects.ImageMeta(id=UUID, properties=objects.ImageMetaProps(hw_disk_bus="virtio"))

    def group(self, uuid):
        if uuid != UUID:
            raise NotFound(f"There is no server group with UUID {uuid}")
        return objects.InstanceGroup(uuid=uuid, name="db", policy="affinity", members=["i1"])

    def of_instance(self, uuid):
        return objects.RequestSpec(
            flavor=self.flavor("m1"), num_instances=7, instance_uuid=uuid, scheduler_hints={"group": ["g"]}
        )


def arguments(**given):
    defaults = dict.fromkeys(("flavor", "like", "spec", "image", "az", "project"))
    defaults |= {"image_property": [], "hint": [], "ignore_host": [], "boot_from_volume": False, "count": 1}
    return argparse.Namespace(**defaults | given)


def test_a_request_is_made_of_flavor_and_image():
    spec = make_request(
        arguments(
            flavor="m1",
            image=UUID,
            image_property=["hw_architecture=aarch64"],
            az="a",
            project="p",
            hint=["different_host=A", "different_host=B"],
            ignore_host=["h1"],
            boot_from_volume=True,
            count=3,
        ),
        Stored(),
        CONF,
    )
    assert (spec.flavor.name, spec.availability_zone, spec.project_id, spec.num_instances) == (
        "m1",
        "a",
        "p",
        3,
    )
    assert spec.image.properties.to_dict() == {"hw_disk_bus": "virtio", "hw_architecture": "aarch64"}
    assert (spec.scheduler_hints, spec.ignore_hosts) == ({"different_host": ["A", "B"]}, ["h1"])
    assert spec.is_bfv


def test_a_request_like_that_of_an_instance_is_for_a_new_one():
    spec = make_request(arguments(like=UUID, hint=["same_host=A"]), Stored(), CONF)
    assert (spec.num_instances, spec.scheduler_hints) == (1, {"group": ["g"], "same_host": ["A"]})
    assert spec.instance_uuid != UUID


def test_a_hint_for_a_server_group_puts_the_request_there():
    spec = make_request(arguments(flavor="m1", hint=[f"group={UUID}"]), Stored(), CONF)
    assert (spec.instance_group.uuid, spec.instance_group.policy) == (UUID, "affinity")
    assert spec.scheduler_hints == {"group": [UUID]}


@pytest.mark.parametrize(
    ("hints", "error", "words"),
    [
        (["group=g"], NotFound, "no server group"),
        ([f"group={UUID}", f"group={UUID}"], WrongArgument, "one server group"),
    ],
    ids=["unknown", "several"],
)
def test_a_group_that_no_request_can_be_in_is_refused(hints, error, words):
    with pytest.raises(error, match=words):
        make_request(arguments(flavor="m1", hint=hints), Stored(), CONF)


@pytest.mark.parametrize(
    ("stored", "members"),
    [
        (objects.InstanceGroup(uuid=UUID, members=None, hosts=None), ["i1"]),
        (objects.InstanceGroup(uuid=UUID, members=["i2"], hosts=["h"]), ["i2"]),
        (objects.InstanceGroup(uuid=UUID.replace("1", "2")), None),
    ],
    ids=["stored", "sent", "deleted since"],
)
def test_the_group_of_a_stored_request_is_read_again(tmp_path, stored, members):
    path, spec = tmp_path / "spec.json", Stored().of_instance(UUID)
    spec.instance_group = stored
    path.write_text(json.dumps(spec.obj_to_primitive()))
    found = make_request(arguments(spec=str(path)), Stored(), CONF).instance_group
    assert (found and found.members) == members


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("a", ("a", None, None)),
        ("a:h", ("a", ["h"], None)),
        ("a:h:n", ("a", ["h"], ["n"])),
        ("a::n", ("a", None, ["n"])),
        (":h", (None, ["h"], None)),
    ],
)
def test_a_zone_may_name_a_host(given, wanted):
    spec = make_request(arguments(flavor="m1", az=given), Stored(), CONF)
    assert tuple(read(spec, name) for name in ("availability_zone", "force_hosts", "force_nodes")) == wanted


def test_a_request_is_read_from_a_file(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(Stored().of_instance(UUID).obj_to_primitive()))
    assert make_request(arguments(spec=str(path)), Stored(), CONF).flavor.name == "m1"


@pytest.mark.parametrize("content", [None, "{", '{"a": 1}', "[]"], ids=["missing", "cut", "other", "list"])
def test_a_file_that_has_no_request_is_named(tmp_path, content):
    path = tmp_path / "spec.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(WrongArgument, match=r"spec\.json"):
        make_request(arguments(spec=str(path)), Stored(), CONF)


def test_a_flavor_s_topology_and_devices_are_made_as_nova_api_makes_them():
    extra_specs = {"hw:mem_page_size": "large", "pci_passthrough:alias": "gpu:2"}
    spec = make_request(arguments(flavor="m1"), Stored(**extra_specs), CONF)
    assert [(cell.memory, cell.pagesize) for cell in spec.numa_topology.cells] == [(64, -2)]
    (devices,) = spec.pci_requests.requests
    assert (devices.alias_name, devices.count) == ("gpu", 2)
    assert spec.requested_resources is None


def test_placement_is_asked_for_devices_if_an_option_says_so():
    conf = make_conf(pci__alias=[GPU], pci_in_placement=True)
    spec = make_request(arguments(flavor="m1"), Stored(**{"pci_passthrough:alias": "gpu:2"}), conf)
    (devices,) = spec.pci_requests.requests
    assert [(group.requester_id, group.resources) for group in spec.requested_resources] == [
        (f"{devices.request_id}-{number}", {"CUSTOM_PCI_10DE_1DB4": 1}) for number in range(2)
    ]


def test_an_alias_that_this_host_does_not_have_is_named():
    with pytest.raises(InvalidSetting, match=r"no PCI alias 'nic' in \[pci\]/alias"):
        make_request(arguments(flavor="m1"), Stored(**{"pci_passthrough:alias": "nic:1"}), CONF)


def test_shared_cpus_are_no_topology():
    spec = make_request(arguments(flavor="m1"), Stored(**{"hw:cpu_policy": "shared"}), CONF)
    assert spec.numa_topology is None


@pytest.mark.parametrize("given", ["a", "=b", ""])
def test_a_pair_needs_a_key_and_a_value(given):
    with pytest.raises(WrongArgument, match="KEY=VALUE"):
        pairs([given])


# -- commands --------------------------------------------------------------------------------------------


RULES = {"SameHostFilter", "ServerGroupAffinityFilter"}


@pytest.mark.parametrize(
    ("hint", "notes"),
    [
        ("same_host", []),
        ("group", []),
        ("different_host", ["Hint different_host has no effect: DifferentHostFilter is not enabled"]),
        (
            "samehost",
            ["Hint samehost has no effect: no filter of nova reads it; did you mean same_host?"],
        ),
        ("groups", ["Hint groups has no effect: no filter of nova reads it; did you mean group?"]),
        ("rack", ["Hint rack has no effect: no filter of nova reads it"]),
    ],
)
def test_hints_without_effect_are_named(hint, notes):
    assert list(hint_notes(make_spec(hints={hint: ["x"]}), RULES)) == notes


@pytest.mark.parametrize(("policy", "missing"), [("affinity", ""), ("anti-affinity", "AntiAffinityFilter")])
def test_a_policy_that_conductors_refuse_is_named(policy, missing):
    notes = list(hint_notes(make_spec(group={"policy": policy}), RULES))
    assert [missing in note for note in notes] == [True] * bool(missing)


def test_a_request_without_hints_has_no_notes():
    assert list(hint_notes(make_spec(), RULES)) == []
