"""[berth]: options of the rules that nova-scheduler does not have. By default none of them has an effect."""

from oslo_config import cfg, types

from scheduler.conf.kinds import mutable_float, mutable_list, mutable_str

GROUP = "berth"

FLAVOR_SIZE = r"^[^=,]+=\d+:\d+:\d+$"
"""NAME=VCPUS:RAM_MIB:DISK_GIB"""


def _multiplier(name: str, what: str) -> cfg.Opt:
    return cfg.FloatOpt(
        f"{name}_weight_multiplier",
        default=0.0,
        mutable=True,
        help=f"{what} 0: no effect. Aggregate metadata does not change the value.",
    )


OPTS = [
    mutable_str(
        "failure_domain_key",
        default="failure_domain",
        help="The key of aggregate metadata that names the failure domain of the hosts of an aggregate: a "
        "rack, a power feed or a room. FailureDomainFilter and FailureDomainWeigher read it.",
    ),
    _multiplier(
        "failure_domain",
        "Weight of other failure domains than those of the other members of the server group, for the "
        "policies anti-affinity and soft-anti-affinity. Set it to spread groups over racks if possible.",
    ),
    _multiplier(
        "free_share",
        "Weight of the smallest free share of a host's memory, virtual CPUs and disk: more is better. Set "
        "it, and ram_weight_multiplier, cpu_weight_multiplier and disk_weight_multiplier to 0, if hosts "
        "differ in size and shall be filled evenly.",
    ),
    mutable_list(
        "keep_room_for",
        item_type=types.String(regex=FLAVOR_SIZE),
        default=[],
        help="Flavors for which room is kept, as NAME=VCPUS:RAM_MIB:DISK_GIB, such as "
        "m1.huge=32:131072:200. Of two hosts that suit, the one is preferred whose use leaves room for more "
        "instances of these flavors. Empty: no effect.",
    ),
    mutable_float(
        "keep_room_weight_multiplier",
        default=1.0,
        help="Weight of the room that is kept for the flavors of keep_room_for. Raise it above the sum of "
        "the other multipliers to let it decide before them. 0: no effect.",
    ),
    mutable_float(
        "build_failure_half_life",
        default=0.0,
        min=0.0,
        help="Seconds after which half of a host's failed builds count no more for BuildFailureWeigher. Of "
        "hosts with failed builds, the one that failed last for the project of the request comes last. Set "
        "it to try hosts that failed again without a success or a restart of the compute. 0: failed builds "
        "count until the host builds an instance, as in nova.",
    ),
    _multiplier(
        "same_host",
        "Weight of the host that an instance is on when it is resized. Set it if a resize shall stay on its "
        "host where there is room. It needs allow_resize_to_same_host.",
    ),
    _multiplier(
        "leaving_host",
        "Weight of hosts whose aggregate metadata has berth:leaving=true: they come after others. Set it "
        "above the sum of all other multipliers, such as 10000000, to use them if nothing else is left.",
    ),
]
