"""The journal of claims whose request is not answered yet, in memory that outlives the process.

A worker that is killed between a claim and its reply leaves allocations in Placement that no caller was told
of. So each claim is recorded before it is sent, and the record is removed before the reply is sent. The
worker that replaces a killed one finds its records and gives these claims back. A record stays until that is
done, so that it is found again if that worker is killed too.

The memory belongs to the master, which makes it before it forks (``Journal``). Each worker has a page of it,
guarded by a file lock that ends with the process however that ends (``JournalPage``). What a record tells of
a claim is known to ``ClaimJournal`` alone; a page stores any JSON.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
import fcntl
import mmap
import os
import struct
import threading
from typing import Any

import orjson
from oslo_log import log

from scheduler.claims.allocations_api import ConsumerAllocations, Owner
from scheduler.claims.result import ClaimResult, Outcome

LOG = log.getLogger(__name__)

# Claims of one worker that are not answered at one time; a batch of twenty for each of its threads is less.
RECORDS = 256

# The record of a claim on one provider has some 300 bytes.
RECORD_SIZE = 4096

# Workers of one master. Pages that are never used take no memory.
PAGES = 256

PAGE_SIZE = RECORDS * RECORD_SIZE

_LENGTH = struct.Struct("<I")


class JournalPage:
    """The records of one process; any thread may use it."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._offsets: dict[str, list[int]] = {}
        self._found: list[tuple[str, Mapping[str, Any]]] = []
        for offset in range(start, start + PAGE_SIZE, RECORD_SIZE):
            self._load_record(offset)

    def found_records(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return what a dead process recorded here and did not remove: instance UUID and claim."""
        return iter(self._found)

    def add_record(self, instance_uuid: str, claim: Mapping[str, Any]) -> None:
        """Record what is needed to give back a claim: anything that is JSON.

        A record that does not fit is left out.
        """
        text = orjson.dumps([instance_uuid, claim])
        with self._lock:
            if len(text) > RECORD_SIZE - _LENGTH.size or not self._free:
                LOG.debug("Claim for instance %s is not recorded in the journal: no space", instance_uuid)
                return
            offset = self._free.pop()
            self._offsets.setdefault(instance_uuid, []).append(offset)
            # The length comes last: a record that is not complete does not count.
            self._memory[offset + _LENGTH.size : offset + _LENGTH.size + len(text)] = text
            _LENGTH.pack_into(self._memory, offset, len(text))

    def remove_records(self, instance_uuids: Collection[str]) -> None:
        """Remove all records of these instances."""
        with self._lock:
            for uuid in instance_uuids:
                for offset in self._offsets.pop(uuid, ()):
                    self._clear_record(offset)

    def _load_record(self, offset: int) -> None:
        (length,) = _LENGTH.unpack_from(self._memory, offset)
        text = self._memory[offset + _LENGTH.size : offset + min(_LENGTH.size + length, RECORD_SIZE)]
        if not length:
            self._free.append(offset)
            return
        try:
            instance_uuid, claim = orjson.loads(text)
            self._offsets.setdefault(instance_uuid, []).append(offset)
            self._found.append((instance_uuid, claim))
        except (ValueError, TypeError):
            LOG.error("A journal record of a worker that died cannot be read: %.200r", text)
            self._clear_record(offset)

    def _clear_record(self, offset: int) -> None:
        _LENGTH.pack_into(self._memory, offset, 0)
        self._free.append(offset)


class Journal:
    """The memory of all workers. It is made in the master; a worker takes a page of it."""

    def __init__(self, pages: int = PAGES) -> None:
        """Make the memory for so many workers."""
        self._size = pages * PAGE_SIZE
        self._file = os.memfd_create("berth-claims")
        os.ftruncate(self._file, self._size)
        self._memory = mmap.mmap(self._file, self._size)

    def open_page(self) -> JournalPage | None:
        """Return a page for this process, perhaps with records of a dead one; None if all are in use."""
        for start in range(0, self._size, PAGE_SIZE):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, PAGE_SIZE, start)
            except OSError:
                continue
            return JournalPage(self._memory, start)
        LOG.warning(
            "Claims of this worker are not recorded in the journal: all %d pages are in use by other workers",
            self._size // PAGE_SIZE,
        )
        return None


class ClaimJournal:
    """The recorded claims of this process; none before ``open_page``."""

    def __init__(self) -> None:
        self._page: JournalPage | None = None

    def open_page(self, journal: Journal, found: Callable[[str, ClaimResult], None]) -> None:
        """Record claims in a page of the journal from now on.

        Args:
            journal: The memory of all workers.
            found: Called with instance UUID and what is known of the claim, for each claim that a dead
                process recorded. Its record stays until it is removed.
        """
        self._page = journal.open_page()
        for uuid, record in self._page.found_records() if self._page else ():
            try:
                claim = _claim_of(record)
            except (KeyError, TypeError, AttributeError):
                LOG.error(
                    "Journal record of instance %s by a worker that died is not understood: %s", uuid, record
                )
                self.remove_records([uuid])
            else:
                found(uuid, claim)

    def record_claim(
        self, uuid: str, made: ConsumerAllocations, previous: ConsumerAllocations | None = None
    ) -> None:
        """Record a claim that is about to be sent.

        Args:
            uuid: The instance.
            made: What the claim gives it.
            previous: What it holds before and keeps besides; None for nothing.
        """
        if self._page:
            self._page.add_record(uuid, {"made": _to_json(made), "previous": previous and _to_json(previous)})

    def remove_records(self, uuids: Collection[str]) -> None:
        """Remove the records of these instances: none of their claims is to be given back any more."""
        if self._page:
            self._page.remove_records(uuids)


def _to_json(held: ConsumerAllocations) -> dict[str, Any]:
    owner = [held.owner.project_id, held.owner.user_id]
    return {"allocations": held.allocations, "generation": held.generation, "owner": owner}


def _from_json(value: Mapping[str, Any]) -> ConsumerAllocations:
    return ConsumerAllocations(value["allocations"], value["generation"], Owner(*value["owner"]))


def _claim_of(record: Mapping[str, Any]) -> ClaimResult:
    previous = record["previous"] and _from_json(record["previous"])
    return ClaimResult(Outcome.CLAIMED, made=_from_json(record["made"]), previous=previous, unsure=True)
