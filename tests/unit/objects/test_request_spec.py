import pytest

from scheduler import errors, objects
from tests.support.wire_examples import spec


def request(**values):
    values.setdefault("flavor", objects.Flavor(vcpus=2, memory_mb=512, root_gb=1, ephemeral_gb=3, swap=64))
    return objects.RequestSpec(**values)


def test_amounts_are_the_flavor_s():
    asked = request()
    assert [asked.vcpus, asked.memory_mb, asked.root_gb, asked.ephemeral_gb, asked.swap] == [2, 512, 1, 3, 64]


def test_amounts_without_a_flavor():
    with pytest.raises(objects.MissingField, match=r"RequestSpec\.flavor"):
        _ = objects.RequestSpec().vcpus


def test_unset_fields_read_as_their_defaults():
    asked = objects.RequestSpec()
    assert list(asked.security_groups) == []
    assert list(asked.requested_networks) == []
    assert asked.network_metadata.physnets == set()
    assert asked.network_metadata.tunneled is False
    assert asked.is_bfv is False
    assert asked.num_instances == 1
    with pytest.raises(objects.MissingField):
        _ = asked.instance_uuid


@pytest.mark.parametrize(
    "name",
    ["image", "scheduler_hints", "requested_resources", "requested_destination", "instance_group", "limits"],
)
def test_unset_nullable_field_reads_as_none_and_stays_unset(name):
    asked = objects.RequestSpec()
    assert getattr(asked, name) is None
    assert name not in asked


def test_defaults_of_objects_stay():
    asked = objects.RequestSpec()
    asked.root_required.add("T")
    assert asked.root_required == {"T"}
    assert asked.root_forbidden == set()
    assert asked.same_subtree == []


@pytest.mark.parametrize(
    ("hints", "value"),
    [
        (None, "default"),
        ({}, "default"),
        ({"a": ["x"]}, "x"),
        ({"a": ["x", "y"]}, ["x", "y"]),
        ({"a": []}, []),
    ],
)
def test_scheduler_hint(hints, value):
    assert request(scheduler_hints=hints).get_scheduler_hint("a", "default") == value


def test_hint_of_a_request_without_hints():
    assert request().get_scheduler_hint("a") is None
    assert request().get_scheduler_hint("a", ["x"]) == "x"


@pytest.mark.parametrize(
    ("hints", "rebuild"),
    [
        (None, False),
        ({}, False),
        ({"_nova_check_type": ["rebuild"]}, True),
        ({"_nova_check_type": ["rebuild", "x"]}, False),
        ({"_nova_check_type": ["x"]}, False),
    ],
)
def test_is_rebuild(hints, rebuild):
    assert request(scheduler_hints=hints, force_hosts=["h"]).is_rebuild is rebuild


@pytest.mark.parametrize(
    "forced", [{}, {"force_hosts": None}, {"force_hosts": []}, {"force_nodes": ["n"]}], ids=str
)
def test_the_rebuild_hint_without_a_forced_host_is_no_rebuild(forced):
    assert request(scheduler_hints={"_nova_check_type": ["rebuild"]}, **forced).is_rebuild is False


def test_examples_of_rebuild():
    assert objects.hydrate(spec("rebuild_check_current_host")).is_rebuild
    assert not objects.hydrate(spec("resize_same_cell")).is_rebuild
    assert not request().is_rebuild


@pytest.mark.parametrize(
    ("groups", "maps", "mapping"),
    [
        (None, False, None),
        ([], False, {}),
        ([objects.RequestGroup(requester_id="a", provider_uuids=["u"])], True, {"a": ["u"]}),
    ],
)
def test_request_groups(groups, maps, mapping):
    asked = request(requested_resources=groups)
    assert asked.maps_requested_resources is maps
    assert asked.get_request_group_mapping() == mapping


def test_request_groups_unset():
    assert request().get_request_group_mapping() is None


def test_num_instances_null_is_one():
    bad = spec("boot_two_instances")
    bad["nova_object.data"]["num_instances"] = None
    assert objects.hydrate(bad).num_instances == 1


def test_flavor_null_is_refused():
    bad = spec("boot_two_instances")
    bad["nova_object.data"]["flavor"] = None
    with pytest.raises(errors.InvalidRequest, match=r"RequestSpec\.flavor"):
        objects.hydrate(bad)


def test_pre_filters_of_operators_may_add_to_groups_and_destinations():
    group = objects.RequestGroup()
    for rclass, amount in (("VGPU", "2"), ("CUSTOM_X", 1), ("BOGUS", 1), ("VCPU", -1), ("PCPU", "many")):
        group.add_resource(rclass, amount)
    for trait, kind in (("HW_A", "required"), ("HW_B", "forbidden"), ("HW_C", "wanted")):
        group.add_trait(trait, kind)
    assert group.resources == {"VGPU": 2, "CUSTOM_X": 1}
    assert (group.required_traits, group.forbidden_traits) == ({"HW_A"}, {"HW_B"})
    assert objects.RequestGroup().resources == {}
    destination = objects.Destination()
    destination.require_aggregates(["a", "b"])
    destination.require_aggregates(["c"])
    destination.append_forbidden_aggregates({"d"})
    destination.append_forbidden_aggregates({"e"})
    assert destination.aggregates == ["a,b", "c"]
    assert destination.forbidden_aggregates == {"d", "e"}


@pytest.mark.parametrize(
    ("alternatives", "migratable"),
    [
        ([{"live_migratable": "true"}], True),
        ([{"live_migratable": "true"}, {"vendor_id": "8086"}], False),
        ([{"live_migratable": "false"}], False),
        ([], True),
    ],
)
def test_devices_that_can_be_migrated_live(alternatives, migratable):
    assert objects.InstancePCIRequest(spec=alternatives).is_live_migratable() is migratable
    assert objects.InstancePCIRequest().is_live_migratable() is False
    assert objects.InstancePCIRequests(requests=[]).neutron_requests() is True
