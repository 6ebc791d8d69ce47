"""Features that flavors and images request by name, as traits and resources of the unsuffixed group.

Each feature is one function (spec: placement-and-workflow 1.6). It raises when flavor and image contradict
each other; nova's API refuses such requests before they reach a scheduler.
"""

from collections import Counter
from typing import NamedTuple

import os_resource_classes

from scheduler import errors
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.groups import Group

MEMORY_ENCRYPTION = {
    "amd-sev": "HW_CPU_X86_AMD_SEV",
    "amd-sev-es": "HW_CPU_X86_AMD_SEV_ES",
    "amd-sev-snp": "HW_CPU_X86_AMD_SEV_SNP",
    "intel-tdx": "HW_CPU_X86_INTEL_TDX",
}
_STATELESS_MODELS = ("amd-sev-snp", "intel-tdx")
_TPM_VERSION = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
_TPM_MODEL = {"tpm-tis": "COMPUTE_SECURITY_TPM_TIS", "tpm-crb": "COMPUTE_SECURITY_TPM_CRB"}


def memory_encryption(group: Group, wishes: FlavorAndImage) -> None:
    """``hw:mem_encryption``, ``hw:mem_encryption_model`` and their image properties."""
    if not wishes.agreed_flag("hw:mem_encryption", "hw_mem_encryption"):
        return
    model = wishes.agreed_choice(
        "hw:mem_encryption_model", "hw_mem_encryption_model", frozenset(MEMORY_ENCRYPTION)
    )
    model = model or "amd-sev"
    _check_encryption(model, wishes)
    group.resources[os_resource_classes.MEM_ENCRYPTION_CONTEXT] = 1
    group.required.add(MEMORY_ENCRYPTION[model])


def _check_encryption(model: str, wishes: FlavorAndImage) -> None:
    if wishes.image("hw_firmware_type") != "uefi":
        raise errors.FlavorImageConflict("Memory encryption needs an image with hw_firmware_type=uefi")
    machine = wishes.image("hw_machine_type")
    if machine and "q35" not in machine:
        raise errors.InvalidMachineType(f"Memory encryption needs a q35 machine, not {machine}")
    if model in _STATELESS_MODELS and not wishes.image("hw_firmware_stateless"):
        raise errors.FlavorImageConflict(f"Memory encryption with {model} needs hw_firmware_stateless=true")
    if model == "intel-tdx" and wishes.image("hw_video_model") != "none":
        raise errors.FlavorImageConflict("Memory encryption with intel-tdx needs hw_video_model=none")


def persistent_memory(group: Group, wishes: FlavorAndImage) -> None:
    """``hw:pmem``: a comma-separated list of namespace labels."""
    labels = (label.strip() for label in wishes.extra_specs.get("hw:pmem", "").split(","))
    name = os_resource_classes.normalize_name
    group.resources.update(Counter(name(f"PMEM_NAMESPACE_{label}") for label in labels if label))


class Vtpm(NamedTuple):
    """The requested virtual TPM: version ``1.2`` or ``2.0``, model ``tpm-tis`` or ``tpm-crb``."""

    version: str
    model: str


def vtpm_of(wishes: FlavorAndImage) -> Vtpm | None:
    """Return the virtual TPM of ``hw:tpm_version`` and ``hw:tpm_model``; None unless a version is given.

    Raises:
        InvalidSetting: An unknown version or model, or a CRB model without version 2.0.
    """
    version = wishes.agreed_choice("hw:tpm_version", "hw_tpm_version", frozenset(_TPM_VERSION))
    if version is None:
        return None
    model = wishes.agreed_choice("hw:tpm_model", "hw_tpm_model", frozenset(_TPM_MODEL)) or "tpm-tis"
    if model == "tpm-crb" and version != "2.0":
        raise errors.InvalidSetting(f"A TPM of model tpm-crb has version 2.0, not {version}")
    return Vtpm(version, model)


def vtpm(group: Group, wishes: FlavorAndImage) -> None:
    """Require a virtual TPM of the version and model in flavor or image."""
    wanted = vtpm_of(wishes)
    if wanted:
        group.required.update((_TPM_VERSION[wanted.version], _TPM_MODEL[wanted.model]))


#: Words on which flavor and image agree: extra spec, image property, and the trait of each word, "" for none.
_WORDS = {
    "hw:pci_numa_affinity_policy": (
        "hw_pci_numa_affinity_policy",
        {"socket": "COMPUTE_SOCKET_PCI_NUMA_AFFINITY", "required": "", "legacy": "", "preferred": ""},
    ),
    "os:secure_boot": (
        "os_secure_boot",
        {"required": "COMPUTE_SECURITY_UEFI_SECURE_BOOT", "disabled": "", "optional": ""},
    ),
    "hw:maxphysaddr_mode": (
        "hw_maxphysaddr_mode",
        {"passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH", "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED"},
    ),
}


def words(group: Group, wishes: FlavorAndImage) -> None:
    """Require the traits that the words of flavor and image stand for."""
    for key, (_, traits) in _WORDS.items():
        if trait := traits.get(_word(wishes, key) or ""):
            group.required.add(trait)


def _word(wishes: FlavorAndImage, key: str) -> str | None:
    name, traits = _WORDS[key]
    return wishes.agreed_choice(key, name, frozenset(traits))


def pci_numa_policy(wishes: FlavorAndImage) -> str | None:
    """Return the NUMA policy of ``hw:pci_numa_affinity_policy`` for all PCI devices, or None.

    Raises:
        InvalidSetting: It is an unknown word.
        FlavorImageConflict: Flavor and image differ.
    """
    return _word(wishes, "hw:pci_numa_affinity_policy")


def stateless_firmware(group: Group, wishes: FlavorAndImage) -> None:
    """``hw_firmware_stateless`` of the image; it has no meaning without UEFI."""
    if wishes.image("hw_firmware_stateless") and wishes.image("hw_firmware_type") == "uefi":
        group.required.add("COMPUTE_SECURITY_STATELESS_FIRMWARE")


def translate(group: Group, wishes: FlavorAndImage) -> None:
    """Add what every feature of the request needs."""
    for feature in (memory_encryption, persistent_memory, vtpm, words, stateless_firmware):
        feature(group, wishes)
