"""Constraints are called by the names that operators know."""

import pytest

from scheduler import objects
from scheduler.decisions.constraints import RequestNames, parts_of
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.request.query import Query
from tests.unit.filters.asking import make_spec

AGGREGATES = Aggregates(
    [
        HostAggregate(1, "u1", "racks", metadata={"availability_zone": "az1"}),
        HostAggregate(2, "u2", "halls", metadata={"availability_zone": "az1"}),
        HostAggregate(
            3, "u3", "licensed", metadata={"trait:CUSTOM_LICENSE": "required", "trait:HW_X": "required"}
        ),
        HostAggregate(4, "u4", "dev", metadata={"filter_tenant_id_1": "p"}),
    ]
)


def called(spec, *pairs):
    return [each.constraint.text for each in parts_of(Query(pairs, "", None), RequestNames(spec, AGGREGATES))]


@pytest.mark.parametrize(
    ("fields", "pair", "name"),
    [
        ({"availability_zone": "az1"}, ("member_of", "in:u1,u2"), "availability zone az1"),
        ({}, ("member_of", "in:u1,u2"), "required aggregate racks or halls"),
        ({"project_id": "p"}, ("member_of", "in:u4"), "required aggregate dev of project p"),
        ({"availability_zone": "az1"}, ("member_of", "in:gone"), "required aggregate gone"),
        (
            {},
            ("member_of", "!in:u3"),
            "forbidden aggregate licensed (isolated: for requests with trait CUSTOM_LICENSE and HW_X)",
        ),
        (
            {"extra_specs": {"trait:HW_X": "required"}},
            ("member_of", "!in:u3"),
            "forbidden aggregate licensed (isolated: for requests with trait CUSTOM_LICENSE)",
        ),
        ({"force_hosts": ["h1"]}, ("in_tree", "u"), "the forced host h1"),
        ({"force_nodes": ["n1"]}, ("in_tree", "u"), "the forced host n1"),
        (
            {"requested_destination": objects.Destination(host="h1", node="h1.example.net")},
            ("in_tree", "u"),
            "the requested destination h1",
        ),
        (
            {"force_hosts": ["ironic"], "force_nodes": ["n1"]},
            ("in_tree", "u"),
            "the forced host ironic, node n1",
        ),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_names(fields, pair, name):
    assert called(make_spec(**fields), pair) == [name]


@pytest.mark.parametrize(
    ("fields", "pair", "kind"),
    [
        ({"availability_zone": "az1"}, ("member_of", "in:u1,u2"), "availability zone"),
        ({"availability_zone": "az2"}, ("member_of", "in:u1"), "aggregate"),
        ({"availability_zone": "az1"}, ("member_of", "!in:u1"), "aggregate"),
        ({"project_id": "p"}, ("member_of", "in:u4"), "aggregate"),
        ({}, ("in_tree", "u"), "host"),
        ({}, ("root_required", "!COMPUTE_STATUS_DISABLED"), "disabled"),
        ({}, ("root_required", "OWNER_NOVA"), "trait"),
        ({}, ("resources_1", "VGPU:1"), "group"),
    ],
    ids=str,
)
def test_kinds(fields, pair, kind):
    (found,) = parts_of(Query((pair,), "", None), RequestNames(make_spec(**fields), AGGREGATES))
    assert found.kind == kind


def test_a_group_of_a_device_is_that_of_its_alias():
    device = objects.InstancePCIRequest(count=1, spec=[{}], alias_name="gpu", request_id="r-1")
    spec = make_spec(pci_requests=objects.InstancePCIRequests(requests=[device]))
    assert called(spec, ("resourcesr-1-0", "CUSTOM_PCI_1:1"), ("resources_2", "VCPU:1")) == [
        "PCI alias gpu (1 CUSTOM_PCI_1)",
        "group 2 (1 VCPU)",
    ]


@pytest.mark.parametrize(
    ("extra_specs", "image", "trait", "source"),
    [
        ({"trait:CUSTOM_A": "required"}, None, "CUSTOM_A", "flavor"),
        ({"trait:CUSTOM_A": "forbidden"}, None, "!CUSTOM_A", "flavor"),
        ({}, {"trait:CUSTOM_A": "required"}, "CUSTOM_A", "image"),
        ({}, None, "OWNER_NOVA", ""),
    ],
)
def test_a_trait_has_a_source(extra_specs, image, trait, source):
    spec = make_spec(extra_specs=extra_specs)
    if image:
        spec.image = objects.ImageMeta(properties=objects.ImageMetaProps.from_dict(image))
    names = RequestNames(spec, AGGREGATES)
    (found,) = parts_of(Query((("required", trait),), "", None), names)
    assert found.constraint.source == source
