import pytest

from scheduler import errors
from scheduler.request.prefilters import host_traits
from tests.unit.request.builders import make_services, make_spec, required

ENCRYPTION = "COMPUTE_EPHEMERAL_ENCRYPTION"
TPM = "COMPUTE_SECURITY_TPM_SECRET_SECURITY"
ON = {"hw:ephemeral_encryption": "True"}
LUKS = {"hw:ephemeral_encryption_format": "luks"}


def run(prefilter, spec):
    return prefilter(spec, None, make_services())


@pytest.mark.parametrize(
    ("specs", "image", "traits"),
    [
        ({}, {}, set()),
        ({"hw:ephemeral_encryption": "False"}, {}, set()),
        ({}, {"hw_ephemeral_encryption": False}, set()),
        (ON, {}, {ENCRYPTION}),
        ({}, {"hw_ephemeral_encryption": True}, {ENCRYPTION}),
        ({**ON, **LUKS}, {}, {ENCRYPTION, f"{ENCRYPTION}_LUKS"}),
        (ON, {"hw_ephemeral_encryption_format": "luksv2"}, {ENCRYPTION, f"{ENCRYPTION}_LUKSV2"}),
        (LUKS, {}, set()),
    ],
)
def test_ephemeral_encryption_filter(specs, image, traits):
    spec = make_spec(specs, image)
    assert run(host_traits.ephemeral_encryption_filter, spec) is bool(traits)
    assert required(spec) == traits


@pytest.mark.parametrize(
    ("specs", "image", "error"),
    [
        (
            {"hw:ephemeral_encryption": "false"},
            {"hw_ephemeral_encryption": True},
            errors.FlavorImageConflict,
        ),
        ({**ON, **LUKS}, {"hw_ephemeral_encryption_format": "luksv2"}, errors.FlavorImageConflict),
        ({**ON, "hw:ephemeral_encryption_format": "bogus"}, {}, errors.InvalidSetting),
    ],
)
def test_ephemeral_encryption_refused(specs, image, error):
    with pytest.raises(error):
        run(host_traits.ephemeral_encryption_filter, make_spec(specs, image))


def tpm(version, model=None, level=None):
    specs = {"hw:tpm_version": version, "hw:tpm_model": model, "hw:tpm_secret_security": level}
    return {key: value for key, value in specs.items() if value}


@pytest.mark.parametrize(
    ("specs", "image", "trait"),
    [
        ({}, {}, None),
        (tpm(None, level="host"), {}, None),
        (tpm(None, "tpm-tis"), {}, None),
        (tpm("2.0"), {}, "USER"),
        (tpm("1.2", "tpm-tis", "host"), {}, "HOST"),
        (tpm(None, level="deployment"), {"hw_tpm_version": "1.2", "hw_tpm_model": "tpm-tis"}, "DEPLOYMENT"),
        (tpm("2.0", level="user"), {}, "USER"),
    ],
)
def test_tpm_secret_security_filter(specs, image, trait):
    spec = make_spec(specs, image)
    assert run(host_traits.tpm_secret_security_filter, spec) is bool(trait)
    assert required(spec) == ({f"{TPM}_{trait}"} if trait else set())


@pytest.mark.parametrize(
    ("specs", "image", "error"),
    [
        (tpm("2.0", level="bogus"), {}, errors.RequestFilterFailed),
        (tpm("3"), {}, errors.InvalidSetting),
        (tpm("1.2", "tpm-crb"), {}, errors.InvalidSetting),
        (tpm("2.0"), {"hw_tpm_version": "1.2"}, errors.FlavorImageConflict),
    ],
)
def test_tpm_refused(specs, image, error):
    with pytest.raises(error):
        run(host_traits.tpm_secret_security_filter, make_spec(specs, image))
