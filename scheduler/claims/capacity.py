"""Whether claims of several processes that overlapped have filled a provider beyond its capacity.

Placement checks the capacity in each claim, but can grant two that overlap and do not fit together: its own
retry reads the usage as it was before (spec: placement-and-workflow 6.1). Claims of one process on a provider
do not overlap, those of several do. The one that is carried out last sees the other. So a claim that leaves a
host little room is checked once it is granted, and released if it was one too many.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from scheduler.bounds import deadline
from scheduler.placement.answer import Resources, Usage
from scheduler.placement.write_policy import Timing, WritePolicy

ReadFree = Callable[[str], Mapping[str, float]]
"""Provider UUID → resource class → what is left, as far as it is known without a query."""

ReadUsage = Callable[[str], Mapping[str, Usage]]
"""Provider UUID → resource class → usage in Placement now; empty if it gives no answer."""

Added = Mapping[str, Resources]
"""Instance UUID → what its claim added, by provider."""


class Excess(NamedTuple):
    """A resource class that is used beyond its capacity on a provider."""

    provider: str
    resource_class: str


class CheckedClaims(NamedTuple):
    """What a check has found.

    Attributes:
        within: Instances on providers that are within their capacity.
        over: Instances whose claims have to be released, with the reason.
    """

    within: frozenset[str] = frozenset()
    over: Mapping[str, Excess] = {}


@dataclass(frozen=True)
class OvercommitCheck:
    """Checks claims that were granted, and leave little room.

    Room is little if ``others`` more claims of the same size would not fit. Claims of other schedulers that
    are known are no room any more, so ``others`` stands for those that this process does not know yet.

    Attributes:
        free: What is left, the claims to be checked counted.
        read: Reads usages from Placement.
        others: Claims of other processes that may have overlapped; 0: nothing is checked.
        policy: The delay before a claim is released.
        timing: Sleep and randomness.
    """

    free: ReadFree
    read: ReadUsage
    others: int
    policy: WritePolicy = field(default_factory=WritePolicy)
    timing: Timing = field(default_factory=Timing)

    def check(self, added: Added) -> CheckedClaims:
        """Return which claims have to be released.

        Of several schedulers that find a provider over its capacity each waits for a random time, and looks
        again: the first ones release, and the last ones find that enough. If Placement gives no answer, or
        the deadline of the request has passed, the claim stays.

        Args:
            added: The claims, which are in effect.
        """
        if not self.others:
            return CheckedClaims()
        near = {uuid: self._nearly_full(one) for uuid, one in added.items()}
        usages = {provider: self._usage_of(provider) for provider in dict.fromkeys(chain(*near.values()))}
        known = {uuid for uuid, providers in near.items() if providers and all(map(usages.get, providers))}
        over: dict[str, Excess] = {}
        if any(one.used > one.capacity for usage in usages.values() for one in usage.values()):
            self.timing.pause(self.timing.uniform(*self.policy.retry_delay))
            for provider, usage in usages.items():
                if any(one.used > one.capacity for one in usage.values()):
                    _choose_one_by_one(provider, self._usage_of(provider), added, over)
        return CheckedClaims(frozenset(known - over.keys()), over)

    def _usage_of(self, provider: str) -> Mapping[str, Usage]:
        return {} if deadline.current().expired else self.read(provider)

    def _nearly_full(self, added: Resources) -> list[str]:
        """Return the providers that a claim leaves little room on, or an unknown room."""
        return [
            provider
            for provider, entry in added.items()
            if self._is_little(self.free(provider), entry["resources"])
        ]

    def _is_little(self, left: Mapping[str, float], wanted: Mapping[str, int]) -> bool:
        return any(left.get(name, 0.0) < self.others * amount for name, amount in wanted.items())


def _choose_one_by_one(
    provider: str, usage: Mapping[str, Usage], added: Added, over: dict[str, Excess]
) -> None:
    """Add claims to ``over``, the last ones first, until the rest fits on a provider."""
    for name, one in usage.items():
        takers = {uuid: amount for uuid, held in added.items() if (amount := _amount(held, provider, name))}
        excess = one.used - one.capacity - sum(takers[uuid] for uuid in takers.keys() & over.keys())
        for uuid in reversed(takers):
            if excess > 0 and uuid not in over:
                over[uuid] = Excess(provider, name)
                excess -= takers[uuid]


def _amount(held: Resources, provider: str, name: str) -> int:
    entry = held.get(provider)
    return int(entry["resources"].get(name, 0)) if entry else 0
