"""[scheduler]: queries to Placement, number of hosts returned (spec: wire-and-config 6.3)."""

from oslo_config import cfg

from scheduler.conf.kinds import mutable_bool, mutable_int

GROUP = "scheduler"

OPTS = [
    cfg.StrOpt(
        "driver",
        default="filter_scheduler",
        help="How hosts are chosen. filter_scheduler: the enabled filters and weighers. chance_scheduler: at "
        "random among the hosts whose compute service is up. caching_scheduler, of older releases of nova: "
        "filter_scheduler. Any other value means filter_scheduler.",
    ),
    mutable_int(
        "max_attempts",
        default=3,
        min=1,
        help="Maximum number of hosts on which a build, resize or cold migration is tried: the chosen host, "
        "and alternates of the same cell. Raise it if builds end in ERROR with 'Exceeded maximum number "
        "of retries': in a burst several conductors claim the same alternates, and the first one takes "
        "the room. nova-conductor reads this option too: set it to the same value there.",
    ),
    cfg.IntOpt(
        "discover_hosts_in_cells_interval",
        default=-1,
        min=-1,
        help="Seconds between two searches of the cell databases for compute nodes that are not mapped to "
        "their cell yet. -1: never. 0: every 60 seconds. Enable it on one scheduler of the cloud.",
    ),
    mutable_int(
        "max_placement_results",
        default=1000,
        min=1,
        help="Maximum number of allocation candidates requested from Placement for one request.",
    ),
    cfg.IntOpt(
        "workers",
        min=0,
        help="nova's number of worker processes. Read and not used: a daemon is one process, as one "
        "scheduler decides at a time. Several daemons are for controllers that fail.",
    ),
    mutable_bool(
        "query_placement_for_routed_network_aggregates",
        default=False,
        help="Consider only hosts that reach the network segments of the instance's ports (routed provider "
        "networks). Neutron is queried for each request.",
    ),
    mutable_bool(
        "limit_tenants_to_placement_aggregate",
        default=False,
        help="Place projects that own host aggregates (metadata key filter_tenant_id and keys that begin "
        "with it) on the hosts of those only.",
    ),
    mutable_bool(
        "placement_aggregate_required_for_tenants",
        default=False,
        help="With limit_tenants_to_placement_aggregate: a project without an aggregate gets no host. If "
        "false, it may use any host.",
    ),
    mutable_bool(
        "query_placement_for_image_type_support",
        default=False,
        help="Consider only hosts with the trait for the disk format of the image.",
    ),
    mutable_bool(
        "enable_isolated_aggregate_filtering",
        default=False,
        help="Exclude hosts in aggregates that require traits which the request does not require.",
    ),
    mutable_bool(
        "image_metadata_prefilter",
        default=False,
        help="Convert image properties to required traits, so that Placement excludes hosts that lack them.",
    ),
]
