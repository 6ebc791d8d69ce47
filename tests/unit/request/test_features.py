import pytest

from scheduler import errors
from scheduler.request import features
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.groups import Group
from tests.unit.request.builders import make_spec

UEFI = {"hw_firmware_type": "uefi"}
STATELESS = {**UEFI, "hw_firmware_stateless": True}
ENCRYPTED = {"hw:mem_encryption": "true"}


def encrypted(model):
    return {**ENCRYPTED, "hw:mem_encryption_model": model}


def translated(specs, image):
    group = Group()
    features.translate(group, FlavorAndImage(make_spec(specs, image)))
    return group


@pytest.mark.parametrize(
    ("specs", "image", "error"),
    [
        (ENCRYPTED, {}, errors.FlavorImageConflict),
        (ENCRYPTED, {"hw_firmware_type": "bios"}, errors.FlavorImageConflict),
        (ENCRYPTED, {**UEFI, "hw_mem_encryption": False}, errors.FlavorImageConflict),
        (ENCRYPTED, {**UEFI, "hw_machine_type": "pc-i440fx-8.2"}, errors.InvalidMachineType),
        (encrypted("amd-sev-snp"), UEFI, errors.FlavorImageConflict),
        (encrypted("intel-tdx"), STATELESS, errors.FlavorImageConflict),
        (encrypted("amd-sev"), {**UEFI, "hw_mem_encryption_model": "amd-sev-es"}, errors.FlavorImageConflict),
        (encrypted("bogus"), UEFI, errors.InvalidSetting),
        ({"os:secure_boot": "required"}, {"os_secure_boot": "disabled"}, errors.FlavorImageConflict),
        ({"os:secure_boot": "bogus"}, {}, errors.InvalidSetting),
        ({"hw:maxphysaddr_mode": "bogus"}, {}, errors.InvalidSetting),
        ({"hw:pci_numa_affinity_policy": "bogus"}, {}, errors.InvalidSetting),
        ({"hw:tpm_version": "3"}, {}, errors.InvalidSetting),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "bogus"}, {}, errors.InvalidSetting),
        ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}, errors.InvalidSetting),
    ],
)
def test_contradictions_are_refused(specs, image, error):
    with pytest.raises(error) as caught:
        translated(specs, image)
    assert type(caught.value) is error
