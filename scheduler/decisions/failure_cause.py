"""The cause of a failed request: one of a few codes, a sentence, and a remedy.

It is computed once, when the request has ended. Metrics count requests by code; log, fault, list, terminal
and page show the sentence. An outage is no cause: requests that an outage ends do not fail with NoValidHost.
"""

from collections.abc import Iterator, Sequence

from scheduler.claims.claims import TOO_LATE
from scheduler.decisions.cause_code import CauseCode, ConstraintKind
from scheduler.decisions.constraints import LEFT_OUT, STALE
from scheduler.decisions.document import Cause, Constraint, Decision, Error, Failing, Limit, Reason, Why
from scheduler.decisions.words import failing_text, instance_text
from scheduler.logs import count_text
from scheduler.selection.host_claiming import NOT_ENOUGH

#: If several constraints are failed alone, the first of these counts: suitable hosts that are only disabled,
#: then suitable hosts without room, then those that Placement does not know well, before other hosts; hosts
#: that the request itself rules out come last.
_FIRST = (CauseCode.DISABLED, CauseCode.RESOURCES, CauseCode.CLAIMS, CauseCode.PROVIDER)
_LAST = (CauseCode.EXCLUDED, CauseCode.CELL, CauseCode.HOST)

#: Sets of constraints that are named in one line.
NAMED_SETS = 3

#: Texts of errors that say only that there is no valid host.
_UNSPECIFIC = tuple(f"No valid host was found. {reason}" for reason in ("", NOT_ENOUGH))

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
OF_ANTI_AFFINITY = "Add hosts, or use a soft policy for the group or a larger max_server_per_host."
OF_AGGREGATES = "Copy nova's aggregates to Placement: nova-manage placement sync_aggregates."
OF_STALE_AGGREGATE = (
    "Remove the aggregate from the resource providers: openstack resource provider aggregate set."
)
OF_STALE_TRAIT = (
    "Restart nova-compute on the hosts, or delete the trait COMPUTE_STATUS_DISABLED of their providers."
)


def is_unspecific(error: Error) -> bool:
    """Return whether the text of an error says only that there is no valid host."""
    return error.text in _UNSPECIFIC


def cause_of(decision: Decision) -> Cause | None:
    """Return why a request found no valid host; None if it found one, or ended with another error."""
    error, candidates, why = decision.error, decision.candidates, decision.why
    if error is None or error.kind not in {"NoValidHost", "RequestFilterFailed"}:
        return None
    if TOO_LATE in error.text:
        return _cause(CauseCode.LATE, "", f"hosts were chosen, but {TOO_LATE}")
    if not is_unspecific(error):
        text = error.text.removeprefix("No valid host was found. ").strip()
        return _cause(CauseCode.REQUEST, text, text)
    if candidates.hosts and not candidates.known and not (why and why.failing):
        words = f"none of {count_text(candidates.hosts, 'host')} is known in a cell that takes part"
        return _cause(CauseCode.UNKNOWN_HOSTS, "", words)
    if why is None:
        return _cause(CauseCode.COMBINATION, "", "what each host fails could not be found out")
    return next(_of_why(why, decision))


def _cause(code: CauseCode, subject: str, words: str, remedy: str = "") -> Cause:
    return Cause(code.value, subject, words, remedy or code.remedy)


def _of_why(why: Why, decision: Decision) -> Iterator[Cause]:
    """Yield the constraint that hosts fail alone, if there is one; otherwise the smallest sets."""
    # Hosts that suit do not help if Placement refuses what the instance keeps on another one.
    if (why.suitable or decision.candidates.source == "held") and (lost := decision.refused_claims):
        refused = count_text(len(lost), "claim was", "claims were")
        words = f"{refused} refused, the last on host {lost[-1].host}: {lost[-1].cause}"
        yield _cause(CauseCode.CLAIMS, lost[-1].host or "", words)
    if why.suitable:
        hosts = count_text(why.suitable, "host")
        yield _cause(CauseCode.CHANGED, "", f"{hosts} would be suitable now: the cloud has changed since")
    alone = [(code_of(constraint, each.first_reasons), constraint, each) for constraint, each in why.alone()]
    if alone:
        code, constraint, failing = min(alone, key=_rank)
        # first what the host that the request names fails: that others suit is of little use then
        named = [each for each in why.failing if code is CauseCode.HOST and not _is_of_others(why, each)]
        lines = [failing_text(why, each) for each in (*named, failing, *_to_name(why))]
        special = _remedy_of(why, constraint, failing, decision.kind)
        if why.placed and constraint.kind != ConstraintKind.AMOUNT:
            special = for_fewer(why.placed, special or code.remedy)
        yield _cause(code, constraint.text, _in_words(why, lines), special)
    if why.failing:
        lines = [failing_text(why, group) for group in _to_name(why)]
        constraints = why.of(why.failing[0])
        kinds = {constraint.kind for constraint in constraints}
        is_of_room = ConstraintKind.AMOUNT in kinds <= {ConstraintKind.AMOUNT, ConstraintKind.SEVERAL}
        code = CauseCode.RESOURCES if is_of_room else CauseCode.COMBINATION
        subject = " and ".join(constraint.text for constraint in constraints)
        yield _cause(code, subject, _in_words(why, lines))
    yield _cause(CauseCode.NOT_OFFERED, "", "no compute node is known")


def _to_name(why: Why) -> Sequence[Failing]:
    """Return the sets to name: those of hosts that the plan itself leaves out only if there is no other."""
    of_plan = {at for at, constraint in enumerate(why.constraints) if constraint == LEFT_OUT}
    return [group for group in why.failing if of_plan.isdisjoint(group.constraints)] or why.failing


def _rank(cause: tuple[CauseCode, Constraint, Failing]) -> tuple[int, int]:
    code, _, failing = cause
    first = _FIRST.index(code) if code in _FIRST else len(_FIRST)
    return first + 1 + (_LAST.index(code) if code in _LAST else -1), -failing.hosts


def _in_words(why: Why, lines: Sequence[str]) -> str:
    shown = list(dict.fromkeys(lines))[:NAMED_SETS]
    return "; ".join(filter(None, (instance_text(why), *shown)))


def _is_of_others(why: Why, failing: Failing) -> bool:
    return any(constraint.kind == ConstraintKind.HOST for constraint in why.of(failing))


def code_of(constraint: Constraint, reasons: Sequence[Reason] = ()) -> CauseCode:
    """Return the cause for a constraint that hosts fail for these reasons."""
    if constraint.kind == ConstraintKind.FILTER:
        return code_of_filter(constraint.filter, reasons[0].text if reasons else "")
    if _is_pci(constraint):
        return CauseCode.PCI
    return CauseCode(ConstraintKind(constraint.kind).cause)


def code_of_filter(name: str, reason: str) -> CauseCode:
    """Return the cause for a filter that rejected hosts for this reason."""
    code = CauseCode.of_filter(name)
    if code is CauseCode.COMPUTE_DOWN and reason.startswith("service disabled"):
        return CauseCode.DISABLED
    return code


def remedy_of_constraint(constraint: Constraint, reasons: Sequence[Reason] = ()) -> str:
    """Return what helps one host that fails a constraint."""
    alone = Why(1, constraints=[constraint])
    special = _remedy_of(alone, constraint, Failing([0], 1, reasons=[list(reasons)]), "build")
    return special or code_of(constraint, reasons).remedy


# -- what helps in the case at hand ----------------------------------------------------------------------


def _is_pci(constraint: Constraint) -> bool:
    return constraint.kind == ConstraintKind.GROUP and constraint.text.startswith("PCI alias")


def _remedy_of(why: Why, constraint: Constraint, failing: Failing, request: str) -> str:
    """Return what helps hosts that fail a constraint alone; "" if the remedy of its code does.

    Args:
        request: The kind of the request, such as ``build``.
    """
    remedy, reasons = "", failing.first_reasons
    match constraint.kind:
        case kind if kind in _OF_ROOM and any(other.filter in AFFINITY for other in why.constraints):
            remedy = OF_AFFINITY
        case ConstraintKind.AMOUNT:
            reason = next(iter(reasons), Reason(""))
            remedy = _remedy_of_amount(constraint.text.partition(" ")[2], reason, why.placed)
        case ConstraintKind.DISABLED if [reason.text for reason in reasons] == [STALE]:
            remedy = OF_STALE_TRAIT
        case ConstraintKind.IGNORED | ConstraintKind.ZONE if request != "build":
            remedy = OF_IGNORED if constraint.kind == ConstraintKind.IGNORED else OF_ZONE_OF_MOVE
        case ConstraintKind.SYNCHRONIZED:
            remedy = OF_STALE_AGGREGATE if "forbidden" in constraint.text else OF_AGGREGATES
        case ConstraintKind.GROUP if not _is_pci(constraint):
            remedy = OF_GROUP
        case ConstraintKind.FILTER if constraint.filter in AFFINITY:
            remedy = OF_AFFINITY_OUT_OF_SERVICE if _is_out_of_service(why) else OF_AFFINITY
        case ConstraintKind.FILTER if constraint.filter in ANTI_AFFINITY:
            remedy = OF_ANTI_AFFINITY
    return remedy


def _is_out_of_service(why: Why) -> bool:
    """Return whether the service of a host of the affinity group is disabled or down."""
    return any(
        constraint.kind == ConstraintKind.DISABLED or constraint.filter == "ComputeFilter"
        for constraints in map(why.of, why.failing)
        if not any(constraint.filter in AFFINITY for constraint in constraints)
        for constraint in constraints
    )


def for_fewer(placed: int, remedy: str) -> str:
    """Return what helps if some instances of a request found a host, with what helps the others."""
    instances = count_text(placed, "instance")
    return f"Request at most {instances} at once. For more: {remedy[0].lower()}{remedy[1:]}"


def _remedy_of_amount(name: str, reason: Reason, placed: int = 0) -> str:
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
