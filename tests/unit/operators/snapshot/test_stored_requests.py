import json

import pytest

from scheduler import objects
from scheduler.operators.snapshot.request_specs import MISSING, StoredRequests
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import flavor


def stored(name, wanted=None, in_group=None, **fields):
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
    numbers = [requests.add(*stored(f"i{number}"))[0] for number in range(5)]
    assert (numbers, len(requests)) == ([0] * 5, 1)
    assert requests.add(*stored("other", flavor("m2", vcpus=2)))[0] == 1


def test_requests_of_several_groups_are_equal_but_for_the_group():
    requests = StoredRequests()
    first, second = (
        requests.add(*stored(name, in_group=uuid_of(group))) for name, group in (("i", "a"), ("j", "b"))
    )
    assert (first, second) == ((0, uuid_of("a")), (0, uuid_of("b")))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"nova_object.name": "RequestSpec"}', "1"])
def test_what_cannot_be_read_is_no_request(text):
    assert StoredRequests().add(uuid_of("i"), text) == (MISSING, None)


def test_a_request_is_as_for_a_move():
    requests = StoredRequests()
    number, _ = requests.add(*stored("i", force_hosts=["h"], ignore_hosts=["x"]))
    spec = requests.spec(number)
    assert (spec.force_hosts, spec.ignore_hosts, spec.requested_destination) == (None, None, None)
    assert requests.is_forced(number)
    spec.num_instances = 7
    assert requests.spec(number).num_instances == 1


def test_hints_that_name_instances_are_told():
    requests = StoredRequests()
    uuid, text = stored("i")
    assert not requests.names_instances(requests.add(uuid, text)[0])
    primitive = json.loads(text)
    primitive["nova_object.data"]["scheduler_hints"] = {"different_host": [uuid_of("x")]}
    assert requests.names_instances(requests.add(uuid, json.dumps(primitive))[0])
