"""Filters on host aggregates (spec: filters-and-weighers 2.11-2.14, 2.21).

Most of their verdicts are compared with those of nova in tests/recorded.
"""

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
    ("aggregate", "image", "separator", "passes"),
    [
        (
            {"hw_vm_mode": "hvm", "img_owner_id": "foo"},
            {"hw_vm_mode": "hvm", "img_owner_id": "wrong"},
            "_",
            True,
        ),
        ({"hw_vm_mode": "hvm"}, {"hw_vm_mode": "xen"}, "_", False),
        ({"hw.os_distro": "windows"}, {"os_distro": "linux"}, ".", True),
    ],
    ids=["another namespace", "the namespace", "another separator"],
)
def test_only_image_properties_of_a_namespace_count(aggregate, image, separator, passes):
    options = {
        "aggregate_image_properties_isolation_namespace": "hw",
        "aggregate_image_properties_isolation_separator": separator,
    }
    request = make_request(image=image)
    assert ask(AggregateImagePropertiesIsolation, host_in(aggregate), request, **options) is passes


def test_image_properties_run_for_rebuilds():
    assert AggregateImagePropertiesIsolation.RUN_ON_REBUILD


def test_requests_are_not_the_place_to_warn_of_a_deprecated_option(caplog):
    options = {"aggregate_image_properties_isolation_namespace": "os"}
    ask(AggregateImagePropertiesIsolation, host_in({}), make_request(image={}), **options)
    assert not [record for record in caplog.records if record.name.startswith("nova")]


def test_of_values_of_metadata_numbers_are_looked_at_first():
    assert ask(AggregateInstanceExtraSpecsFilter, host_in({"n": "a,4"}), make_request({P + "n": ">= 3"}))


@pytest.mark.parametrize("values", ["x", "2,x"])
def test_row_15_numbers_are_wanted_and_there_are_none(values):
    with pytest.raises(ValueError, match="could not convert"):
        ask(AggregateInstanceExtraSpecsFilter, host_in({"n": values}), make_request({P + "n": ">= 3"}))


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
