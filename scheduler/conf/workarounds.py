"""[workarounds]: switches for deployments in an uncommon state (spec: wire-and-config 6.5)."""

from oslo_config import cfg

GROUP = "workarounds"

OPTS = [
    cfg.BoolOpt(
        "disable_fallback_pcpu_query",
        default=False,
        mutable=True,
        help="Do not ask Placement a second time, for shared CPUs, for instances with dedicated CPUs. "
        "The second query finds computes that have not been configured for dedicated CPUs.",
    ),
    cfg.BoolOpt(
        "disable_compute_service_check_for_ffu",
        default=False,
        help="Do not mention computes that are older than the oldest supported release at start.",
    ),
]
