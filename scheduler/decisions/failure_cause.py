"""The cause of a failed request: one of a few codes, a sentence, and a remedy.

It is computed from the document of the decision. Metrics count requests by code; terminal and page show the
sentence. An outage is no cause: requests that an outage ends do not fail with NoValidHost.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from scheduler.claims.claimer import TOO_LATE
from scheduler.decisions import rendering
from scheduler.decisions.cause_code import CauseCode
from scheduler.decisions.document import EXCLUDED, FAILED, Candidates, Decision, Entry, Relaxed, decode
from scheduler.decisions.relaxation import ConstraintKind
from scheduler.decisions.summary import is_no_valid_host, is_unspecific
from scheduler.logs import count_text


class FailureCause(NamedTuple):
    """Why a request failed.

    Attributes:
        code: The code, by which requests are counted.
        subject: A constraint of the query, or the name of a filter: the same for requests that fail for the
            same reason; "" if the code says all.
        words: The cause of this request, in one line.
    """

    code: CauseCode
    subject: str
    words: str

    @property
    def remedy(self) -> str:
        return REMEDIES[self.code]


REMEDIES = {
    CauseCode.DISABLED: "Enable the compute services, or wait until their maintenance ends.",
    CauseCode.RESOURCES: "Add capacity, raise allocation ratios, or use a flavor with smaller amounts.",
    CauseCode.TRAIT: "Correct the trait in the flavor or image, or set it on the hosts that have it.",
    CauseCode.AGGREGATE: "Add hosts to the aggregate, or correct its metadata, the flavor or the project.",
    CauseCode.HOST: "Choose another host, or let the scheduler choose.",
    CauseCode.AVAILABILITY_ZONE: "Choose another zone, or add hosts to this one.",
    CauseCode.COMBINATION: "Compare the query with the inventories and traits of a host that should suit.",
    CauseCode.CHANGED: "Try again.",
    CauseCode.NOT_OFFERED: "Look at the query; it is analysed within a few minutes.",
    CauseCode.REQUEST: "Correct what the error names in the request, the flavor, the image or the port.",
    CauseCode.UNKNOWN_HOSTS: "Enable the cell, or delete resource providers whose compute nodes are gone.",
    CauseCode.EXCLUDED: "Request another host, or ignore fewer hosts.",
    CauseCode.COMPUTE_DOWN: "Start nova-compute on the hosts, or find out why it does not report.",
    CauseCode.SERVER_GROUP: "Add hosts, or use a soft policy for the group.",
    CauseCode.NUMA: "Use a flavor with more NUMA cells or smaller amounts, or free a NUMA cell.",
    CauseCode.PCI: "Free devices, or correct the PCI alias and the devices that hosts offer.",
    CauseCode.CAPABILITIES: "Correct the properties of the image or the extra specs of the flavor.",
    CauseCode.HINT: "Correct the scheduler hint.",
    CauseCode.LOAD: "Wait until the hosts are less busy, or raise the limit of the filter.",
    CauseCode.FILTER: "See the reason that the filter gives for each host.",
    CauseCode.CLAIMS: "Try again; if hosts have room, find out which other services claim on them.",
    CauseCode.UNCLAIMABLE: "Map the hosts to their cell: nova-manage cell_v2 discover_hosts.",
    CauseCode.LATE: "Find out why the scheduler, Placement or the databases are slow.",
}

#: The causes by filter of nova. Other filters are ``FILTER``.
_FILTERS = {
    CauseCode.COMPUTE_DOWN: ("ComputeFilter",),
    CauseCode.SERVER_GROUP: (
        *("ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"),
        *("GroupAffinityFilter", "GroupAntiAffinityFilter"),
    ),
    CauseCode.NUMA: ("NUMATopologyFilter",),
    CauseCode.PCI: ("PciPassthroughFilter",),
    CauseCode.CAPABILITIES: ("ImagePropertiesFilter", "ComputeCapabilitiesFilter"),
    CauseCode.HINT: ("SameHostFilter", "DifferentHostFilter", "SimpleCIDRAffinityFilter", "JsonFilter"),
    CauseCode.LOAD: (
        *("IoOpsFilter", "AggregateIoOpsFilter", "NumInstancesFilter", "AggregateNumInstancesFilter"),
        "MetricsFilter",
    ),
    CauseCode.AGGREGATE: (
        *("AggregateImagePropertiesIsolation", "AggregateInstanceExtraSpecsFilter"),
        *("AggregateMultiTenancyIsolation", "AggregateTypeAffinityFilter", "IsolatedHostsFilter"),
    ),
    CauseCode.AVAILABILITY_ZONE: ("AvailabilityZoneFilter",),
    CauseCode.RESOURCES: (
        *("RamFilter", "AggregateRamFilter", "ExactRamFilter", "DiskFilter", "AggregateDiskFilter"),
        *("ExactDiskFilter", "CoreFilter", "AggregateCoreFilter", "ExactCoreFilter"),
    ),
}
_CODE_OF_FILTER = {name: code for code, names in _FILTERS.items() for name in names}

#: The causes by kind of constraint. If several constraints help alone, the first kind counts: suitable hosts
#: that are only disabled, then suitable hosts without room, before other hosts.
_CODE_OF_KIND = {
    ConstraintKind.DISABLED: CauseCode.DISABLED,
    ConstraintKind.AMOUNT: CauseCode.RESOURCES,
    ConstraintKind.TRAIT: CauseCode.TRAIT,
    ConstraintKind.AGGREGATE: CauseCode.AGGREGATE,
    ConstraintKind.HOST: CauseCode.HOST,
    ConstraintKind.ZONE: CauseCode.AVAILABILITY_ZONE,
}
_RANKS: dict[str, int] = {kind: rank for rank, kind in enumerate(_CODE_OF_KIND)}


def cause_of(decision: Decision) -> FailureCause | None:
    """Return why a request found no valid host; None if it found one, or ended with another error."""
    error, found = decision.error, decision.candidates
    if error is None or not is_no_valid_host(error):
        return None
    if TOO_LATE in error.text:
        return FailureCause(CauseCode.LATE, "", f"hosts were chosen, but {TOO_LATE}")
    if not is_unspecific(error):
        text = error.text.removeprefix("No valid host was found. ").strip()
        return FailureCause(CauseCode.REQUEST, text, text)
    return next(chain(_of_candidates(found, decision), _of_hosts(decision)))


def _of_candidates(found: Candidates, decision: Decision) -> Iterator[FailureCause]:
    """Yield why there was no host to filter."""
    if found.origin == "placement" and not found.hosts:
        yield from _of_relaxed(found)
        # claims on hosts of the mirror, before the query to Placement
        yield from _of_claims(decision)
        yield FailureCause(CauseCode.NOT_OFFERED, "", "Placement offers no host")
    elif not found.known:
        words = f"none of {count_text(found.hosts, 'host')} is known in a cell that takes part"
        yield FailureCause(CauseCode.UNKNOWN_HOSTS, "", words)
    elif not found.allowed:
        excluded = [each for each in decision.verdicts if each.outcome == EXCLUDED]
        reason = max(excluded, key=lambda each: each.count).reason if excluded else ""
        words = f"the request excludes {count_text(found.known, 'host')}" + (f": {reason}" if reason else "")
        yield FailureCause(CauseCode.EXCLUDED, "", words)


def _of_relaxed(found: Candidates) -> Iterator[FailureCause]:
    if not found.relaxed_at:
        return
    if not found.relaxed:
        words = "no host would be suitable without one or two of the constraints"
        yield FailureCause(CauseCode.COMBINATION, "", words)
    for each in sorted(found.relaxed, key=_rank):
        hosts = f"{'at least ' if each.cut else ''}{count_text(each.hosts, 'host')}"
        names = " and ".join(each.without)
        if not each.without:
            yield FailureCause(
                CauseCode.CHANGED, "", f"{hosts} would be suitable now: the cloud has changed since"
            )
        elif each.kinds:
            code = code_of_kind(max(each.kinds, key=lambda kind: _RANKS[kind]))
            yield FailureCause(code, names, _in_words(code, names, hosts, each))


def _rank(relaxed: Relaxed) -> int:
    return max((_RANKS[kind] for kind in relaxed.kinds), default=-1)


def _in_words(code: CauseCode, names: str, hosts: str, relaxed: Relaxed) -> str:
    if code is CauseCode.DISABLED:
        return f"{hosts} would be suitable, but the compute services are disabled"
    limits = f" ({', '.join(relaxed.limits)})" if relaxed.limits else ""
    if code is CauseCode.RESOURCES:
        return f"no suitable host can provide {names}{limits}"
    return f"{hosts} would be suitable without {names}{limits}"


def _of_hosts(decision: Decision) -> Iterator[FailureCause]:
    """Yield why no host could be chosen."""
    stages = [stage for stage in rendering.funnel(decision) if stage.kind == "filter"]
    if stages and not stages[-1].end:
        yield _of_filters(stages)
    yield from _of_claims(decision)
    words = "hosts passed, but none can be claimed: they are mapped to no cell, or no candidate is left"
    yield FailureCause(CauseCode.UNCLAIMABLE, "", words)


def _of_filters(stages: Sequence[rendering.Stage]) -> FailureCause:
    """Return the filter that rejected most hosts in the last round; the last of equal ones."""
    rounds: list[rendering.Stage] = []
    for stage in reversed(stages):
        if rounds and (stage.instance, stage.end) != (rounds[-1].instance, rounds[-1].start):
            break
        rounds.append(stage)
    worst = max(rounds, key=lambda stage: (stage.start or 0) - stage.end)
    entered = worst.start or 0
    reason = worst.causes[0].reason if worst.causes else ""
    words = f"{worst.name} rejected {entered - worst.end} of {count_text(entered, 'host')}"
    code = code_of_filter(worst.name, reason)
    return FailureCause(code, worst.name, f"{words}: {reason}" if reason else words)


def code_of_kind(kind: str) -> CauseCode:
    return _CODE_OF_KIND[ConstraintKind(kind)]


def code_of_filter(name: str, reason: str) -> CauseCode:
    """Return the cause for a filter that rejected hosts for this reason."""
    code = _CODE_OF_FILTER.get(name, CauseCode.FILTER)
    if code is CauseCode.COMPUTE_DOWN and reason.startswith("service disabled"):
        return CauseCode.DISABLED
    return code


def _of_claims(decision: Decision) -> Iterator[FailureCause]:
    if lost := decision.refused_claims:
        words = (
            f"{count_text(len(lost), 'claim')} refused, the last on host {lost[-1].host}: {lost[-1].cause}"
        )
        yield FailureCause(CauseCode.CLAIMS, "", words)


# -- lists -----------------------------------------------------------------------------------------------


def list_values(entry: Entry, encoded: bytes) -> dict[str, Any]:
    """Return a decision as one entry of a list; its ``cause`` is null unless it found no valid host."""
    decision = decode(encoded) if entry.result == FAILED else None
    error = decision and decision.error
    found = decision and cause_of(decision)
    return {
        **entry.values(),
        "error": error and error.kind,
        "cause": found and {**found._asdict(), "remedy": found.remedy},
    }
