"""The claims in the journal of the scheduler: about to be sent or sent, and not yet answered to the caller.

An audit needs no more of the journal than to go through them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler.claims.journal import DIRECTORY_PREFIX
from scheduler.claims.journal_page import read_records
from scheduler.claims.page_file import SUFFIX
from scheduler.claims.result import OwnWrite
from scheduler.placement.allocations import ConsumerAllocations


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """One claim as the journal has it.

    Attributes:
        consumer: the instance.
        write: what the claim gave it, and what it had before and kept, as for an evacuation.
    """

    consumer: str
    write: OwnWrite


def by_consumer(claims: Iterable[RecordedClaim], wanted: Iterable[str]) -> dict[str, list[RecordedClaim]]:
    """Return the recorded claims of these consumers; the others are not kept in memory."""
    found: dict[str, list[RecordedClaim]] = {consumer: [] for consumer in wanted}
    for claim in claims:
        if claim.consumer in found:
            found[claim.consumer].append(claim)
    return found


def recorded_claims(directory: Path = Path("/proc"), kept: Path | None = None) -> Iterator[RecordedClaim]:
    """Return the claims in the journals of the schedulers that run on this machine, and in a kept journal.

    The files of a running scheduler are found among the open files of its processes. Only a user who may look
    into these processes can read them; the others find nothing. A journal is read as it is now, and never
    changed.

    Args:
        directory: Where the kernel shows processes.
        kept: The directory of the journal of a scheduler that may not be running.
    """
    paths = set(kept.glob(f"*{SUFFIX}")) if kept else set()
    for link in directory.glob("[0-9]*/fd/*"):
        try:
            path = link.readlink()
        except OSError:
            continue
        if path.suffix == SUFFIX and path.parent.name.startswith(DIRECTORY_PREFIX):
            paths.add(path)
    for path in sorted({path.resolve() for path in paths}):
        for consumer, record in read_records(path):
            try:
                yield _claim(consumer, record)
            except (KeyError, TypeError, AttributeError):
                continue


def _claim(consumer: str, record: Mapping) -> RecordedClaim:
    previous = record["previous"] and _held(record["previous"])
    return RecordedClaim(consumer, OwnWrite(_held(record["made"]), previous))


def _held(value: Mapping) -> ConsumerAllocations:
    return ConsumerAllocations(value["allocations"], value["generation"])
