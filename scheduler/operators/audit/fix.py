"""Releasing what a scheduler could not release.

Only what is in a scheduler's spool is released: the consumer should hold nothing as nova has it, and nobody
has written to it since that was found (spec: placement-and-workflow 4.9).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
import math

from scheduler.claims.spool import Entry
from scheduler.operators.audit.findings import HOLDS_NOTHING, Finding
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Write

NOT_PROVED = "Not fixed: no spool has an entry for this consumer."
CHANGED = "Not fixed: the consumer does not hold what the spool says."
WRITTEN_SINCE = "Not fixed: another write to the consumer came in between; run the audit again."
FREED = "Fixed: released."
GONE = "Fixed: the consumer holds nothing any more."

#: Outcomes after which nothing is left to do.
FIXED = frozenset({FREED, GONE})


def fix(findings: Iterable[Finding], entries: Mapping[str, Entry], writer: AllocationWriter) -> list[Finding]:
    """Release what the consumers of these findings hold; return the findings with what was done.

    Args:
        entries: The entries of spools, by consumer.
    """
    return [
        replace(one, outcome=_release(one, entries.get(one.subject), writer))
        if one.kind in HOLDS_NOTHING
        else one
        for one in findings
    ]


def _release(found: Finding, entry: Entry | None, writer: AllocationWriter) -> str:
    if entry is None:
        return NOT_PROVED
    try:
        held = writer.reader.read(found.subject)
    except PlacementSilent as error:
        return f"Not fixed: {error}"
    if not held.allocations:
        return GONE
    if held.generation != found.generation:
        return WRITTEN_SINCE
    if entry.kept.providers or entry.generation not in {None, held.generation}:
        return CHANGED
    release = {found.subject: Write({}, held.owner, held.generation)}
    written = writer.write(release, until=-math.inf)[found.subject]
    return FREED if written.outcome is Outcome.DONE else f"Not fixed: {written.reason}"
