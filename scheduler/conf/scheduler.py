"""[scheduler]: what is asked of Placement, how many hosts are offered (spec: wire-and-config 6.3)."""

from oslo_config import cfg

GROUP = "scheduler"

OPTS = [
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        mutable=True,
        help="Number of hosts that a build may be tried on: the chosen one and this number less one of "
        "alternates are returned for each instance.",
    ),
    cfg.IntOpt(
        "discover_hosts_in_cells_interval",
        default=-1,
        min=-1,
        help="Seconds between searches of the cell databases for compute nodes that are not mapped to their "
        "cell yet. -1: never. 0: every 60 seconds. One scheduler of the cloud does it.",
    ),
    cfg.IntOpt(
        "max_placement_results",
        default=1000,
        min=1,
        mutable=True,
        help="The most allocation candidates asked of Placement for one request.",
    ),
    cfg.IntOpt(
        "workers",
        min=0,
        help="Number of worker processes. Unset or 0: one for each CPU. One is enough for about seventy "
        "requests a second, and requests share Placement's answers within one worker only.",
    ),
    cfg.BoolOpt(
        "query_placement_for_routed_network_aggregates",
        default=False,
        mutable=True,
        help="Consider only hosts that reach the network segments of the instance's ports (routed provider "
        "networks). Neutron is asked about each request.",
    ),
    cfg.BoolOpt(
        "limit_tenants_to_placement_aggregate",
        default=False,
        mutable=True,
        help="Place projects that own host aggregates (metadata key filter_tenant_id and keys that begin "
        "with it) on the hosts of those only.",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        default=False,
        mutable=True,
        help="With limit_tenants_to_placement_aggregate: a project without an aggregate finds no host. "
        "Otherwise it may use any.",
    ),
    cfg.BoolOpt(
        "query_placement_for_image_type_support",
        default=False,
        mutable=True,
        help="Consider only hosts whose traits say that they can boot the image's disk format.",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        default=False,
        mutable=True,
        help="Leave out hosts of aggregates that require traits which the request does not ask for.",
    ),
    cfg.BoolOpt(
        "image_metadata_prefilter",
        default=False,
        mutable=True,
        help="Turn image properties into required traits, so that Placement leaves out hosts that lack them.",
    ),
]
