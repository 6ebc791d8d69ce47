"""What Placement had left when it was asked, less what a request plans to claim.

spec: placement-and-workflow 4.9, 7.1
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from scheduler.placement.answer import AllocationCandidate, Usage

Usages = Callable[[str], Mapping[str, Usage] | None]
"""Provider uuid -> resource class -> usage; empty or None for an unknown provider."""


def no_usages(_provider: str) -> Mapping[str, Usage]:
    """Know nothing of any provider: everything fits."""
    return {}


class Headroom:
    """What still fits, for plans only: whether a claim succeeds is decided by Placement."""

    def __init__(self, usages: Usages = no_usages) -> None:
        self._usages = usages
        self._planned: Counter[tuple[str, str]] = Counter()

    def fits(self, candidate: AllocationCandidate) -> bool:
        """Return whether the candidate fits besides what is planned already."""
        return all(self._has(*share) for share in _shares(candidate))

    def lacking(self, candidate: AllocationCandidate) -> frozenset[str]:
        """Return the resource classes of the candidate that do not fit besides what is planned already."""
        return frozenset(share[1] for share in _shares(candidate) if not self._has(*share))

    def plan(self, candidate: AllocationCandidate) -> None:
        """Count the candidate as claimed."""
        for provider, name, amount in _shares(candidate):
            self._planned[provider, name] += amount

    def forget(self) -> None:
        """Count nothing as planned any more: Placement counts what it has granted, if it was asked."""
        self._planned.clear()

    def _has(self, provider: str, name: str, amount: int) -> bool:
        planned = self._planned[provider, name]
        usage = (self._usages(provider) or {}).get(name) if planned else None
        return usage is None or usage.used + planned + amount <= usage.capacity


def _shares(candidate: AllocationCandidate) -> Iterator[tuple[str, str, int]]:
    for provider, entry in candidate.allocations.items():
        for name, amount in entry["resources"].items():
            yield provider, name, amount
