"""[filter_scheduler]: the enabled rules and the weights.

spec: wire-and-config 6.4, filters-and-weighers 1.1. nova reloads none of these without a restart; here SIGHUP
changes those that rules read at each request.
"""

from oslo_config import cfg

from scheduler.conf.kinds import mutable_bool, mutable_int, mutable_list, mutable_multistr, mutable_str

GROUP = "filter_scheduler"

ARCHITECTURES = (  # enum A (spec: wire-and-config 3.6)
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64 "
    "mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64 "
    "unicore32 x86_64 xtensa xtensaeb"
).split()

DEFAULT_FILTERS = [
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
]


def _multiplier(name: str, default: float, what: str, **limits: float) -> cfg.Opt:
    reversal = "" if limits else "A negative value reverses the preference, "
    return cfg.FloatOpt(
        f"{name}_weight_multiplier",
        default=default,
        mutable=True,
        help=f"Weight of {what}. {reversal}0 disables it.",
        **limits,
    )


OPTS = [
    mutable_int(
        "host_subset_size",
        default=1,
        min=1,
        help="Choose at random among this many of the best hosts. A value above 1 makes it less likely that "
        "several schedulers choose the same host.",
    ),
    mutable_bool(
        "shuffle_best_same_weighed_hosts",
        default=False,
        help="Shuffle the hosts that share the highest weight before one is chosen.",
    ),
    mutable_bool(
        "pci_in_placement",
        default=False,
        help="Request PCI devices from Placement. The API, the conductors and berth-plan read it, as they "
        "create the request groups; the daemon does not.",
    ),
    mutable_multistr(
        "available_filters",
        default=["nova.scheduler.filters.all_filters"],
        help="Dotted paths of filter classes, or of functions that return filter classes, from which "
        "enabled_filters may choose. Repeat the line for each path. nova's paths stand for Berth's own "
        "classes of the same name.",
    ),
    mutable_list(
        "enabled_filters",
        default=DEFAULT_FILTERS,
        help="Names of the filter classes to use, in the order in which they run.",
    ),
    mutable_list(
        "weight_classes",
        default=["nova.scheduler.weights.all_weighers"],
        help="Dotted paths of the weigher classes to use, or of functions that return weigher classes.",
    ),
    mutable_int(
        "max_io_ops_per_host",
        default=8,
        min=0,
        help="IoOpsFilter: a host with this many builds, resizes, snapshots and migrations in progress gets "
        "no more instances.",
    ),
    mutable_int(
        "max_instances_per_host",
        default=50,
        min=1,
        help="NumInstancesFilter: maximum number of instances on one host.",
    ),
    mutable_str(
        "image_properties_default_architecture",
        choices=ARCHITECTURES,
        help="ImagePropertiesFilter: architecture of images that have no architecture property.",
    ),
    mutable_list(
        "isolated_images",
        default=[],
        help="IsolatedHostsFilter: UUIDs of the images that run on isolated hosts only.",
    ),
    mutable_list(
        "isolated_hosts",
        default=[],
        help="IsolatedHostsFilter: names of the isolated hosts.",
    ),
    mutable_bool(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        help="IsolatedHostsFilter: keep other images away from isolated hosts.",
    ),
    mutable_str(
        "aggregate_image_properties_isolation_namespace",
        deprecated_for_removal=True,
        deprecated_reason="the filter that uses it is deprecated in nova",
        help="AggregateImagePropertiesIsolation: only aggregate metadata keys with this prefix count.",
    ),
    mutable_str(
        "aggregate_image_properties_isolation_separator",
        default=".",
        deprecated_for_removal=True,
        deprecated_reason="the filter that uses it is deprecated in nova",
        help="AggregateImagePropertiesIsolation: separator between that prefix and the name of the property.",
    ),
    _multiplier("ram", 1.0, "free memory: more is better"),
    _multiplier("cpu", 1.0, "free virtual CPUs: more is better"),
    _multiplier("disk", 1.0, "free disk space: more is better"),
    _multiplier("hypervisor_version", 1.0, "the hypervisor's version: newer is better"),
    _multiplier("num_instances", 0.0, "the number of instances on the host: more is better"),
    _multiplier("image_props", 0.0, "images already in use on the host with the same properties"),
    _multiplier("io_ops", -1.0, "builds and other I/O-heavy operations in progress: more is better"),
    _multiplier(
        "pci", 1.0, "PCI devices: hosts with many are kept for instances that request devices", min=0.0
    ),
    _multiplier("soft_affinity", 1.0, "members of the same soft-affinity group on the host", min=0.0),
    _multiplier("soft_anti_affinity", 1.0, "absence of members of the soft-anti-affinity group", min=0.0),
    _multiplier("build_failure", 1000000.0, "recent failed builds: fewer are better"),
    _multiplier("cross_cell_move", 1000000.0, "staying in the instance's cell when it moves"),
    mutable_list(
        "image_props_weight_setting",
        default=[],
        help="ImagePropertiesWeigher: property=ratio pairs. Empty: every property counts the same.",
    ),
]
