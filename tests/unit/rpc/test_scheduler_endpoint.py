import kombu.serialization
from oslo_messaging._drivers import common
from oslo_utils import uuidutils
import pytest

from scheduler import errors, objects
from scheduler.rpc import checks, scheduler_endpoint
from scheduler.rpc.context import RequestContext
from tests.support.wire_examples import message, spec

UUID = "7900ba8a-8511-4a08-8212-8b095944aa3f"
OTHER = "2b54e988-4739-4ca3-96e9-82b0ebb53539"


@pytest.fixture
def endpoint(conf, manager):
    return scheduler_endpoint.Scheduler(conf, manager)


def refusal(endpoint, **arguments):
    with pytest.raises(errors.InvalidRequest) as caught:
        select(endpoint, **arguments)
    return str(caught.value)


def select(endpoint, **arguments):
    arguments = {"spec_obj": objects.hydrate(spec("boot_two_instances"))} | arguments
    return endpoint.select_destinations(RequestContext(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ({}, (None, False, False)),
        ({"instance_uuids": [UUID, OTHER]}, ([UUID, OTHER], False, False)),
        ({"instance_uuids": []}, ([], False, False)),
        ({"return_objects": True, "return_alternates": True}, (None, True, True)),
        ({"return_objects": None, "return_alternates": 0}, (None, False, False)),
    ],
)
def test_select_destinations(endpoint, manager, arguments, seen):
    manager.answer = ["x"]
    assert select(endpoint, **arguments) == ["x"]
    assert manager.asked[0][3:] == seen


def test_legacy_form(endpoint, manager):
    endpoint.select_destinations(
        RequestContext(),
        request_spec={"num_instances": 2, "instance_type": {"vcpus": 3}},
        filter_properties={"ignore_hosts": ["a"]},
    )
    asked = manager.asked[0][2]
    assert (asked.num_instances, asked.vcpus, asked.ignore_hosts) == (2, 3, ["a"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"spec_obj": None}, "spec_obj"),
        ({"spec_obj": objects.Flavor()}, "spec_obj"),
        ({"spec_obj": objects.RequestSpec(flavor=objects.Flavor(), num_instances=-1)}, "num_instances"),
        ({"spec_obj": objects.RequestSpec(flavor=objects.Flavor(), num_instances=10**9)}, "num_instances"),
        (
            {"spec_obj": objects.RequestSpec(flavor=objects.Flavor(memory_mb=2**31), num_instances=1)},
            "spec_obj.flavor.memory_mb must be 0 to",
        ),
        (
            {"spec_obj": objects.RequestSpec(flavor=objects.Flavor(vcpus=-1), num_instances=1)},
            "spec_obj.flavor.vcpus must be 0 to",
        ),
        ({"instance_uuids": UUID}, "instance_uuids"),
        ({"instance_uuids": {UUID: 1}}, "instance_uuids"),
        ({"instance_uuids": [1]}, "instance_uuids"),
        ({"instance_uuids": [None]}, "instance_uuids"),
        ({"instance_uuids": ["x"]}, "no UUID"),
        ({"instance_uuids": ["../" + UUID]}, "no UUID"),
        ({"instance_uuids": [UUID, UUID]}, "twice"),
        (
            {
                "spec_obj": objects.RequestSpec(
                    flavor=objects.Flavor(), num_instances=1, availability_zone="z" * 256
                )
            },
            "spec_obj.availability_zone has more than 255 characters",
        ),
        ({"instance_uuids": [UUID] * (checks.MOST_INSTANCES + 1)}, "at most"),
        ({"return_objects": "yes"}, "return_objects"),
        ({"return_alternates": []}, "return_alternates"),
    ],
)
def test_select_destinations_refuses(endpoint, manager, arguments, text):
    assert text in refusal(endpoint, **arguments)
    assert manager.asked == []


@pytest.mark.parametrize(
    ("flags", "most"),
    [
        ({"return_objects": True, "return_alternates": True}, 4821),
        ({"return_objects": True}, 14463),
    ],
    ids=["alternates", "no alternates"],
)
def test_a_request_whose_reply_would_not_fit_into_a_message_is_refused(endpoint, manager, flags, most):
    uuids = [uuidutils.generate_uuid() for _ in range(most + 1)]
    select(endpoint, instance_uuids=uuids[:most], **flags)
    assert len(manager.asked) == 1
    assert f"at most {most} are accepted" in refusal(endpoint, instance_uuids=uuids, **flags)
    assert len(manager.asked) == 1


@pytest.mark.parametrize(
    ("flags", "most"), [({"return_objects": True}, 86), ({}, 400)], ids=["objects", "dicts"]
)
def test_a_request_without_instances_is_measured_by_their_number(endpoint, conf, flags, most):
    conf.set_override("largest_message", 100_000, "berth")
    wanted = objects.hydrate(spec("boot_two_instances"))
    wanted.num_instances = most
    select(endpoint, spec_obj=wanted, **flags)
    wanted.num_instances = most + 1
    assert f"at most {most} are accepted" in refusal(endpoint, spec_obj=wanted, **flags)


def test_the_assumed_size_of_a_selection_is_that_of_a_recorded_reply():
    rows = message("reply_boot_two_instances")["result"]
    body = kombu.serialization.dumps(common.serialize_msg({"result": rows * 100}))[2]
    assert len(body) / sum(map(len, rows)) / 100 == pytest.approx(checks.SELECTION_SIZE, rel=0.02)


def test_request_without_a_flavor(endpoint, manager):
    with pytest.raises(errors.BerthError, match=r"RequestSpec\.flavor is needed, but was not sent"):
        endpoint.select_destinations(RequestContext())
    assert manager.asked == []
