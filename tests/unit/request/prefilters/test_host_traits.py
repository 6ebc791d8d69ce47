import pytest

from scheduler import objects
from scheduler.request.prefilters import host_traits
from tests.unit.request.builders import make_conf, make_flavor, make_services, make_spec, required

TYPE = "query_placement_for_image_type_support"
METADATA = "image_metadata_prefilter"


def run(prefilter, spec, *switches):
    return prefilter(spec, None, make_services(make_conf(*switches)))


@pytest.mark.parametrize(
    ("switch", "is_bfv", "disk_format", "trait"),
    [
        (None, False, "raw", None),
        (TYPE, True, "raw", None),
        (TYPE, False, "raw", "COMPUTE_IMAGE_TYPE_RAW"),
        (TYPE, False, "QcOw2", "COMPUTE_IMAGE_TYPE_QCOW2"),
        (TYPE, False, "danformat", None),
        (TYPE, False, "", None),
        (TYPE, False, None, None),
    ],
)
def test_require_image_type_support(switch, is_bfv, disk_format, trait, caplog):
    spec = make_spec(is_bfv=is_bfv, disk_format=disk_format)
    assert run(host_traits.require_image_type_support, spec, switch) is (trait is not None)
    assert required(spec) == ({trait} if trait else set())
    assert ("COMPUTE_IMAGE_TYPE_DANFORMAT" in caplog.text) == (disk_format == "danformat")


def test_is_bfv_unset_counts_as_local_disk():
    spec = make_spec(disk_format="iso")
    run(host_traits.require_image_type_support, spec, TYPE)
    assert required(spec) == {"COMPUTE_IMAGE_TYPE_ISO"}


def test_dashes_of_values_are_underscores_of_traits():
    spec = make_spec(image={"hw_vif_model": "spapr-vlan"})
    run(host_traits.transform_image_metadata, spec, METADATA)
    assert required(spec) == {"COMPUTE_NET_VIF_MODEL_SPAPR_VLAN"}


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"hw_disk_bus": "virtio", "hw_architecture": "armv7l"}, "HW_ARCH_ARMV7L"),
        ({"hw_emulation_architecture": "i686"}, "COMPUTE_ARCH_I686"),
        ({"hw_disk_bus": "virtio", "hw_viommu_model": "intel"}, "COMPUTE_VIOMMU_INTEL"),
    ],
)
def test_one_value_without_trait_drops_all(properties, named, caplog):
    spec = make_spec(image=properties)
    assert run(host_traits.transform_image_metadata, spec, METADATA) is False
    assert required(spec) == set()
    assert named in caplog.text


@pytest.mark.parametrize(
    "prefilter", [host_traits.require_image_type_support, host_traits.transform_image_metadata]
)
@pytest.mark.parametrize("no_image", [None, objects.ImageMeta()])
def test_no_image(prefilter, no_image):
    spec = objects.RequestSpec(flavor=make_flavor(), image=no_image)
    run(prefilter, spec, TYPE, METADATA)
    assert spec.root_required == set()
