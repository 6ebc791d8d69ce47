"""The claims in the journal of the scheduler: about to be sent or sent, and not yet answered to the caller.

An audit needs no more of the journal than to go through them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
import mmap
import os
from pathlib import Path

from scheduler.audit.compare import Holding
from scheduler.claims.journal import PAGE_SIZE, JournalPage

#: How the kernel calls the memory of a journal.
JOURNAL = "/memfd:berth-claims"


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """One claim as the journal has it.

    Attributes:
        consumer: the instance.
        written: provider UUID -> amounts that the claim gave it.
        kept: whether the consumer held something before that the claim kept, as for an evacuation.
    """

    consumer: str
    written: Holding
    kept: bool = False


def by_consumer(claims: Iterable[RecordedClaim], wanted: Iterable[str]) -> dict[str, list[RecordedClaim]]:
    """Return the recorded claims of these consumers; the others are not kept in memory."""
    found: dict[str, list[RecordedClaim]] = {consumer: [] for consumer in wanted}
    for claim in claims:
        if claim.consumer in found:
            found[claim.consumer].append(claim)
    return found


def recorded_claims(directory: Path = Path("/proc")) -> Iterator[RecordedClaim]:
    """Return the claims in the journals of the schedulers that run on this machine.

    The journal is memory of the master process, shown by the kernel as an open file. Only a user who may look
    into that process can read it; the others find nothing. It is read as it is now, and never changed.
    """
    seen = set()
    for link in directory.glob("[0-9]*/fd/*"):
        try:
            if not str(link.readlink()).startswith(JOURNAL):
                continue
            with link.open("rb") as file:
                about = os.fstat(file.fileno())
                if (about.st_dev, about.st_ino) not in seen:
                    seen.add((about.st_dev, about.st_ino))
                    yield from _claims_in(file.fileno(), about.st_size)
        except OSError:
            continue


def _claims_in(file: int, size: int) -> Iterator[RecordedClaim]:
    # A private copy: reading a page clears records that cannot be read.
    with mmap.mmap(file, size, access=mmap.ACCESS_COPY) as memory:
        for start in range(0, size - PAGE_SIZE + 1, PAGE_SIZE):
            for consumer, record in JournalPage(memory, start).found_records():
                try:
                    yield _claim(consumer, record)
                except (KeyError, TypeError, AttributeError):
                    continue


def _claim(consumer: str, record: Mapping) -> RecordedClaim:
    written = {provider: entry["resources"] for provider, entry in record["made"]["allocations"].items()}
    return RecordedClaim(consumer, written, kept=bool(record["previous"]))
