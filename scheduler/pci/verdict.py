"""Does a host have the devices, for which of its allocation candidates, and what is left afterwards?

spec: numa-and-pci 4.6, 4.7, 5.2, 5.3

Why devices were refused, for people.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.pci.offer import Mappings, Offer, make_offer
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest
from scheduler.pci.taking import Place, Refusal, Step, take

_LINES = {
    Step.DESCRIPTION: "only {lacking}",
    Step.NUMA: "only {lacking} for NUMA policy {policy} on {cells}",
    Step.USE: "only {lacking} and may be given to who does not ask for their kind",
    Step.PLACEMENT: "only {lacking} in the providers that placement chose",
    Step.AMBIGUOUS: "two pools of the host belong to one placement provider; wanted is {what}",
    Step.UNRESOLVED: "placement chose no provider for {what}",
}


def explain(refusal: Refusal, offer: Offer, place: Place) -> str:
    """One line for a refusal of one of the offer's demands."""
    demand = offer.demands[refusal.request]
    if refusal.step is Step.DESCRIPTION and not refusal.free:
        return f"no pool matches {demand.what}"
    lacking = f"{refusal.free} of {demand.count} devices free that match {demand.what}"
    return _LINES[refusal.step].format(
        what=demand.what, lacking=lacking, policy=demand.policy, cells=_cells(place)
    )


def _cells(place: Place) -> str:
    if not place.cells:
        return "any NUMA cell"
    return f"NUMA cell{'s' * (len(place.cells) > 1)} {', '.join(map(str, sorted(place.cells)))}"


ANYWHERE = Place()
_NOT_KNOWN = "the host's PCI devices are not known yet"


@dataclass(frozen=True)
class Applied:
    """The pools after serving the requests; ``reason`` says which was refused, and those after it with it."""

    pools: PoolSet
    reason: str = ""

    @property
    def complete(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Accepted:
    """Which candidates of a host (their indices, in order) can be used; if none, ``reason`` says why."""

    indices: tuple[int, ...]
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.indices)


def supported(
    pools: PoolSet,
    requests: tuple[PciRequest, ...],
    mappings: Mappings | None = None,
    place: Place = ANYWHERE,
) -> str:
    """Why the pools cannot serve the requests; empty if they can. Nothing is taken."""
    return _take(pools, requests, mappings, place)[1]


def apply(
    pools: PoolSet,
    requests: tuple[PciRequest, ...],
    mappings: Mappings | None = None,
    place: Place = ANYWHERE,
) -> Applied:
    """Take the requested devices out of the pools, as far as it goes."""
    counts, reason = _take(pools, requests, mappings, place)
    return Applied(pools.with_counts(counts), reason)


def _take(
    pools: PoolSet, requests: tuple[PciRequest, ...], mappings: Mappings | None, place: Place
) -> tuple[Sequence[int | None], str]:
    if not requests:
        return pools.counts, ""
    offer = make_offer(pools, requests, mappings)
    counts, refusal = take(offer, place)
    return counts, (pools.problem or explain(refusal, offer, place)) if refusal else ""


def usable_candidates(
    pools: PoolSet | None, requests: tuple[PciRequest, ...], mappings: Sequence[Mappings | None]
) -> Accepted:
    """Which of a host's allocation candidates its devices can serve, NUMA cells left aside.

    ``mappings`` has one entry a candidate; ``pools`` None means that the host has not reported yet.
    """
    if not requests:
        return Accepted(tuple(range(len(mappings))))
    if pools is None:
        return Accepted((), _NOT_KNOWN)
    reasons = [supported(pools, requests, mapping) for mapping in mappings]
    accepted = tuple(index for index, reason in enumerate(reasons) if not reason)
    return Accepted(accepted, "" if accepted else next(iter(reasons), "no allocation candidate is left"))
