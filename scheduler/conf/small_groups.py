"""The small groups: few options each (spec: wire-and-config 6.5).

``GROUPS`` maps the name of a group to its options.
"""

from oslo_config import cfg

from scheduler.conf.kinds import mutable_bool, mutable_float, mutable_list

GROUPS = {
    # [metrics]: the metrics weigher and filter.
    "metrics": [
        mutable_float(
            "weight_multiplier",
            default=1.0,
            help="Weight of the metrics that computes report.",
        ),
        mutable_list(
            "weight_setting",
            default=[],
            help="name=ratio pairs: the metrics that count, and how much.",
        ),
        mutable_bool(
            "required",
            default=True,
            help="Fail a request if a host lacks one of these metrics. If false, such a host gets "
            "weight_of_unavailable. It is better to enable MetricsFilter, which removes such hosts.",
        ),
        mutable_float(
            "weight_of_unavailable",
            default=-10000.0,
            help="Weight of a host that lacks a metric that is not required.",
        ),
    ],
    # [notifications]: the form of notifications (spec: wire-and-config 5.1).
    "notifications": [
        cfg.StrOpt(
            "notification_format",
            default="unversioned",
            choices=["both", "versioned", "unversioned"],
            deprecated_group="DEFAULT",
            help="Form of the notifications sent at the start and end of a request. None are sent at all "
            "unless [oslo_messaging_notifications]/driver is set.",
        ),
        cfg.ListOpt(
            "versioned_notifications_topics",
            default=["versioned_notifications"],
            help="Topics on which versioned notifications are published.",
        ),
    ],
    # [pci]: what berth-plan reads (spec: numa-and-pci 5.4).
    "pci": [
        cfg.MultiStrOpt(
            "alias",
            default=[],
            deprecated_opts=[cfg.DeprecatedOpt("pci_alias", group="DEFAULT")],
            help="Names for kinds of devices, each a JSON object. nova-api and berth-plan resolve them "
            "in flavors; the daemon does not read it.",
        ),
    ],
    # [compute]: options of computes that affect scheduling.
    "compute": [
        mutable_bool(
            "packing_host_numa_cells_allocation_strategy",
            default=False,
            help="Fill the NUMA cells of a host one after the other instead of spreading instances over "
            "them.",
        ),
    ],
    # [workarounds]: switches for deployments in an uncommon state.
    "workarounds": [
        mutable_bool(
            "disable_fallback_pcpu_query",
            default=False,
            help="Do not query Placement a second time, for shared CPUs, for instances with dedicated CPUs. "
            "The second query finds computes that have not been configured for dedicated CPUs.",
        ),
        cfg.BoolOpt(
            "disable_compute_service_check_for_ffu",
            default=False,
            help="Do not mention computes that are older than the oldest supported release at start.",
        ),
    ],
}
