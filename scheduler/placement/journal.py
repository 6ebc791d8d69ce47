"""Claims whose request is not answered yet, in memory that outlives the process which made them.

A worker that is killed between a claim and its reply would leave allocations that nobody knows of. So each
claim is noted before it is sent, and the note is dropped before the reply is. The worker that takes the place
of a dead one finds its notes and takes back what they tell of; a note stays until that is done, so that it
is found again if that worker dies too.

The memory belongs to the master, which makes it before it forks. Each worker has a page of it, held by a file
lock that ends with the process however that ends.
"""

from collections.abc import Collection, Iterator, Mapping
import fcntl
import mmap
import os
import struct
import threading

import orjson
from oslo_log import log

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
