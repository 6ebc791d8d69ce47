"""Giving back what a recorded claim wrote.

Only what the journal proves to be the scheduler's is given back: the consumer should hold nothing, it holds
exactly what one recorded claim wrote, and its generation has not changed since that was read
(spec: placement-and-workflow 4.9).
"""

from collections.abc import Iterable
from dataclasses import replace

from scheduler.audit.findings import HOLDS_NOTHING, Finding
from scheduler.audit.recorded_claims import RecordedClaim, by_consumer
from scheduler.claims.allocations_api import AllocationsApi, ConsumerAllocations, emptying_body
from scheduler.placement.errors import PlacementSilent

NOT_PROVED = "Not fixed: the journal has no claim for this consumer."
CHANGED = "Not fixed: the consumer does not hold exactly what the journal says."
FREED = "Fixed: given back."
GONE = "Fixed: the consumer holds nothing any more."

#: Outcomes after which nothing is left to do.
FIXED = frozenset({FREED, GONE})


def fix(findings: Iterable[Finding], claims: Iterable[RecordedClaim], api: AllocationsApi) -> list[Finding]:
    """Give back what the recorded claims of these findings wrote; return the findings with what was done."""
    findings = list(findings)
    wanted = [one.subject for one in findings if one.kind in HOLDS_NOTHING]
    recorded = by_consumer(claims, wanted)
    return [
        replace(one, outcome=_give_back(one.subject, recorded[one.subject], api))
        if one.kind in HOLDS_NOTHING
        else one
        for one in findings
    ]


def _give_back(consumer: str, claims: list[RecordedClaim], api: AllocationsApi) -> str:
    if not claims:
        return NOT_PROVED
    try:
        held = api.get_allocations(consumer)
        if not held.allocations:
            return GONE
        if not any(_wrote(claim, held) for claim in claims):
            return CHANGED
        reply = api.put_allocations(consumer, emptying_body(held))
    except PlacementSilent as error:
        return f"Not fixed: {error}"
    return FREED if reply.status == 204 else f"Not fixed: {reply.summary}"


def _wrote(claim: RecordedClaim, held: ConsumerAllocations) -> bool:
    now = {provider: dict(entry["resources"]) for provider, entry in held.allocations.items()}
    return not claim.kept and now == {provider: dict(amounts) for provider, amounts in claim.written.items()}
