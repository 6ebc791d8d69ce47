"""[metrics]: the metrics weigher and filter (spec: wire-and-config 6.5)."""

from oslo_config import cfg

GROUP = "metrics"

OPTS = [
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
        help="A host that lacks one of these metrics is an error. Otherwise it weighs weight_of_unavailable. "
        "Better enable MetricsFilter, which leaves such hosts out.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        mutable=True,
        help="Weight of a host that lacks a metric that is not required.",
    ),
]
