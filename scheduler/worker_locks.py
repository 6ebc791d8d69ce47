"""Locks among the workers of one daemon: files of a directory that the workers share.

The kernel releases the lock of a worker that dies. Nothing depends on a lock: where its file cannot be used,
and where the worker that has it takes too long (it may be stopped), a worker goes on without.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
import fcntl
import math
import os
from pathlib import Path
import struct
import time
from typing import Self, TypeVar

from scheduler import deadline

#: A wait for several holders of one lock, one after the other, ends after so many times the patience.
MOST_HOLDERS = 2

#: Seconds between the first two looks at a lock, and the longest between two looks at a slot.
FIRST_PAUSE = 0.001
SLOT_PAUSE = 0.005

_MOMENTS = struct.Struct("=dd")  # since when a lock is held, and when its holder began

Found = TypeVar("Found")


class FileLock:
    """A lock among processes and threads, which the kernel releases when its holder ends.

    The file tells since when it is held, and when its holder began with what it is for, if that waited for
    something else first. A lock that was released in an orderly way leaves it empty.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._is_held = False
        self._held_since = -math.inf

    def acquire(self) -> bool:
        """Return whether the lock could be taken without a wait."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._is_held = True
        return True

    def mark(self, now: float) -> None:
        """Tell the others that it is held from now on."""
        self._held_since = now
        os.pwrite(self._file, _MOMENTS.pack(now, -math.inf), 0)

    def begin(self, now: float) -> None:
        """Tell the others that what the lock is for begins now."""
        os.pwrite(self._file, _MOMENTS.pack(self._held_since, now), 0)

    def told(self) -> tuple[float, float]:
        """Return since when another process holds it, and when it began; minus infinity: not told."""
        told = os.pread(self._file, _MOMENTS.size, 0)
        held_since, begun_at = _MOMENTS.unpack(told) if len(told) == _MOMENTS.size else (-math.inf, -math.inf)
        return held_since, begun_at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Give it back, if it is held; it cannot be used any more."""
        try:
            if self._is_held:
                os.ftruncate(self._file, 0)
        finally:
            os.close(self._file)


class WorkerLocks:
    """The locks of a directory. Any thread of any process may use it."""

    def __init__(
        self,
        directory: Path | None,
        report_failure: Callable[[OSError], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Use the locks of a directory.

        Args:
            directory: The directory; None: there are no other processes.
            report_failure: Called when a lock cannot be used.
            clock: Seconds that only grow, the same for all processes.
            sleep: Waits so many seconds.
        """
        self._directory = directory
        self._report_failure = report_failure
        self._clock = clock
        self._sleep = sleep

    @contextmanager
    def slot(self, kind: str, at_once: int, patience: float) -> Iterator[None]:
        """Wait until fewer than so many of a kind are in flight in all processes, and be one of them.

        Who waits first is next: else a process that has much to do would keep the slot for itself.

        Args:
            kind: The name of the slots.
            at_once: The number of slots; 0: there is no wait.
            patience: Seconds after which a holder is not waited for, as it may be stopped.
        """
        if self._directory is None or not at_once:
            yield
            return
        next_one = self._directory / f"{kind}-next.lock"
        slots = [self._directory / f"{kind}-{number}.lock" for number in range(at_once)]
        with ExitStack() as held:
            with self.hold([next_one], patience, SLOT_PAUSE):
                held.enter_context(self.hold(slots, patience, SLOT_PAUSE))
            yield

    @contextmanager
    def hold(
        self,
        paths: Sequence[Path],
        patience: float,
        longest_pause: float,
        look: Callable[[], Found | None] = lambda: None,
        on_begun: Callable[[float], None] = lambda _moment: None,
    ) -> Iterator[Found | FileLock | None]:
        """Yield what ``look`` finds, or one of the locks, held; None: neither, and it goes on without.

        Args:
            paths: The files of the locks, of which one is taken.
            patience: Seconds after which a holder is not waited for, as it may be stopped.
            longest_pause: Seconds between two looks, at most.
            look: Returns what makes the lock unnecessary; None: nothing does.
            on_begun: Called during the wait with the moment at which a holder began (``FileLock.begin``).
        """
        with ExitStack() as stack:
            try:
                locks = [stack.enter_context(FileLock(path)) for path in paths]
                found = self._wait(locks, patience, longest_pause, look, on_begun)
            except OSError as error:
                self._report_failure(error)
                found = None
            yield found

    def _wait(
        self,
        locks: Sequence[FileLock],
        patience: float,
        longest_pause: float,
        look: Callable[[], Found | None],
        on_begun: Callable[[float], None],
    ) -> Found | FileLock | None:
        began = self._clock()
        latest = began + min(deadline.current().remaining() / 2, MOST_HOLDERS * patience)
        pause = FIRST_PAUSE
        while True:
            found = look()
            held = None if found else next((lock for lock in locks if lock.acquire()), None)
            if held:
                found = look()  # of who had the lock before
            if found:
                return found
            if held:
                held.mark(self._clock())
                return held
            since, begun_at = map(max, zip(*(lock.told() for lock in locks), strict=True))
            if begun_at > -math.inf:
                on_begun(begun_at)
            if self._clock() >= min(latest, (began if since == -math.inf else since) + patience):
                return None
            self._sleep(pause)
            pause = min(2 * pause, longest_pause)
