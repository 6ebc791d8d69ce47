from scheduler.objects import ImageMeta, ImageMetaProps
from scheduler.weights.image_props import ImagePropertiesWeigher
from tests.builders import make_host
from tests.unit.weights.weighing import make_request, totals

ON = {"image_props_weight_multiplier": 1.0}


def hosts():
    return [
        make_host("h1").holding("i1", os_distro="windows", hw_machine_type="pc"),
        make_host("h2")
        .holding("i2", os_distro="linux")
        .holding("i3", os_distro="linux", hw_machine_type="pc"),
        make_host("h3"),
    ]


def request(**properties):
    wanted = properties or {"os_distro": "linux", "hw_machine_type": "pc"}
    return make_request(image=ImageMeta(properties=ImageMetaProps(**wanted)))


def test_switched_off_by_the_option_whatever_aggregates_say():
    placed = [host.aggregate("a", image_props_weight_multiplier="5") for host in hosts()]
    assert set(totals([ImagePropertiesWeigher], placed, request()).values()) == {0}


def test_stored_texts_are_compared_as_the_types_that_images_have():
    placed = [make_host("h1").holding("i1", hw_qemu_guest_agent="yes"), make_host("h2")]
    found = totals([ImagePropertiesWeigher], placed, request(hw_qemu_guest_agent=True), **ON)
    assert found == {"h1": 1.0, "h2": 0}
