"""Requests are made of what nova's API database has."""

import json

import pytest
import sqlalchemy as sa

from scheduler import objects
from scheduler.nova_db.cells import UNREADABLE, Cells
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import (
    flavor_extra_specs,
    flavors,
    instance_group_member,
    instance_group_policy,
    instance_groups,
    request_specs,
)
from scheduler.operators.snapshot import request_specs as module
from scheduler.operators.snapshot.request_specs import (
    MISSING,
    NotFound,
    RequestSpecs,
    StoredRequests,
    instance_pages,
)
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import flavor

IMAGE = "11111111-1111-4111-8111-111111111111"
GROUP = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def stored(nova):
    return RequestSpecs(nova.engines)


def insert_flavor(nova, **columns):
    amounts = {"vcpus": 2, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
    return nova.insert_api(flavors, **amounts | columns)


def insert_request(nova, instance, image=None):
    properties = objects.ImageMetaProps(hw_architecture="aarch64")
    spec = objects.RequestSpec(
        flavor=objects.Flavor(vcpus=3),
        image=objects.ImageMeta(id=image, properties=properties) if image else None,
        project_id="p",
    )
    nova.insert_api(request_specs, instance_uuid=instance, spec=json.dumps(spec.obj_to_primitive()))


@pytest.mark.parametrize("name", ["m1.small", "42"], ids=["by name", "by id"])
def test_a_flavor_comes_with_its_extra_specs(nova, stored, name):
    insert_flavor(nova, name="m1.other", flavorid="1")
    number = insert_flavor(nova, name="m1.small", flavorid="42", vcpus=5)
    nova.insert_api(flavor_extra_specs, flavor_id=number, key="trait:HW_X", value="required")
    found = stored.flavor(name)
    assert (found.vcpus, found.memory_mb, found.extra_specs) == (5, 512, {"trait:HW_X": "required"})


def test_the_request_of_an_instance_is_read(nova, stored):
    insert_request(nova, "i1", IMAGE)
    found = stored.of_instance("i1")
    assert (found.flavor.vcpus, found.project_id, found.image.id) == (3, "p", IMAGE)


def test_an_image_is_found_in_one_of_the_latest_requests(nova, stored, monkeypatch):
    insert_request(nova, "i1", IMAGE)
    insert_request(nova, "i2")
    assert stored.image(IMAGE).properties.get("hw_architecture") == "aarch64"
    monkeypatch.setattr(module, "LATEST", 1)
    with pytest.raises(NotFound, match="None of the latest 1 requests"):
        stored.image(IMAGE)


@pytest.mark.parametrize("rules", ['{"max_server_per_host": 2}', None], ids=["with a rule", "without"])
def test_a_server_group_comes_with_policy_and_members(nova, stored, rules):
    other = nova.insert_api(instance_groups, uuid=IMAGE, name="other")
    number = nova.insert_api(instance_groups, uuid=GROUP, name="db", project_id="p", user_id="u")
    nova.insert_api(instance_group_policy, group_id=number, policy="anti-affinity", rules=rules)
    for group, instance in ((number, "i1"), (other, "i2"), (number, "i3")):
        nova.insert_api(instance_group_member, group_id=group, instance_uuid=instance)
    found = stored.group(GROUP)
    assert (found.uuid, found.name, found.project_id) == (GROUP, "db", "p")
    assert (found.policy, found.rules) == ("anti-affinity", {"max_server_per_host": 2} if rules else {})
    assert sorted(found.members) == ["i1", "i3"]
    assert "hosts" not in found


@pytest.mark.parametrize("method", ["flavor", "of_instance", "image", "group"])
def test_what_is_missing_is_named(stored, method):
    with pytest.raises(NotFound, match="nothing"):
        getattr(stored, method)("nothing")


def test_groups_are_read_together(nova, stored):
    for name in ("a", "b"):
        number = nova.insert_api(instance_groups, uuid=f"{name}{GROUP[1:]}", name=name)
        nova.insert_api(instance_group_policy, group_id=number, policy="affinity", rules=None)
        nova.insert_api(instance_group_member, group_id=number, instance_uuid=f"i-{name}")
    found = stored.groups([f"a{GROUP[1:]}", f"b{GROUP[1:]}", GROUP])
    assert {one.name: (one.policy, one.members) for one in found.values()} == {
        "a": ("affinity", ["i-a"]),
        "b": ("affinity", ["i-b"]),
    }


def test_the_latest_requests_come_oldest_first(nova, stored):
    for number in range(4):
        insert_request(nova, f"i{number}")
    assert stored.latest(3) == ["i1", "i2", "i3"]
    assert stored.latest(10, since=module.datetime(2999, 1, 1)) == []
    assert dict(stored.texts(["i1", "i9"])).keys() == {"i1"}


def test_all_flavors_are_read_in_order(nova, stored):
    insert_flavor(nova, name="b", flavorid="1", vcpus=1)
    insert_flavor(nova, name="a", flavorid="b", vcpus=2)  # the id of a flavor may be the name of another one
    assert [(one.name, one.vcpus) for one in stored.flavors] == [("a", 2), ("b", 1)]
    assert [stored.flavor(name).vcpus for name in ("a", "b", "1")] == [2, 1, 1]


def stored_text(name, wanted=None, in_group=None, **fields):
    spec = objects.RequestSpec(
        instance_uuid=uuid_of(name),
        num_instances=1,
        flavor=wanted or flavor(),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        instance_group=None if in_group is None else objects.InstanceGroup(uuid=in_group),
        scheduler_hints={},
        pci_requests=objects.InstancePCIRequests(requests=[]),
        **fields,
    )
    return uuid_of(name), json.dumps(spec.obj_to_primitive())


def test_equal_requests_are_kept_once():
    requests = StoredRequests()
    numbers = [requests.add(*stored_text(f"i{number}"))[0] for number in range(5)]
    assert (numbers, len(requests)) == ([0] * 5, 1)
    assert requests.add(*stored_text("other", flavor("m2", vcpus=2)))[0] == 1


def test_requests_of_several_groups_are_equal_but_for_the_group():
    requests = StoredRequests()
    first, second = (
        requests.add(*stored_text(name, in_group=uuid_of(group))) for name, group in (("i", "a"), ("j", "b"))
    )
    assert (first, second) == ((0, uuid_of("a")), (0, uuid_of("b")))


NO_FLAVOR = json.dumps(objects.RequestSpec(num_instances=1).obj_to_primitive())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"nova_object.name": "RequestSpec"}', "1", NO_FLAVOR]
)
def test_what_cannot_be_read_is_no_request(text):
    assert StoredRequests().add(uuid_of("i"), text) == (MISSING, None)


def test_a_request_is_as_for_a_move():
    requests = StoredRequests()
    number, _ = requests.add(*stored_text("i", force_hosts=["h"], ignore_hosts=["x"]))
    spec = requests[number].spec()
    assert (spec.force_hosts, spec.ignore_hosts, spec.requested_destination) == (None, None, None)
    assert requests[number].is_forced
    spec.num_instances = 7
    assert requests[number].spec().num_instances == 1


def test_hints_that_name_instances_are_told():
    requests = StoredRequests()
    uuid, text = stored_text("i")
    assert not requests[requests.add(uuid, text)[0]].names_instances
    primitive = json.loads(text)
    primitive["nova_object.data"]["scheduler_hints"] = {"different_host": [uuid_of("x")]}
    assert requests[requests.add(uuid, json.dumps(primitive))[0]].names_instances


@pytest.fixture
def pages(nova):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return lambda: list(instance_pages(cells, CellCalls(lambda: 10.0)))


def test_all_live_instances_on_hosts_are_read_page_by_page(nova, pages, monkeypatch):
    monkeypatch.setattr(module, "PAGE", 2)
    uuids = [nova.add_instance(f"cmp{number}", vm_state="active") for number in range(5)]
    nova.add_instance("cmp9", deleted=1)
    nova.add_instance(None)
    found = [page for _, page in pages()]
    assert [len(page) for page in found] == [2, 2, 1]
    assert [one.uuid for page in found for one in page] == uuids


def test_names_and_projects_are_read(nova, pages):
    nova.add_instance("cmp1", vm_state="active", display_name="web", project_id="p")
    nova.add_instance("cmp2", vm_state="active", display_name=None, project_id=None)
    ((_, found),) = pages()
    assert [(one.display_name, one.project_id) for one in found] == [("web", "p"), ("", "")]


def test_soft_deleted_and_hidden_ones_are_told(nova, pages):
    nova.add_instance("cmp1", vm_state="soft-delete", hidden=True)
    ((_, (one,)),) = pages()
    assert (one.vm_state, one.hidden) == ("soft-delete", True)


def test_a_cell_that_cannot_be_read_is_an_error(nova, pages):
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE instances RENAME TO elsewhere"))
    with pytest.raises(UNREADABLE):
        pages()
