"""[pci]: which devices may be passed through. Spec: wire-and-config 6.5, numa-and-pci."""

from oslo_config import cfg

GROUP = "pci"

OPTS = [
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        deprecated_opts=[
            cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
            cfg.DeprecatedOpt("pci_passthrough_whitelist", group="DEFAULT"),
        ],
        help="Devices of computes that instances may have, each line a JSON object or list. It belongs to "
        "the configuration of computes; an entry that cannot be read is passed over with a warning.",
    ),
    cfg.MultiStrOpt(
        "alias",
        default=[],
        deprecated_opts=[cfg.DeprecatedOpt("pci_alias", group="DEFAULT")],
        help="Names for kinds of devices. The API resolves them; the scheduler does not read this.",
    ),
    cfg.BoolOpt(
        "report_in_placement",
        default=False,
        help="Whether computes report devices to Placement. Here only used when device_spec is read.",
    ),
]
