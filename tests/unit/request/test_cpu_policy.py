from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import errors
from scheduler.request import cpu_policy
from scheduler.request.flavor_and_image import FlavorAndImage
from tests.unit.request.builders import make_spec

PINNING = errors.ImageCPUPinningForbidden
UNKNOWN = errors.InvalidCPUAllocationPolicy
THREADS = errors.ImageCPUThreadPolicyForbidden


def wishes(specs=None, image=None):
    return FlavorAndImage(make_spec(specs, image, sizes={"vcpus": 4}))


def given_values(key, flavor, name, image):
    return wishes({key: flavor} if flavor else {}, {name: image} if image else {})


def outcome(function, *args):
    try:
        return function(*args)
    except errors.FlavorImageConflict as error:
        return type(error)


@pytest.mark.parametrize(
    ("flavor", "image", "error"),
    [
        ("mixed", "dedicated", PINNING),
        ("shared", "mixed", PINNING),
        ("shared", "dedicated", PINNING),
        ("bogus", None, UNKNOWN),
        ("bogus", "dedicated", UNKNOWN),
        ("dedicated", "bogus", UNKNOWN),
        (None, "bogus", UNKNOWN),
    ],
)
def test_policies_that_are_refused(flavor, image, error):
    both = given_values("hw:cpu_policy", flavor, "hw_cpu_policy", image)
    assert outcome(cpu_policy.effective_policy, both) == error


@pytest.mark.parametrize(
    ("flavor", "image", "expected"),
    [
        ("isolate", "require", THREADS),
        ("require", "prefer", THREADS),
        ("isolate", "isolate", "isolate"),
        ("prefer", "isolate", "prefer"),
    ],
)
def test_what_a_flavor_demands_of_threads_goes_before_the_image(flavor, image, expected):
    both = given_values("hw:cpu_thread_policy", flavor, "hw_cpu_thread_policy", image)
    assert outcome(cpu_policy.effective_thread_policy, both) == expected


ISOLATE_EMULATOR = {"hw:emulator_threads_policy": "isolate"}


REALTIME = {"hw:cpu_realtime": "yes"}
SHARE_EMULATOR = {"hw:emulator_threads_policy": "share"}


@pytest.mark.parametrize(
    ("specs", "image", "count"),
    [
        ({}, {}, 0),
        ({"hw:cpu_dedicated_mask": ""}, {}, 0),
        ({"hw:cpu_dedicated_mask": "0-2"}, {}, 3),
        ({"hw:cpu_dedicated_mask": "0-2", "hw:cpu_realtime_mask": "0", **REALTIME}, {}, 3),
        ({"hw:cpu_realtime_mask": "0"}, {}, 0),
        ({"hw:cpu_realtime_mask": "0", **REALTIME}, {}, 1),
        ({"hw:cpu_realtime_mask": "0", **REALTIME}, {"hw_cpu_realtime_mask": "0-1"}, 2),
        (REALTIME, {"hw_cpu_realtime_mask": "^0"}, 3),
        ({"hw:cpu_realtime_mask": "0-3", **REALTIME, **SHARE_EMULATOR}, {}, 4),
        ({**REALTIME, **ISOLATE_EMULATOR}, {}, 4),
        ({"hw:cpu_dedicated_mask": "0", **REALTIME, **ISOLATE_EMULATOR}, {}, 1),
    ],
)
def test_how_many_cpus_are_pinned(specs, image, count):
    assert len(cpu_policy.pinned_cpus(wishes(specs, image))) == count


@pytest.mark.parametrize(
    "specs",
    [
        {"hw:cpu_dedicated_mask": "0-3"},
        {"hw:cpu_dedicated_mask": "0-3", **SHARE_EMULATOR},
        {"hw:cpu_realtime_mask": "0-3", **REALTIME},
        REALTIME,
        {"hw:cpu_dedicated_mask": "0", **REALTIME},
        {"hw:cpu_dedicated_mask": "0", "hw:cpu_realtime_mask": "^0-3", **REALTIME, **SHARE_EMULATOR},
        {"hw:cpu_dedicated_mask": "0", "hw:cpu_realtime_mask": "7", **REALTIME},
        {"hw:cpu_dedicated_mask": "0", "hw:cpu_realtime_mask": "x", **REALTIME},
    ],
)
def test_not_all_cpus_can_be_pinned(specs):
    with pytest.raises(errors.InvalidSetting):
        cpu_policy.pinned_cpus(wishes(specs))


@pytest.mark.parametrize(
    ("key", "function"),
    [
        ("hw:cpu_thread_policy", cpu_policy.effective_thread_policy),
        ("hw:emulator_threads_policy", cpu_policy.emulator_policy),
    ],
)
def test_unknown_words(key, function):
    with pytest.raises(errors.InvalidSetting, match="'bogus'"):
        function(wishes({key: "bogus"}))


def test_a_mask_costs_no_memory_for_the_cpus_that_it_does_not_name():
    assert cpu_policy.parse_mask("0-3", 2**31 - 1) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "mask", ["x", "3-1", "0-999999999999", "1-2-3", "^", ",", "4", "0-4", "^0-3", "0,^0"]
)
def test_parse_mask_refuses(mask):
    with pytest.raises(errors.InvalidSetting):
        cpu_policy.parse_mask(mask, 4)


@given(st.sets(st.integers(0, 31), min_size=1, max_size=31))
def test_a_mask_and_its_complement_share_all_cpus(cpus):
    listed = ",".join(map(str, cpus))
    excluded = ",".join(f"^{cpu}" for cpu in cpus)
    assert cpu_policy.parse_mask(listed, 32) == cpus
    assert cpu_policy.parse_mask(excluded, 32) == set(range(32)) - cpus


@given(st.text("0123456789-^, ", max_size=12))
def test_any_mask_is_read_or_refused(text):
    try:
        cpus = cpu_policy.parse_mask(text, 40)
    except errors.InvalidSetting:
        return
    assert cpus
    assert cpus <= set(range(40))
