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

#: names that images had before the prefixes hw_, img_ and os_
_MOST_CPUS = 1 << 16

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
        "hw_architecture": fields.word(" ".join(ARCHITECTURES), ARCHITECTURE_ALIASES),
        "hw_auto_disk_config": fields.text(),
        "hw_boot_menu": fields.flexible_boolean(),
        "hw_cdrom_bus": fields.word(BUSES),
        "hw_cpu_cores": fields.integer(),
        "hw_cpu_sockets": fields.integer(),
        "hw_cpu_max_cores": fields.integer(),
        "hw_cpu_max_sockets": fields.integer(),
        "hw_cpu_max_threads": fields.integer(),
        "hw_cpu_threads": fields.integer(),
        "hw_cpu_policy": fields.word("dedicated shared mixed"),
        "hw_cpu_thread_policy": fields.word("prefer isolate require"),
        "hw_cpu_realtime_mask": fields.text(),
        "hw_device_id": fields.integer(),
        "hw_disk_bus": fields.word(BUSES),
        "hw_disk_type": fields.text(),
        "hw_emulation_architecture": fields.word(" ".join(ARCHITECTURES), ARCHITECTURE_ALIASES),
        "hw_ephemeral_encryption": fields.flexible_boolean(),
        "hw_ephemeral_encryption_format": fields.word("plain luks luksv2"),
        "hw_ephemeral_encryption_secret_uuid": fields.uuid(),
        "hw_firmware_stateless": fields.flexible_boolean(),
        "hw_firmware_type": fields.word("uefi bios"),
        "hw_floppy_bus": fields.word(BUSES),
        "hw_input_bus": fields.word("usb virtio"),
        "hw_ipxe_boot": fields.flexible_boolean(),
        "hw_locked_memory": fields.flexible_boolean(),
        "hw_machine_type": fields.text(),
        "hw_maxphysaddr_bits": fields.integer(),
        "hw_maxphysaddr_mode": fields.word("passthrough emulate"),
        "hw_mem_encryption": fields.flexible_boolean(),
        "hw_mem_encryption_model": fields.word("amd-sev amd-sev-es amd-sev-snp intel-tdx"),
        "hw_mem_page_size": fields.text(),
        "hw_numa_nodes": fields.integer(),
        "hw_numa_cpus": fields.list_of(fields.set_of(fields.integer())),
        "hw_numa_mem": fields.list_of(fields.integer()),
        "hw_pci_numa_affinity_policy": fields.word("required legacy preferred socket"),
        "hw_pmu": fields.flexible_boolean(),
        "hw_pointer_model": fields.word("usbtablet"),
        "hw_qemu_guest_agent": fields.flexible_boolean(),
        "hw_redirected_usb_ports": fields.integer(),
        "hw_rescue_bus": fields.word(BUSES),
        "hw_rescue_device": fields.word("cdrom disk floppy fs lun"),
        "hw_rng_model": fields.word("virtio"),
        "hw_scsi_model": fields.word(SCSI_MODELS, SCSI_ALIASES),
        "hw_serial_port_count": fields.integer(),
        "hw_sound_model": fields.word("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"),
        "hw_time_hpet": fields.flexible_boolean(),
        "hw_tpm_model": fields.word("tpm-tis tpm-crb"),
        "hw_tpm_version": fields.word("1.2 2.0"),
        "hw_usb_model": fields.word("none nec-xhci qemu-xhci"),
        "hw_video_model": fields.word("cirrus qxl vga vmvga xen virtio gop none bochs"),
        "hw_video_ram": fields.integer(),
        "hw_vif_model": fields.word(VIF_MODELS, VIF_ALIASES),
        "hw_vif_multiqueue_enabled": fields.flexible_boolean(),
        "hw_viommu_model": fields.word("intel smmuv3 virtio auto"),
        "hw_virtio_packed_ring": fields.flexible_boolean(),
        "hw_vm_mode": fields.word(VM_MODES, VM_MODE_ALIASES),
        "hw_watchdog_action": fields.word("none pause poweroff reset disabled"),
        "img_bdm_v2": fields.flexible_boolean(),
        "img_bittorrent": fields.flexible_boolean(),
        "img_block_device_mapping": fields.list_of(fields.dict_of(fields.text(nullable=True))),
        "img_cache_in_nova": fields.flexible_boolean(),
        "img_compression_level": fields.integer(),
        "img_config_drive": fields.word("optional mandatory"),
        "img_hide_hypervisor_id": fields.flexible_boolean(),
        "img_hv_requested_version": fields.version_predicate(),
        "img_hv_type": fields.word(HYPERVISORS, HYPERVISOR_ALIASES),
        "img_linked_clone": fields.flexible_boolean(),
        "img_mappings": fields.list_of(fields.dict_of(fields.text(nullable=True))),
        "img_owner_id": fields.text(),
        "img_root_device_name": fields.text(),
        "img_signature": fields.text(),
        "img_signature_certificate_uuid": fields.uuid(),
        "img_signature_hash_method": fields.word("SHA-224 SHA-256 SHA-384 SHA-512"),
        "img_signature_key_type": fields.word(SIGNATURE_KEYS),
        "img_use_agent": fields.flexible_boolean(),
        "img_version": fields.integer(),
        "os_admin_user": fields.text(),
        "os_command_line": fields.text(),
        "os_distro": fields.text(),
        "os_require_quiesce": fields.flexible_boolean(),
        "os_secure_boot": fields.word("required disabled optional"),
        "os_skip_agent_inject_files_at_boot": fields.flexible_boolean(),
        "os_skip_agent_inject_ssh": fields.flexible_boolean(),
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
