"""The properties of an image that nova understands (spec: wire-and-config 3.6)."""

from collections.abc import Mapping
from typing import Any

from scheduler.conf.filter_scheduler import ARCHITECTURES
from scheduler.objects import base, fields

ARCHITECTURE_ALIASES = {
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    "amd64": "x86_64",
}
BUSES = "fdc ide sata scsi usb virtio xen lxc uml"
HYPERVISORS = (
    "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test uml vbox vz "
    "vmware xen zvm prsm"
)
HYPERVISOR_ALIASES = {"xapi": "xen"}
SCSI_MODELS = "buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi"
SCSI_ALIASES = {"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"}
VIF_MODELS = "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet vmxnet3 igb"
VIF_ALIASES = {
    "virtuale1000": "e1000",
    "virtuale1000e": "e1000e",
    "virtualpcnet32": "pcnet",
    "virtualsriovethernetcard": "sriov",
    "virtualvmxnet": "vmxnet",
    "virtualvmxnet3": "vmxnet3",
}
VM_MODES = "hvm xen uml exe"
VM_MODE_ALIASES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}
SIGNATURE_KEYS = (
    "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 RSA-PSS"
)

_MOST_CPUS = 1 << 16

#: The properties of each type; those of few words are among the fields.
_FLAGS = (
    "hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot hw_locked_memory "
    "hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled "
    "hw_virtio_packed_ring img_bdm_v2 img_bittorrent img_cache_in_nova img_hide_hypervisor_id "
    "img_linked_clone img_use_agent os_require_quiesce os_skip_agent_inject_files_at_boot "
    "os_skip_agent_inject_ssh"
)
_NUMBERS = (
    "hw_cpu_cores hw_cpu_sockets hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_threads "
    "hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports hw_serial_port_count "
    "hw_video_ram img_compression_level img_version"
)
_TEXTS = (
    "hw_auto_disk_config hw_cpu_realtime_mask hw_disk_type hw_machine_type hw_mem_page_size img_owner_id "
    "img_root_device_name img_signature os_admin_user os_command_line os_distro"
)
_UUIDS = "hw_ephemeral_encryption_secret_uuid img_signature_certificate_uuid"
_OF_BUSES = "hw_cdrom_bus hw_disk_bus hw_floppy_bus hw_rescue_bus"

#: names that images had before the prefixes hw_, img_ and os_
LEGACY_NAMES = {
    "architecture": "hw_architecture",
    "owner_id": "img_owner_id",
    "vmware_disktype": "hw_disk_type",
    "vmware_image_version": "img_version",
    "vmware_ostype": "os_distro",
    "auto_disk_config": "hw_auto_disk_config",
    "ipxe_boot": "hw_ipxe_boot",
    "xenapi_device_id": "hw_device_id",
    "xenapi_image_compression_level": "img_compression_level",
    "vmware_linked_clone": "img_linked_clone",
    "xenapi_use_agent": "img_use_agent",
    "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
    "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
    "cache_in_nova": "img_cache_in_nova",
    "vm_mode": "hw_vm_mode",
    "bittorrent": "img_bittorrent",
    "mappings": "img_mappings",
    "block_device_mapping": "img_block_device_mapping",
    "bdm_v2": "img_bdm_v2",
    "root_device_name": "img_root_device_name",
    "hypervisor_version_requires": "img_hv_requested_version",
    "hypervisor_type": "img_hv_type",
}
_SPELT_OTHERWISE = frozenset({"hw_numa_mem", "hw_numa_cpus", "traits_required"})
_NUMA_NODES_MAX = 128


@base.register
class ImageMetaProps(base.WireObject):
    """Image properties; any of them may be unset, none is ever null."""

    VERSION = "1.44"
    fields = {
        **fields.each(_FLAGS, fields.flexible_boolean()),
        **fields.each(_NUMBERS, fields.integer()),
        **fields.each(_TEXTS, fields.text()),
        **fields.each(_UUIDS, fields.uuid()),
        **fields.each(_OF_BUSES, fields.word(BUSES)),
        "hw_architecture": fields.word(" ".join(ARCHITECTURES), ARCHITECTURE_ALIASES),
        "hw_cpu_policy": fields.word("dedicated shared mixed"),
        "hw_cpu_thread_policy": fields.word("prefer isolate require"),
        "hw_emulation_architecture": fields.word(" ".join(ARCHITECTURES), ARCHITECTURE_ALIASES),
        "hw_ephemeral_encryption_format": fields.word("plain luks luksv2"),
        "hw_firmware_type": fields.word("uefi bios"),
        "hw_input_bus": fields.word("usb virtio"),
        "hw_maxphysaddr_mode": fields.word("passthrough emulate"),
        "hw_mem_encryption_model": fields.word("amd-sev amd-sev-es amd-sev-snp intel-tdx"),
        "hw_numa_cpus": fields.list_of(fields.set_of(fields.integer())),
        "hw_numa_mem": fields.list_of(fields.integer()),
        "hw_pci_numa_affinity_policy": fields.word("required legacy preferred socket"),
        "hw_pointer_model": fields.word("usbtablet"),
        "hw_rescue_device": fields.word("cdrom disk floppy fs lun"),
        "hw_rng_model": fields.word("virtio"),
        "hw_scsi_model": fields.word(SCSI_MODELS, SCSI_ALIASES),
        "hw_sound_model": fields.word("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"),
        "hw_tpm_model": fields.word("tpm-tis tpm-crb"),
        "hw_tpm_version": fields.word("1.2 2.0"),
        "hw_usb_model": fields.word("none nec-xhci qemu-xhci"),
        "hw_video_model": fields.word("cirrus qxl vga vmvga xen virtio gop none bochs"),
        "hw_vif_model": fields.word(VIF_MODELS, VIF_ALIASES),
        "hw_viommu_model": fields.word("intel smmuv3 virtio auto"),
        "hw_vm_mode": fields.word(VM_MODES, VM_MODE_ALIASES),
        "hw_watchdog_action": fields.word("none pause poweroff reset disabled"),
        "img_block_device_mapping": fields.list_of(fields.dict_of(fields.text(nullable=True))),
        "img_config_drive": fields.word("optional mandatory"),
        "img_hv_requested_version": fields.version_predicate(),
        "img_hv_type": fields.word(HYPERVISORS, HYPERVISOR_ALIASES),
        "img_mappings": fields.list_of(fields.dict_of(fields.text(nullable=True))),
        "img_signature_hash_method": fields.word("SHA-224 SHA-256 SHA-384 SHA-512"),
        "img_signature_key_type": fields.word(SIGNATURE_KEYS),
        "os_secure_boot": fields.word("required disabled optional"),
        "os_type": fields.word("linux windows", {}),
        "traits_required": fields.list_of(fields.text()),
    }

    def get(self, name, defvalue=None):
        """Return the value of a property, or ``defvalue`` if it is unset.

        Raises:
            AttributeError: There is no property of that name.
        """
        return getattr(self, name) if self.obj_attr_is_set(name) else defvalue

    def to_dict(self) -> dict[str, Any]:
        return dict(self.set_fields())

    @classmethod
    def from_dict(cls, image_props: Mapping[str, Any]) -> "ImageMetaProps":
        """Return the properties in a dict of image metadata, also those under old names.

        Nulls and unknown names are left out.

        Raises:
            InvalidRequest: A value does not suit its property.
        """
        given = {key: value for key, value in image_props.items() if value is not None}
        props = cls()
        for name, value in _modern(given).items():
            try:
                setattr(props, name, value)
            except (ValueError, TypeError) as error:
                raise base.InvalidField(f"{cls.__name__}.{name}", error) from error
        return props


def _modern(given):
    """Return the properties in ``given`` under their present names; later sources win over earlier ones."""
    named = {LEGACY_NAMES[key]: value for key, value in given.items() if key in LEGACY_NAMES}
    named |= _disk_adapter(given.get("vmware_adaptertype"))
    named |= {k: v for k, v in given.items() if k in ImageMetaProps.fields and k not in _SPELT_OTHERWISE}
    memory = [int(value) for value in _numbered(given, "hw_numa_mem")]
    cpus = [parse_cpu_list(value) for value in _numbered(given, "hw_numa_cpus")]
    traits = [key[6:] for key, value in given.items() if key.startswith("trait:") and value == "required"]
    listed = {"hw_numa_mem": memory, "hw_numa_cpus": cpus, "traits_required": traits}
    return named | {name: value for name, value in listed.items() if value}


def _disk_adapter(adapter):
    if not adapter:
        return {}
    if adapter == "ide":
        return {"hw_disk_bus": "ide"}
    return {"hw_disk_bus": "scsi", "hw_scsi_model": adapter}


def _numbered(given, prefix):
    """Yield the values of ``prefix.0``, ``prefix.1`` ... up to the first gap."""
    for number in range(_NUMA_NODES_MAX):
        key = f"{prefix}.{number}"
        if key not in given:
            return
        yield given[key]


def parse_cpu_list(text):
    """Return the CPU numbers in a list of numbers, ranges, and exclusions marked with ``^``.

    Raises:
        InvalidField: An element is none of these, or a range runs backwards.
    """
    wanted = unwanted = 0  # as bits: a long text of wide ranges must not cost its ranges added up
    for element in str(text).split(","):
        element = element.strip()  # noqa: PLW2901 - the same element, cleaned
        if element.startswith("^"):
            unwanted |= _cpu_list_element(element[1:])
        elif element:
            wanted |= _cpu_list_element(element)
    return {cpu for cpu, bit in enumerate(reversed(f"{wanted & ~unwanted:b}")) if bit == "1"}


def _cpu_list_element(text):
    first, dash, last = text.partition("-")
    try:
        start = int(first)
        end = int(last) if dash else start
    except ValueError:
        raise base.InvalidField("CPU list", f"{text!r} is no number and no range") from None
    if not 0 <= start <= end < _MOST_CPUS:
        raise base.InvalidField("CPU list", f"{text!r} is no range of CPUs")
    return (1 << (end + 1)) - (1 << start)
