"""Why devices were refused, for people."""

from scheduler.pci.offer import Offer
from scheduler.pci.taking import Place, Refusal, Step

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
