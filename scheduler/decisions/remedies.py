"""What helps against a constraint that hosts fail alone, in the case at hand."""

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import STALE
from scheduler.decisions.document import Constraint, Failing, Limit, Reason, Why
from scheduler.logs import count_text

AFFINITY = frozenset({"ServerGroupAffinityFilter", "GroupAffinityFilter"})
ANTI_AFFINITY = frozenset({"ServerGroupAntiAffinityFilter", "GroupAntiAffinityFilter"})

#: Constraints that more hosts do not meet if the group has to be on the hosts that fail them.
_OF_ROOM = frozenset({ConstraintKind.AMOUNT, ConstraintKind.GROUP, ConstraintKind.CLAIM})

#: Classes that may have an allocation ratio; computes report the others with a ratio of 1.
OVERCOMMITTED = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})

OF_GROUP = (
    "Free or add what the group requests, or correct the group in the flavor, the device profile or the port."
)
OF_IGNORED = "Add or free another host: only hosts that the instance is to leave would suit."
OF_ZONE_OF_MOVE = "Add or free hosts in this zone: a move keeps the zone of the instance."
OF_AFFINITY = (
    "Free the host of the group, or build outside of the group: with affinity more hosts do not help."
)
OF_AFFINITY_OUT_OF_SERVICE = (
    "Return the host of the group to service, or build outside of the group: with affinity more hosts do not"
    " help."
)
_OF_MOVES = {ConstraintKind.IGNORED: OF_IGNORED, ConstraintKind.ZONE: OF_ZONE_OF_MOVE}
OF_ANTI_AFFINITY = "Add hosts, or use a soft policy for the group or a larger max_server_per_host."


OF_AGGREGATES = "Copy nova's aggregates to Placement: nova-manage placement sync_aggregates."

OF_STALE_AGGREGATE = (
    "Remove the aggregate from the resource providers: openstack resource provider aggregate set."
)

OF_STALE_TRAIT = (
    "Restart nova-compute on the hosts, or delete the trait COMPUTE_STATUS_DISABLED of their providers."
)


def is_pci(constraint: Constraint) -> bool:
    """Return whether a constraint is the devices of a PCI alias."""
    return constraint.kind == ConstraintKind.GROUP and constraint.text.startswith("PCI alias")


def remedy_of(why: Why, constraint: Constraint, failing: Failing, kind: str) -> str:
    """Return what helps hosts that fail a constraint alone; "" if the remedy of its code does.

    Args:
        kind: The kind of the request, such as ``build``.
    """
    if constraint.kind in _OF_ROOM and any(other.filter in AFFINITY for other in why.constraints):
        return OF_AFFINITY
    match constraint.kind:
        case ConstraintKind.AMOUNT:
            reason = next(iter(failing.first_reasons), Reason(""))
            return remedy_of_amount(constraint.text.partition(" ")[2], reason, why.placed)
        case ConstraintKind.DISABLED:
            return OF_STALE_TRAIT if [reason.text for reason in failing.first_reasons] == [STALE] else ""
        case ConstraintKind.IGNORED | ConstraintKind.ZONE:
            return "" if kind == "build" else _OF_MOVES[ConstraintKind(constraint.kind)]
        case ConstraintKind.SYNCHRONIZED:
            return OF_STALE_AGGREGATE if "forbidden" in constraint.text else OF_AGGREGATES
    return _remedy_of_rule(why, constraint)


def _remedy_of_rule(why: Why, constraint: Constraint) -> str:
    if constraint.kind == ConstraintKind.GROUP and not is_pci(constraint):
        return OF_GROUP
    if constraint.filter in AFFINITY:
        return OF_AFFINITY_OUT_OF_SERVICE if _is_out_of_service(why) else OF_AFFINITY
    return OF_ANTI_AFFINITY if constraint.filter in ANTI_AFFINITY else ""


def _is_out_of_service(why: Why) -> bool:
    """Return whether the service of a host of the affinity group is disabled or down."""
    of_group = (
        why.of(failing)
        for failing in why.failing
        if not any(constraint.filter in AFFINITY for constraint in why.of(failing))
    )
    return any(
        constraint.kind == ConstraintKind.DISABLED or constraint.filter == "ComputeFilter"
        for constraints in of_group
        for constraint in constraints
    )


def for_fewer(placed: int, remedy: str) -> str:
    """Return what helps if some instances of a request found a host, with what helps the others."""
    instances = count_text(placed, "instance")
    return f"Request at most {instances} at once. For more: {remedy[0].lower()}{remedy[1:]}"


def remedy_of_amount(name: str, reason: Reason, placed: int = 0) -> str:
    """Return what helps against the limit that refuses an amount of a resource class."""
    most = reason.most
    smaller = f"a flavor with at most {most} {name}" if most else f"a flavor with less {name}"
    has_ratio = name in OVERCOMMITTED
    raised = "raise the ratio or " if has_ratio else ""
    of_name = f"raise the allocation ratio of {name}, " if has_ratio else ""
    if placed:
        return f"Request at most {count_text(placed, 'instance')} at once, add capacity, or use {smaller}."
    helps: dict[str, str] = {
        Limit.MAX_UNIT: f"Use {smaller}, or hosts with a larger max_unit; allocation ratios do not raise it.",
        Limit.MIN_UNIT: f"Use a flavor with at least {most} {name}, or lower min_unit.",
        Limit.STEP_SIZE: f"Use a flavor with a multiple of {most} {name}, or change step_size.",
        Limit.ABSENT: f"Use a flavor without {name}, or let hosts provide it.",
        Limit.CAPACITY: f"Add larger hosts, {raised}reserve less of {name}, or use {smaller}.",
    }
    return helps.get(reason.limit, f"Free or add capacity, {of_name}or use {smaller}.")
