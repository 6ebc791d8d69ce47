"""Filters on host aggregates (spec: filters-and-weighers 2.11-2.14, 2.21)."""

import pytest

from scheduler.filters.aggregate_filters import (
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateMultiTenancyIsolation,
    AggregateTypeAffinityFilter,
    AvailabilityZoneFilter,
    by_aggregates,
)
from tests.builders import make_host, make_view
from tests.unit.filters.asking import ask, host_in, make_image, make_request, why

P = "aggregate_instance_extra_specs:"


@pytest.mark.parametrize(
    ("row", "aggregates", "image", "prefix", "passes"),
    [
        (1, [], {"hw_vm_mode": "hvm"}, None, True),
        (2, [{"hw_vm_mode": "hvm"}], {"hw_vm_mode": "hvm"}, None, True),
        (3, [{"hw_vm_mode": "hvm, xen"}], {"hw_vm_mode": "xen"}, None, True),
        (4, [{"hw_vm_mode": "hvm"}], {"hw_vm_mode": "xen"}, None, False),
        (5, [{"hw_vm_mode": "hvm"}], {}, None, True),
        (6, [{"hw_vm_mode": "hvm"}], None, None, True),
        (7, [{"os_distro": "windows"}, {"os_distro": "linux"}], {"os_distro": "linux"}, None, True),
        (8, [{"os_distro": "windows,linux"}], {"os_distro": "windows,"}, None, False),
        (
            9,
            [{"hw_vm_mode": "hvm", "hw_cpu_cores": "1"}],
            {"hw_vm_mode": "hvm", "hw_cpu_cores": 2},
            None,
            False,
        ),
        (10, [{"hw_cpu_cores": "5"}], {"hw_cpu_cores": 0}, None, True),
        (11, [{"hw_qemu_guest_agent": "true"}], {"hw_qemu_guest_agent": True}, None, False),
        (12, [{"hw_qemu_guest_agent": "True"}], {"hw_qemu_guest_agent": True}, None, True),
        (13, [{"hw_qemu_guest_agent": "True"}], {"hw_qemu_guest_agent": False}, None, True),
        (14, [{"os": "linux"}], {"os_type": "linux"}, None, True),
        (15, [{"os_distro": "Windows"}], {"os_distro": "windows"}, None, False),
        (
            16,
            [{"hw_vm_mode": "hvm", "img_owner_id": "foo"}],
            {"hw_vm_mode": "hvm", "img_owner_id": "wrong"},
            ("hw", "_"),
            True,
        ),
        (17, [{"hw_vm_mode": "hvm"}], {"hw_vm_mode": "xen"}, ("hw", "_"), False),
        (18, [{"hw.os_distro": "windows"}], {"os_distro": "linux"}, ("hw", "."), True),
    ],
)
def test_image_properties(row, aggregates, image, prefix, passes):
    names = ("namespace", "separator")
    options = {
        f"aggregate_image_properties_isolation_{name}": value
        for name, value in zip(names, prefix or (), strict=False)
    }
    assert (
        ask(AggregateImagePropertiesIsolation, host_in(*aggregates), make_request(image=image), **options)
        is passes
    )


def test_image_properties_run_for_rebuilds():
    assert AggregateImagePropertiesIsolation.RUN_ON_REBUILD


def test_requests_are_not_the_place_to_warn_of_a_deprecated_option(caplog):
    options = {"aggregate_image_properties_isolation_namespace": "os"}
    ask(AggregateImagePropertiesIsolation, host_in({}), make_request(image={}), **options)
    assert not [record for record in caplog.records if record.name.startswith("nova")]


@pytest.mark.parametrize(
    ("row", "aggregates", "specs", "passes"),
    [
        ("1 empty", [], {}, True),
        ("1 not set", [], None, True),
        (2, [{"opt1": "1", "opt2": "2"}], {"opt1": "1", P + "opt2": "2"}, True),
        (3, [{"opt1": "1,3"}], {"opt1": "1", P + "opt1": "3"}, True),
        (4, [{"opt1": "1", "opt2": "2"}], {"opt1": "1", "opt2": "222"}, False),
        (5, [{"aggregate_instance_extra_specs": "1"}], {"aggregate_instance_extra_specs": "1"}, True),
        (6, [], {P + "ssd": "true"}, False),
        (7, [], {"ssd": "true"}, False),
        (8, [], {"hw:ssd": "true"}, True),
        (9, [{"ssd": "true"}], {P + "ssd": "True"}, False),
        (10, [{"ssd": "a , b"}], {P + "ssd": "b"}, True),
        (11, [{"ssd": "a,b"}], {P + "ssd": "a,b"}, False),
        (12, [{"ssd": "a"}, {"ssd": "b"}], {P + "ssd": "b"}, True),
        (13, [{"n": "2,4"}], {P + "n": ">= 3"}, True),
        (14, [{"n": "2,4"}], {P + "n": "!= 4"}, True),
        (16, [{"ssd": "x,y"}], {P + "ssd": "s!= x"}, True),
        (17, [{"a:b": "1"}], {P + "a:b": "1"}, True),
        ("numbers are looked at first", [{"n": "a,4"}], {P + "n": ">= 3"}, True),
    ],
)
def test_extra_specs(row, aggregates, specs, passes):
    assert ask(AggregateInstanceExtraSpecsFilter, host_in(*aggregates), make_request(specs)) is passes


@pytest.mark.parametrize("values", ["x", "2,x"])
def test_row_15_numbers_are_wanted_and_there_are_none(values):
    with pytest.raises(ValueError, match="could not convert"):
        ask(AggregateInstanceExtraSpecsFilter, host_in({"n": values}), make_request({P + "n": ">= 3"}))


@pytest.mark.parametrize(
    ("row", "aggregates", "project", "passes"),
    [
        (1, [], "p", True),
        (2, [{"x": "y"}], "p", True),
        (3, [{"filter_tenant_id": "p"}], "p", True),
        (4, [{"filter_tenant_id": "p, q"}], "q", True),
        (5, [{"filter_tenant_id": "q"}], "p", False),
        (6, [{"filter_tenant_id": "q", "filter_tenant_id_gr1": "p,r"}], "p", True),
        (7, [{"filter_tenant_id": "q"}, {"filter_tenant_id": "p"}], "p", True),
        (8, [{"filter_tenant_id": "q"}, {"x": "y"}], "p", False),
        (9, [{"filter_tenant_id": ""}], "p", False),
        (10, [{"filter_tenant_id": "p"}], None, False),
        (11, [{"filter_tenant_idx": "p"}], "p", True),
        (12, [{"FILTER_TENANT_ID": "q"}], "p", True),
    ],
)
def test_tenants(row, aggregates, project, passes):
    request = make_request(project_id=project)
    assert ask(AggregateMultiTenancyIsolation, host_in(*aggregates), request) is passes


@pytest.mark.parametrize(
    ("row", "aggregates", "flavor", "passes"),
    [
        (1, [], "m1.nano", True),
        (2, [{"x": "y"}], "m1.nano", True),
        (3, [{"instance_type": "m1.nano"}], "m1.nano", True),
        (4, [{"instance_type": "m1.nano"}], "m1.small", False),
        (5, [{"instance_type": "m1.nano , m1.small"}], "m1.small", True),
        (6, [{"instance_type": "m1.nano"}, {"instance_type": "m1.small"}], "m1.small", True),
        (7, [{"instance_type": ""}], "m1.nano", False),
        (8, [{"instance_type": "M1.NANO"}], "m1.nano", False),
    ],
)
def test_flavors(row, aggregates, flavor, passes):
    request = make_request(sizes={"name": flavor})
    assert ask(AggregateTypeAffinityFilter, host_in(*aggregates), request) is passes


@pytest.mark.parametrize(
    ("aggregates", "zone", "passes"),
    [
        ([{"availability_zone": "a"}], None, True),
        ([{"availability_zone": "a"}], "a", True),
        ([{"availability_zone": "a"}], "b", False),
        ([{"availability_zone": "a, b"}], "b", True),
        ([], "here", True),
        ([], "nova", False),
        ([{"availability_zone": "a"}], "here", False),
    ],
)
def test_zones(aggregates, zone, passes):
    request = make_request(availability_zone=zone)
    options = {"_default_availability_zone": "here"}
    assert ask(AvailabilityZoneFilter, host_in(*aggregates), request, **options) is passes


def test_each_set_of_aggregates_is_judged_once():
    hosts = [make_host(f"h{n}").aggregate("big" if n % 2 else "small", size=str(n % 2)) for n in range(6)]
    seen = []
    judge = by_aggregates(lambda aggregates: seen.append(aggregates) or "")
    assert judge.passes(make_view(hosts)).tolist() == [True] * 6
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("rule", "aggregate", "request_fields", "reason"),
    [
        (
            AggregateImagePropertiesIsolation,
            {"os_distro": "a,b"},
            {"image": make_image({"os_distro": "c"})},
            "image os_distro=c, aggregates allow ['a', 'b']",
        ),
        (AggregateInstanceExtraSpecsFilter, {}, {"extra_specs": {"ssd": "1"}}, "no aggregate defines ssd"),
        (
            AggregateInstanceExtraSpecsFilter,
            {"ssd": "2"},
            {"extra_specs": {"ssd": "1"}},
            "aggregate ssd=['2'] does not satisfy '1'",
        ),
        (
            AggregateMultiTenancyIsolation,
            {"filter_tenant_id": "q"},
            {},
            "aggregates reserved for other projects",
        ),
        (AggregateTypeAffinityFilter, {"instance_type": "a"}, {}, "flavor m1 not among ['a']"),
        (
            AvailabilityZoneFilter,
            {"availability_zone": "a"},
            {"availability_zone": "b"},
            "zone b wanted, host is in ['a']",
        ),
    ],
)
def test_reasons(rule, aggregate, request_fields, reason):
    assert why(rule, host_in(aggregate), make_request(**request_fields)) == reason
