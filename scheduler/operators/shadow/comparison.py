"""How a decision of the shadow compares with what nova-scheduler chose."""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum

from scheduler.operators.shadow.decisions import UNCHANGED, Changes, ShadowDecision


class ShadowVerdict(StrEnum):
    """How two decisions compare, see ``MEANINGS``."""

    SAME = "same"
    EQUAL = "equal"
    UNREPORTED = "unreported"
    CHANGED = "changed"
    OTHER = "other"
    NOVA_REFUSED = "nova-refused"
    BERTH_REFUSED = "berth-refused"
    BOTH_REFUSED = "both-refused"
    UNKNOWN = "unknown"


#: What each verdict means, in the order of reports.
MEANINGS = {
    ShadowVerdict.SAME: "the same host",
    ShadowVerdict.EQUAL: "another host of equal weight",
    ShadowVerdict.UNREPORTED: "another host: it depends on placements that no compute has reported yet",
    ShadowVerdict.CHANGED: "another host: it depends on hosts that changed between the two decisions",
    ShadowVerdict.OTHER: "another host",
    ShadowVerdict.NOVA_REFUSED: "nova-scheduler found no host, Berth did",
    ShadowVerdict.BERTH_REFUSED: "Berth found no host, nova-scheduler did",
    ShadowVerdict.BOTH_REFUSED: "neither found a host",
    ShadowVerdict.UNKNOWN: "not compared",
}

#: The verdict by whether nova-scheduler and Berth found hosts.
_REFUSALS = {
    (False, False): ShadowVerdict.BOTH_REFUSED,
    (False, True): ShadowVerdict.NOVA_REFUSED,
    (True, False): ShadowVerdict.BERTH_REFUSED,
}


def compare(
    decision: ShadowDecision,
    nodes: Mapping[str, str],
    others: AbstractSet[str] = frozenset(),
    changes: Changes = UNCHANGED,
) -> ShadowVerdict:
    """Return how a decision compares with the hosts of its instances.

    Args:
        nodes: Instance -> the UUID of the compute node that nova-scheduler chose; empty: it refused.
        others: The nodes that it chose for other requests meanwhile, in whatever order.
        changes: How hosts changed between the decision and the moment at which its choice was seen.
    """
    found = bool(nodes), not decision.refusal
    if found in _REFUSALS:
        return _REFUSALS[found]
    # Which instance of a request goes to which of its hosts does not matter
    chosen = Counter(nodes.values())
    if Counter(choice.node for choice in decision.choices) == chosen:
        return ShadowVerdict.SAME
    if decision.may_be(decision.choices, nodes):
        return ShadowVerdict.EQUAL
    # Each scheduler process counts its own placements at once, and those of others when computes report them
    fuller = decision.pending.keys() | others | set(nodes.values())
    if Counter(choice.node for choice in decision.unreported) == chosen or decision.may_be(
        decision.unreported, nodes, Changes(fuller)
    ):
        return ShadowVerdict.UNREPORTED
    changes = Changes(fuller | changes.fuller, changes.freer)
    if any(decision.may_be(choices, nodes, changes) for choices in (decision.choices, decision.unreported)):
        return ShadowVerdict.CHANGED
    return ShadowVerdict.OTHER
