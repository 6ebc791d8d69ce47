"""Whether a host can serve PCI requests, with which of its allocation candidates, and why not.

spec: numa-and-pci 4.6, 4.7, 5.2, 5.3
"""

from collections.abc import Sequence

from scheduler.pci.consumption import ChosenCells, PciRefusal, PciStep, consume_devices
from scheduler.pci.offer import Mappings, PciOffer, make_offer
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest

_REASONS = {
    PciStep.DESCRIPTION: "only {lacking}",
    PciStep.NUMA: "only {lacking} for NUMA policy {policy} on {cells}",
    PciStep.USE: (
        "only {lacking}; other matching devices are PF, vDPA or remote-managed and must be requested "
        "explicitly, or differ in live_migratable"
    ),
    PciStep.PLACEMENT: "only {lacking} in the providers that Placement chose",
    PciStep.AMBIGUOUS: "two pools of the host have the same Placement provider; requested: {what}",
    PciStep.UNRESOLVED: "Placement chose no provider for {what}",
}

ANY_CELLS = ChosenCells()


def explain_refusal(refusal: PciRefusal, offer: PciOffer, chosen: ChosenCells) -> str:
    """Return one line that says why a demand of the offer was refused."""
    demand = offer.demands[refusal.request]
    if refusal.step is PciStep.DESCRIPTION and not refusal.free:
        return f"no pool matches {demand.what}"
    lacking = f"{refusal.free} of {demand.count} devices free that match {demand.what}"
    return _REASONS[refusal.step].format(
        what=demand.what, lacking=lacking, policy=demand.policy, cells=_cells(chosen)
    )


def _cells(chosen: ChosenCells) -> str:
    if not chosen.cells:
        return "any NUMA cell"
    return f"NUMA cell{'s' * (len(chosen.cells) > 1)} {', '.join(map(str, sorted(chosen.cells)))}"


def served(
    pools: PoolSet,
    requests: tuple[PciRequest, ...],
    mappings: Mappings | None = None,
    chosen: ChosenCells = ANY_CELLS,
) -> tuple[Sequence[int | None], str]:
    """Return the devices that requests leave of each pool, and why one was refused; "" if none was.

    The requests after it are not served.
    """
    if not requests:
        return pools.counts, ""
    offer = make_offer(pools, requests, mappings)
    counts, refusal = consume_devices(offer, chosen)
    return counts, (pools.problem or explain_refusal(refusal, offer, chosen)) if refusal else ""
