import pytest

from scheduler import errors
from scheduler.request.prefilters import host_traits
from tests.unit.request.builders import make_services, make_spec, required

RING = "COMPUTE_NET_VIRTIO_PACKED"
SOUND = "COMPUTE_SOUND_MODEL_VIRTIO"


def run(prefilter, spec):
    return prefilter(spec, None, make_services())


@pytest.mark.parametrize(
    ("specs", "traits"),
    [
        ({}, set()),
        ({"accel:device_profile": "mydp"}, {"COMPUTE_ACCELERATORS"}),
        ({"accel:device_profile": ""}, set()),
    ],
)
def test_accelerators_filter(specs, traits):
    spec = make_spec(specs)
    assert run(host_traits.accelerators_filter, spec) is True
    assert required(spec) == traits


@pytest.mark.parametrize(
    ("flavor", "image", "traits"),
    [
        (None, None, set()),
        *[(text, None, {RING}) for text in ("true", "yes", "1", "on", "t", "y", "TRUE")],
        (None, True, {RING}),
        ("true", True, {RING}),
        ("false", None, set()),
        ("junk", None, set()),
        ("junk", False, set()),
        (None, False, set()),
    ],
)
def test_packed_virtqueue_filter(flavor, image, traits):
    spec = make_spec(
        {} if flavor is None else {"hw:virtio_packed_ring": flavor},
        {} if image is None else {"hw_virtio_packed_ring": image},
    )
    assert run(host_traits.packed_virtqueue_filter, spec) is True
    assert required(spec) == traits


@pytest.mark.parametrize(
    ("flavor", "image", "traits"),
    [
        (None, None, set()),
        ("virtio", None, {SOUND}),
        (None, "virtio", {SOUND}),
        ("virtio", "virtio", {SOUND}),
        ("ich9", None, set()),
    ],
)
def test_virtio_sound_filter(flavor, image, traits):
    spec = make_spec({"hw:sound_model": flavor} if flavor else {}, {"hw_sound_model": image} if image else {})
    assert run(host_traits.virtio_sound_filter, spec) is bool(traits)
    assert required(spec) == traits


@pytest.mark.parametrize(
    ("prefilter", "specs", "image", "error"),
    [
        (
            host_traits.packed_virtqueue_filter,
            {"hw:virtio_packed_ring": "true"},
            {"hw_virtio_packed_ring": False},
            errors.FlavorImageConflict,
        ),
        (
            host_traits.virtio_sound_filter,
            {"hw:sound_model": "virtio"},
            {"hw_sound_model": "ich6"},
            errors.FlavorImageConflict,
        ),
        (host_traits.virtio_sound_filter, {"hw:sound_model": "bogus"}, {}, errors.InvalidSetting),
    ],
)
def test_refused(prefilter, specs, image, error):
    with pytest.raises(error):
        run(prefilter, make_spec(specs, image))


@pytest.mark.parametrize(
    "prefilter",
    [host_traits.accelerators_filter, host_traits.packed_virtqueue_filter, host_traits.virtio_sound_filter],
)
def test_null_image(prefilter):
    spec = make_spec(image=None)
    spec.image = None
    run(prefilter, spec)
    assert required(spec) == set()
