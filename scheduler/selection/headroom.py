"""What Placement had left when it was asked, less what a request plans to take.

spec: placement-and-workflow 4.9, 7.1
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Usages = Callable[[str], Mapping[str, Any]]
"""Provider uuid → resource class → ``capacity`` and ``used``; empty for one of which nothing is known."""


def nothing_known(_provider: str) -> Mapping[str, Any]:
    """There is room for everything."""
    return {}


class Headroom:
    """For plans only: whether a claim succeeds is Placement's to say."""

    def __init__(self, usages: Usages = nothing_known) -> None:
        self._usages = usages
        self._planned: Counter[tuple[str, str]] = Counter()

    def fits(self, candidate: Any) -> bool:
        """Whether the candidate can be had besides what is planned already."""
        return all(self._has(*share) for share in _shares(candidate))

    def take(self, candidate: Any) -> None:
        """Plan to have it."""
        for provider, name, amount in _shares(candidate):
            self._planned[provider, name] += amount

    def _has(self, provider: str, name: str, amount: int) -> bool:
        planned = self._planned[provider, name]
        usage = self._usages(provider).get(name) if planned else None
        return usage is None or usage.used + planned + amount <= usage.capacity


def _shares(candidate: Any) -> Iterator[tuple[str, str, int]]:
    for provider, entry in candidate.allocations.items():
        for name, amount in entry["resources"].items():
            yield provider, name, amount
