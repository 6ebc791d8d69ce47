import pytest

from scheduler import errors
from scheduler.request.prefilters import aggregates
from tests.unit.request.builders import (
    make_aggregate,
    make_conf,
    make_group,
    make_level_params,
    make_services,
    make_spec,
)

LIMIT = "limit_tenants_to_placement_aggregate"
REQUIRED = "placement_aggregate_required_for_tenants"
ISOLATE = "enable_isolated_aggregate_filtering"

NO_DESTINATION = None


def asked(spec):
    """Required and forbidden aggregates, or None if there is no destination."""
    destination = spec.requested_destination
    return destination and (destination.aggregates, destination.forbidden_aggregates)


def run(prefilter, spec, known, *switches):
    return prefilter(spec, None, make_services(make_conf(*switches), aggregates=known))


TENANT_CASES = [
    ("off", [make_aggregate("a1", filter_tenant_id="p")], (), NO_DESTINATION),
    (
        "any of those that name the project",
        [
            make_aggregate("a1", filter_tenant_id="p"),
            make_aggregate("a2", **{"filter_tenant_id:12": "p"}),
            make_aggregate("a3", other="p"),
        ],
        (LIMIT,),
        (["a1,a2"], None),
    ),
    ("no comma splitting", [make_aggregate("a1", filter_tenant_id="p,q")], (LIMIT,), NO_DESTINATION),
    (
        "value of another key",
        [make_aggregate("a1", filter_tenant_id="q", owner="p")],
        (LIMIT,),
        NO_DESTINATION,
    ),
    ("prefix of a key", [make_aggregate("a1", filter_tenant_idx="p")], (LIMIT,), (["a1"], None)),
    ("none, not required", [], (LIMIT,), NO_DESTINATION),
    ("without uuid", [make_aggregate(None, filter_tenant_id="p")], (LIMIT,), NO_DESTINATION),
    (
        "found although required",
        [make_aggregate("a1", filter_tenant_id="p")],
        (LIMIT, REQUIRED),
        (["a1"], None),
    ),
    ("required but off", [], (REQUIRED,), NO_DESTINATION),
]


@pytest.mark.parametrize(
    ("known", "switches", "expected"),
    [case[1:] for case in TENANT_CASES],
    ids=[case[0] for case in TENANT_CASES],
)
def test_require_tenant_aggregate(known, switches, expected):
    spec = make_spec()
    assert run(aggregates.require_tenant_aggregate, spec, known, *switches) is (LIMIT in switches)
    assert asked(spec) == expected


def test_tenant_without_aggregate():
    with pytest.raises(errors.RequestFilterFailed) as caught:
        run(aggregates.require_tenant_aggregate, make_spec(), [], LIMIT, REQUIRED)
    assert caught.value.reason == "Scheduling failed: No hosts available for tenant"


ZONES = [
    make_aggregate("a1", availability_zone="z"),
    make_aggregate("a2", availability_zone="z"),
    make_aggregate("a3", availability_zone="y"),
    make_aggregate("a4", availability_zone="z,y"),
]


@pytest.mark.parametrize(
    ("zone", "expected", "word"),
    [
        (None, NO_DESTINATION, False),
        ("", NO_DESTINATION, False),
        ("z", (["a1,a2"], None), True),
        ("y", (["a3"], None), True),
        ("Z", NO_DESTINATION, True),
        ("nova", NO_DESTINATION, True),
    ],
)
def test_map_az_to_placement_aggregate(zone, expected, word):
    spec = make_spec(availability_zone=zone)
    assert run(aggregates.map_az_to_placement_aggregate, spec, ZONES) is word
    assert asked(spec) == expected


def test_restrictions_add_up():
    spec = make_spec(availability_zone="z")
    run(aggregates.map_az_to_placement_aggregate, spec, ZONES)
    run(aggregates.require_tenant_aggregate, spec, [make_aggregate("t", filter_tenant_id="p")], LIMIT)
    assert asked(spec) == (["a1,a2", "t"], None)


WIN = make_aggregate("w", trait__CUSTOM_WIN="required")
WIN_X = make_aggregate("wx", trait__CUSTOM_WIN="required", trait__CUSTOM_X="required")
NOT_X = make_aggregate("f", trait__CUSTOM_X="forbidden")
SECURE = make_aggregate("sb", trait__COMPUTE_SECURITY_UEFI_SECURE_BOOT="required")
FLAVOR_WIN = {"trait:CUSTOM_WIN": "required"}

ISOLATION_CASES = [
    ("no traits", WIN, make_spec(), {"w"}),
    ("flavor", WIN, make_spec(FLAVOR_WIN), None),
    ("image", WIN, make_spec(image={"traits_required": ["CUSTOM_WIN"]}), None),
    ("flavor forbids", WIN, make_spec({"trait:CUSTOM_WIN": "forbidden"}), {"w"}),
    ("not all traits", WIN_X, make_spec(FLAVOR_WIN), {"wx"}),
    ("flavor and image", WIN_X, make_spec(FLAVOR_WIN, {"traits_required": ["CUSTOM_X"]}), None),
    ("granular", WIN, make_spec({"trait1:CUSTOM_WIN": "required", "resources1:VCPU": "1"}), None),
    ("external group", WIN, make_spec(requested_resources=[make_group("p", {"A": 1}, "CUSTOM_WIN")]), None),
    ("forbidden trait", NOT_X, make_spec(), None),
    ("translated feature", SECURE, make_spec({"os:secure_boot": "required"}), None),
    ("root", WIN, make_spec(request_level_params=make_level_params(root_required={"CUSTOM_WIN"})), {"w"}),
    ("null image", WIN, make_spec(image=None), {"w"}),
]


@pytest.mark.parametrize(
    ("aggregate", "spec", "expected"),
    [case[1:] for case in ISOLATION_CASES],
    ids=[case[0] for case in ISOLATION_CASES],
)
def test_isolate_aggregates(aggregate, spec, expected):
    spec = spec.obj_clone()
    assert run(aggregates.isolate_aggregates, spec, [aggregate], ISOLATE) is True
    assert asked(spec) == (expected and (None, expected))


def test_isolation_is_off_by_default():
    spec = make_spec()
    assert run(aggregates.isolate_aggregates, spec, [WIN]) is False
    assert asked(spec) is NO_DESTINATION
