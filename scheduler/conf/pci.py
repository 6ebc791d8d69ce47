"""[pci]: accepted for compatibility; it is about computes (spec: wire-and-config 6.5, numa-and-pci 5.4)."""

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
        "the configuration of computes; the scheduler does not read it.",
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
        help="Whether computes report devices to Placement. The scheduler does not read this.",
    ),
]
