"""Claims whose request is not answered yet, in memory that outlives the process which made them.

A worker that is killed between a claim and its reply would leave allocations that nobody knows of. So each
claim is noted before it is sent, and the note is dropped before the reply is. The worker that takes the place
of a dead one finds its notes and takes back what they tell of; a note stays until that is done, so that it
is found again if that worker dies too.

The memory belongs to the master, which makes it before it forks. Each worker has a page of it, held by a file
lock that ends with the process however that ends.

What is noted of claims until their request is answered; see ``journal`` for where.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
import fcntl
import mmap
import os
import struct
import threading

import orjson
from oslo_log import log

from scheduler.claims.allocations_api import ConsumerAllocations, Owner
from scheduler.claims.result import ClaimResult, Outcome

LOG = log.getLogger(__name__)

# A page holds so many notes of at most so many bytes. What does not fit is not noted.
NOTES = 256
NOTE_SIZE = 4096
PAGE_SIZE = NOTES * NOTE_SIZE

PAGES = 256

_LENGTH = struct.Struct("<I")


class Page:
    """The notes of one process; any thread may use it."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._places: dict[str, list[int]] = {}
        self._left: list[tuple[str, Mapping]] = []
        for place in range(start, start + PAGE_SIZE, NOTE_SIZE):
            self._take_over(place)

    def left(self) -> Iterator[tuple[str, Mapping]]:
        """What another process noted here and did not drop: instance and claim."""
        return iter(self._left)

    def note(self, instance: str, claim: Mapping) -> None:
        """Keep what is needed to take back a claim: anything that is JSON."""
        text = orjson.dumps([instance, claim])
        with self._lock:
            if len(text) > NOTE_SIZE - _LENGTH.size or not self._free:
                LOG.debug("The claim of instance %s is not noted", instance)
                return
            place = self._free.pop()
            self._places.setdefault(instance, []).append(place)
            # The length comes last: a note that was not finished is none.
            self._memory[place + _LENGTH.size : place + _LENGTH.size + len(text)] = text
            _LENGTH.pack_into(self._memory, place, len(text))

    def drop(self, instances: Collection[str]) -> None:
        """Forget all that was noted of these instances."""
        with self._lock:
            for instance in instances:
                for place in self._places.pop(instance, ()):
                    self._clear(place)

    def _take_over(self, place: int) -> None:
        (length,) = _LENGTH.unpack_from(self._memory, place)
        text = self._memory[place + _LENGTH.size : place + min(_LENGTH.size + length, NOTE_SIZE)]
        if not length:
            self._free.append(place)
            return
        try:
            instance, claim = orjson.loads(text)
            self._places.setdefault(instance, []).append(place)
            self._left.append((instance, claim))
        except (ValueError, TypeError):
            LOG.error("A note of a worker that died cannot be read: %.200r", text)
            self._clear(place)

    def _clear(self, place: int) -> None:
        _LENGTH.pack_into(self._memory, place, 0)
        self._free.append(place)


class Journal:
    """All pages. Made in the master; ``open`` is called in a worker."""

    def __init__(self) -> None:
        self._file = os.memfd_create("berth-claims")
        os.ftruncate(self._file, PAGES * PAGE_SIZE)
        self._memory = mmap.mmap(self._file, PAGES * PAGE_SIZE)

    def open(self) -> Page | None:
        """A page for this process, which may have notes of a dead one; None if all are in use."""
        for start in range(0, PAGES * PAGE_SIZE, PAGE_SIZE):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, PAGE_SIZE, start)
            except OSError:
                continue
            return Page(self._memory, start)
        LOG.warning("There are more than %d workers: the claims of this one are not noted", PAGES)
        return None


class ClaimJournal:
    """The notes of this process; without a journal there are none."""

    def __init__(self) -> None:
        self._page: Page | None = None

    def open(self, journal: Journal, found: Callable[[str, ClaimResult], None]) -> None:
        """Note claims there from now on.

        ``found`` is called for each claim that a dead process noted: instance, and what it takes to undo it.
        The note stays until it is dropped.
        """
        self._page = journal.open()
        for uuid, note in self._page.left() if self._page else ():
            try:
                claim = _read(note)
            except (KeyError, TypeError, AttributeError):
                LOG.error("What a worker that died noted of instance %s is not understood: %s", uuid, note)
                self.drop([uuid])
            else:
                found(uuid, claim)

    def write(
        self, uuid: str, made: ConsumerAllocations, previous: ConsumerAllocations | None = None
    ) -> None:
        """Note a claim that is about to be sent: what it gives the instance, and what that held before."""
        if self._page:
            self._page.note(uuid, {"made": _text(made), "previous": previous and _text(previous)})

    def drop(self, uuids: Collection[str]) -> None:
        """Nothing that was claimed for these instances is to be taken back any more."""
        if self._page:
            self._page.drop(uuids)


def _text(held: ConsumerAllocations) -> dict:
    owner = [held.owner.project_id, held.owner.user_id]
    return {"allocations": held.allocations, "generation": held.generation, "owner": owner}


def _held(text: dict) -> ConsumerAllocations:
    return ConsumerAllocations(text["allocations"], text["generation"], Owner(*text["owner"]))


def _read(note: dict) -> ClaimResult:
    previous = note["previous"] and _held(note["previous"])
    return ClaimResult(Outcome.CLAIMED, made=_held(note["made"]), previous=previous, unsure=True)
