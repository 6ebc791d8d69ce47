"""[compute]: the few options of computes that reach scheduling (spec: wire-and-config 6.5)."""

from oslo_config import cfg

GROUP = "compute"

OPTS = [
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        default=False,
        mutable=True,
        help="Fill up a host's NUMA cells one after the other, rather than spread instances over them.",
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
