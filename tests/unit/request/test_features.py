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


def encryption(trait, *more):
    return Group({"MEM_ENCRYPTION_CONTEXT": 1}, {trait, *more})


TPM_2_TIS = Group(required={"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"})
FIRMWARE = "COMPUTE_SECURITY_STATELESS_FIRMWARE"
SEV = "HW_CPU_X86_AMD_SEV"


@pytest.mark.parametrize(
    ("specs", "image", "group"),
    [
        ({}, {}, Group()),
        ({}, UEFI, Group()),
        (ENCRYPTED, UEFI, encryption(SEV)),
        ({}, {**UEFI, "hw_mem_encryption": True}, encryption(SEV)),
        ({"hw:mem_encryption": "false"}, UEFI, Group()),
        (ENCRYPTED, {**UEFI, "hw_machine_type": "pc-q35-8.2"}, encryption(SEV)),
        (encrypted("amd-sev-es"), UEFI, encryption("HW_CPU_X86_AMD_SEV_ES")),
        (encrypted("amd-sev-snp"), STATELESS, encryption("HW_CPU_X86_AMD_SEV_SNP", FIRMWARE)),
        (
            encrypted("intel-tdx"),
            {**STATELESS, "hw_video_model": "none"},
            encryption("HW_CPU_X86_INTEL_TDX", FIRMWARE),
        ),
        (
            {"hw:pmem": "a, b-c,a,,"},
            {},
            Group({"CUSTOM_PMEM_NAMESPACE_A": 2, "CUSTOM_PMEM_NAMESPACE_B_C": 1}),
        ),
        ({"hw:tpm_version": "2.0"}, {}, TPM_2_TIS),
        ({}, {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-tis"}, TPM_2_TIS),
        ({"hw:tpm_model": "tpm-tis"}, {}, Group()),
        ({"hw:pci_numa_affinity_policy": "required"}, {}, Group()),
        (
            {},
            {"hw_pci_numa_affinity_policy": "socket"},
            Group(required={"COMPUTE_SOCKET_PCI_NUMA_AFFINITY"}),
        ),
        ({"os:secure_boot": "optional"}, {}, Group()),
        ({}, {"os_secure_boot": "required"}, Group(required={"COMPUTE_SECURITY_UEFI_SECURE_BOOT"})),
        (
            {"hw:maxphysaddr_mode": "passthrough"},
            {},
            Group(required={"COMPUTE_ADDRESS_SPACE_PASSTHROUGH"}),
        ),
        ({}, STATELESS, Group(required={FIRMWARE})),
        ({}, {"hw_firmware_stateless": True}, Group()),
        ({}, {"hw_firmware_stateless": True, "hw_firmware_type": "bios"}, Group()),
    ],
)
def test_translate(specs, image, group):
    assert translated(specs, image) == group


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
