"""Giving back what a recorded claim wrote.

Only what the journal proves to be the scheduler's is given back: the consumer should hold nothing, nobody has
written to it since that was found, and it holds what one recorded claim wrote, with the generation that this
claim made (spec: placement-and-workflow 4.9).
"""

from collections.abc import Iterable
from dataclasses import replace

from scheduler.audit.findings import HOLDS_NOTHING, Finding
from scheduler.audit.recorded_claims import RecordedClaim, by_consumer
from scheduler.claims.allocations_api import AllocationsApi, emptying_body
from scheduler.claims.result import own_write_in
from scheduler.placement.errors import PlacementSilent

NOT_PROVED = "Not fixed: the journal has no claim for this consumer."
CHANGED = "Not fixed: the consumer does not hold exactly what the journal says."
WRITTEN_SINCE = "Not fixed: another write to the consumer came in between; run the audit again."
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
        replace(one, outcome=_give_back(one, recorded[one.subject], api))
        if one.kind in HOLDS_NOTHING
        else one
        for one in findings
    ]


def _give_back(found: Finding, claims: list[RecordedClaim], api: AllocationsApi) -> str:
    if not claims:
        return NOT_PROVED
    try:
        held = api.get_allocations(found.subject)
        if not held.allocations:
            return GONE
        if held.generation != found.generation:
            return WRITTEN_SINCE
        own = own_write_in([claim.write for claim in claims], held)
        if own is None or own.previous:
            return CHANGED
        reply = api.put_allocations(found.subject, emptying_body(held))
    except PlacementSilent as error:
        return f"Not fixed: {error}"
    return FREED if reply.status == 204 else f"Not fixed: {reply.summary}"
