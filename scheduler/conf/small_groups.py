"""The small groups: few options each, most of them of computes and callers (spec: wire-and-config 6.5).

``GROUPS`` maps the name of a group to its options.
"""

from oslo_config import cfg

# [metrics]: the metrics weigher and filter.
METRICS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=1.0,
        mutable=True,
        help="Weight of the metrics that computes report.",
    ),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        mutable=True,
        help="name=ratio pairs: the metrics that count, and how much.",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        mutable=True,
        help="Fail a request if a host lacks one of these metrics. If false, such a host gets "
        "weight_of_unavailable. It is better to enable MetricsFilter, which removes such hosts.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        mutable=True,
        help="Weight of a host that lacks a metric that is not required.",
    ),
]

# [notifications]: the form of notifications (spec: wire-and-config 5.1).
NOTIFICATIONS = [
    cfg.StrOpt(
        "notification_format",
        default="unversioned",
        choices=["both", "versioned", "unversioned"],
        deprecated_group="DEFAULT",
        help="Form of the notifications sent at the start and end of a request. None are sent at all unless "
        "[oslo_messaging_notifications]/driver is set.",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["versioned_notifications"],
        help="Topics on which versioned notifications are published.",
    ),
]

# [pci]: accepted for compatibility, for computes (spec: numa-and-pci 5.4).
PCI = [
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
        help="Names for kinds of devices, each a JSON object. nova-api and berth-plan resolve them "
        "in flavors; the scheduler does not read it.",
    ),
    cfg.BoolOpt(
        "report_in_placement",
        default=False,
        help="Whether computes report devices to Placement. The scheduler does not read this.",
    ),
]

# [compute]: options of computes that affect scheduling.
COMPUTE = [
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        default=False,
        mutable=True,
        help="Fill the NUMA cells of a host one after the other instead of spreading instances over them.",
    ),
    cfg.IntOpt(
        "resource_provider_association_refresh",
        default=300,
        min=0,
        mutable=True,
        help="Seconds for which computes keep provider associations. Scheduling does not use it.",
    ),
    cfg.IntOpt(
        "sharing_providers_max_uuids_per_request",
        default=200,
        min=1,
        help="UUIDs in one query of computes for sharing providers. Scheduling does not use it.",
    ),
]

# [workarounds]: switches for deployments in an uncommon state.
WORKAROUNDS = [
    cfg.BoolOpt(
        "disable_fallback_pcpu_query",
        default=False,
        mutable=True,
        help="Do not query Placement a second time, for shared CPUs, for instances with dedicated CPUs. "
        "The second query finds computes that have not been configured for dedicated CPUs.",
    ),
    cfg.BoolOpt(
        "disable_compute_service_check_for_ffu",
        default=False,
        help="Do not mention computes that are older than the oldest supported release at start.",
    ),
]


def _cap(name: str, note: str) -> cfg.Opt:
    return cfg.StrOpt(name, help=f"RPC version cap for calls to the {name} service. {note}")


# [upgrade_levels]: RPC version caps of callers (spec: wire-and-config 1.7).
UPGRADE_LEVELS = [
    _cap("scheduler", "Read by callers of the scheduler, not by the daemon."),
    _cap("conductor", "The daemon does not read it: no conductor converts objects for it."),
    _cap("baseapi", "The daemon does not read it."),
    _cap("compute", "The daemon does not read it."),
]

# [libvirt]: accepted for compatibility.
LIBVIRT = [
    cfg.ListOpt("hw_machine_type", help="Machine types by architecture. Scheduling does not use it."),
]

# The debug switches of [glance] and [cinder], which change log levels.
CLIENTS = [
    cfg.BoolOpt("debug", default=False, help="Log what the client library of this service does."),
]

GROUPS = {
    "metrics": METRICS,
    "notifications": NOTIFICATIONS,
    "pci": PCI,
    "compute": COMPUTE,
    "workarounds": WORKAROUNDS,
    "upgrade_levels": UPGRADE_LEVELS,
    "libvirt": LIBVIRT,
    "glance": CLIENTS,
    "cinder": CLIENTS,
}
