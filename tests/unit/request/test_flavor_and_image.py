import pytest

from scheduler import errors, objects
from scheduler.request.flavor_and_image import FlavorAndImage
from tests.unit.request.builders import make_flavor, make_spec

CONFLICT = errors.FlavorImageConflict


def wishes(flavor=None, image=None):
    specs = {} if flavor is None else {"hw:x": flavor}
    return FlavorAndImage(make_spec(specs, {} if image is None else image))


@pytest.mark.parametrize(
    ("flavor", "image", "expected"),
    [
        (None, None, None),
        ("uefi", None, "uefi"),
        (None, "uefi", "uefi"),
        ("uefi", "uefi", "uefi"),
        ("", "uefi", "uefi"),
        ("bios", "uefi", CONFLICT),
    ],
)
def test_agreed(flavor, image, expected):
    both = wishes(flavor, image and {"hw_firmware_type": image})
    if expected is CONFLICT:
        with pytest.raises(CONFLICT, match=r"hw:x=bios.*hw_firmware_type=uefi"):
            both.agreed("hw:x", "hw_firmware_type")
    else:
        assert both.agreed("hw:x", "hw_firmware_type") == expected


def test_agreed_choice_refuses_other_words():
    with pytest.raises(errors.InvalidSetting, match="'efi'"):
        wishes("efi").agreed_choice("hw:x", "hw_firmware_type", frozenset({"uefi"}))


@pytest.mark.parametrize("image", [None, objects.ImageMeta()])
def test_an_image_may_be_missing_or_have_no_properties(image):
    assert FlavorAndImage(objects.RequestSpec(flavor=make_flavor(), image=image)).image("hw_disk_bus") is None


def test_extra_specs_may_be_unset():
    spec = objects.RequestSpec(flavor=objects.Flavor(vcpus=1))
    assert FlavorAndImage(spec).extra_specs == {}
