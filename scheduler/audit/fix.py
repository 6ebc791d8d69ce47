"""Giving back what a recorded claim wrote.

Only what the journal proves to be the scheduler's is given back: the consumer should hold nothing, nobody has
written to it since that was found, and it holds what one recorded claim wrote, with the generation that this
claim made (spec: placement-and-workflow 4.9).
"""

from collections.abc import Iterable
from dataclasses import replace
import math

from scheduler.audit.findings import HOLDS_NOTHING, Finding
from scheduler.audit.recorded_claims import RecordedClaim, by_consumer
from scheduler.claims.result import own_write_in
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.writes import Write, WriteResult

NOT_PROVED = "Not fixed: the journal has no claim for this consumer."
CHANGED = "Not fixed: the consumer does not hold exactly what the journal says."
WRITTEN_SINCE = "Not fixed: another write to the consumer came in between; run the audit again."
FREED = "Fixed: given back."
GONE = "Fixed: the consumer holds nothing any more."

#: Outcomes after which nothing is left to do.
FIXED = frozenset({FREED, GONE})


def fix(
    findings: Iterable[Finding], claims: Iterable[RecordedClaim], writer: AllocationWriter
) -> list[Finding]:
    """Give back what the recorded claims of these findings wrote; return the findings with what was done."""
    findings = list(findings)
    wanted = [one.subject for one in findings if one.kind in HOLDS_NOTHING]
    recorded = by_consumer(claims, wanted)
    return [
        replace(one, outcome=_give_back(one, recorded[one.subject], writer))
        if one.kind in HOLDS_NOTHING
        else one
        for one in findings
    ]


def _give_back(found: Finding, claims: list[RecordedClaim], writer: AllocationWriter) -> str:
    if not claims:
        return NOT_PROVED
    try:
        held = writer.reader.read(found.subject)
        if not held.allocations:
            return GONE
        if held.generation != found.generation:
            return WRITTEN_SINCE
        own = own_write_in([claim.write for claim in claims], held)
        if own is None or own.previous:
            return CHANGED
    except PlacementSilent as error:
        return f"Not fixed: {error}"
    release = {found.subject: Write({}, held.owner, held.generation)}
    written = writer.write(release, until=-math.inf)[found.subject]
    return FREED if written.result is WriteResult.DONE else f"Not fixed: {written.reason}"
