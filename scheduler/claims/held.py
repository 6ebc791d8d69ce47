"""What instances hold already: reading it, and as a candidate to claim again.

The broker delivers a request again if it does not know that the request was answered. The first delivery may
have been answered with the hosts that its instances hold now, so these are to be the answer once more.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from scheduler.claims.result import ClaimResult
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.outcomes import Outcome
from scheduler.request.query import Query


class NothingSent:
    """Takes the place of claims that instances hold already, or shall not hold: nothing is sent."""

    def claim_many(self, candidates: Mapping[str, AllocationCandidate]) -> Mapping[str, ClaimResult]:
        """Return that each instance has its allocations."""
        return dict.fromkeys(candidates, ClaimResult(Outcome.DONE))


def held_candidate(
    held: Resources, nodes: Collection[str], ignored: Collection[str], queries: Iterable[Query]
) -> AllocationCandidate | None:
    """Return what an instance holds as a candidate, if it is what a request wants.

    Args:
        nodes: UUIDs of the compute nodes among the providers.
        ignored: UUIDs of the compute nodes of hosts that the request ignores: what an evacuated instance
            holds there is not from this request.

    Returns:
        The candidate; None if the instance holds nothing, something else, or something of several nodes.
    """
    ours = {provider: entry for provider, entry in held.items() if provider not in ignored}
    roots = [provider for provider in ours if provider in nodes]
    if len(roots) != 1 or _total(ours) not in [query.amounts() for query in queries]:
        return None
    return AllocationCandidate.of(roots[0], (roots[0],), ours, {})


def _total(allocations: Resources) -> Counter[str]:
    total: Counter[str] = Counter()
    for entry in allocations.values():
        total.update(entry["resources"])
    return total
