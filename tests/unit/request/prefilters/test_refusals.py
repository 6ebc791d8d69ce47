"""What pre-filters refuse; what they change in a request is compared with nova in tests/recorded."""

import pytest

from scheduler import errors
from scheduler.request.prefilters import aggregates, host_traits
from tests.unit.request.builders import make_conf, make_services, make_spec, required

CONFLICT, INVALID = errors.FlavorImageConflict, errors.InvalidSetting
RING, SOUND = host_traits.packed_virtqueue_filter, host_traits.virtio_sound_filter
ENCRYPTION, TPM = host_traits.ephemeral_encryption_filter, host_traits.tpm_secret_security_filter
ON = {"hw:ephemeral_encryption": "True"}
LUKS = {"hw:ephemeral_encryption_format": "luks"}


def tpm(version, model=None, level=None):
    specs = {"hw:tpm_version": version, "hw:tpm_model": model, "hw:tpm_secret_security": level}
    return {key: value for key, value in specs.items() if value}


@pytest.mark.parametrize(
    ("prefilter", "specs", "image", "error"),
    [
        (RING, {"hw:virtio_packed_ring": "true"}, {"hw_virtio_packed_ring": False}, CONFLICT),
        (SOUND, {"hw:sound_model": "virtio"}, {"hw_sound_model": "ich6"}, CONFLICT),
        (SOUND, {"hw:sound_model": "bogus"}, {}, INVALID),
        (ENCRYPTION, {"hw:ephemeral_encryption": "false"}, {"hw_ephemeral_encryption": True}, CONFLICT),
        (ENCRYPTION, ON | LUKS, {"hw_ephemeral_encryption_format": "luksv2"}, CONFLICT),
        (ENCRYPTION, ON | {"hw:ephemeral_encryption_format": "bogus"}, {}, INVALID),
        (TPM, tpm("2.0", level="bogus"), {}, errors.RequestFilterFailed),
        (TPM, tpm("3"), {}, INVALID),
        (TPM, tpm("1.2", "tpm-crb"), {}, INVALID),
        (TPM, tpm("2.0"), {"hw_tpm_version": "1.2"}, CONFLICT),
    ],
)
def test_contradictions_and_unknown_words(prefilter, specs, image, error):
    with pytest.raises(error):
        prefilter(make_spec(specs, image), None, make_services())


def test_a_project_without_an_aggregate():
    switches = "limit_tenants_to_placement_aggregate", "placement_aggregate_required_for_tenants"
    with pytest.raises(errors.RequestFilterFailed) as caught:
        aggregates.require_tenant_aggregate(make_spec(), None, make_services(make_conf(*switches)))
    assert caught.value.reason == "Scheduling failed: No hosts available for tenant"


@pytest.mark.parametrize("prefilter", [host_traits.accelerators_filter, RING, SOUND])
def test_no_image_is_no_refusal(prefilter):
    spec = make_spec(image=None)
    spec.image = None
    prefilter(spec, None, make_services())
    assert required(spec) == set()
