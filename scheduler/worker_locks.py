"""Locks among the workers of one daemon: files of a directory that the workers share.

The kernel releases the lock of a worker that dies, and wakes those that wait for it. Nothing depends on a
lock: where its file cannot be used, and where the worker that has it takes too long (it may be stopped), a
worker goes on without.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
import fcntl
import math
import os
from pathlib import Path
import select
import struct
import time
from typing import Self, TypeVar

from scheduler import deadline

#: A wait for several holders of one lock, one after the other, ends after so many times the patience.
MOST_HOLDERS = 2

#: Seconds between two looks at a lock that is not released, and before its holder has begun.
LONGEST_PAUSE = 0.25
PAUSE_BEFORE_BEGIN = 0.02

#: Seconds before the next look at a lock that another worker has taken at its release; doubled each time.
FIRST_PAUSE = 0.001

_MOMENTS = struct.Struct("=dd")  # since when a lock is held, and when its holder began

Found = TypeVar("Found")

Wait = Callable[[Sequence[int], float], bool]
"""Waits until a FIFO has lost its last writer, for so many seconds at most; returns whether one has."""


def wait_for_release(files: Sequence[int], seconds: float) -> bool:
    """Wait until one of these FIFOs has lost its last writer, for so many seconds at most.

    Args:
        files: Open for reading.
        seconds: How long.

    Returns:
        Whether one has; False if none has a writer, or has had one since it was opened.
    """
    poll = select.poll()
    for file in files:
        poll.register(file, 0)  # POLLHUP is always told
    return bool(poll.poll(math.ceil(seconds * 1000)))


class FileLock:
    """A lock among processes and threads, which the kernel releases when its holder ends.

    The file tells since when it is held, and when its holder began with what it is for, if that waited for
    something else first. A lock that was released in an orderly way leaves it empty.

    A FIFO beside it is open for writing while the lock is held: its end wakes those that read it.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._fifo_path = path.with_suffix(".fifo")
        self._fifo: int | None = None
        self._is_held = False
        self._held_since = -math.inf

    def acquire(self) -> bool:
        """Return whether the lock could be taken without a wait."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._is_held = True
        self._open_fifo(os.O_RDWR)
        return True

    def listen(self) -> int:
        """Return the FIFO, open for reading. A release after that is told (``wait_for_release``)."""
        return self._open_fifo(os.O_RDONLY | os.O_NONBLOCK)

    def _open_fifo(self, flags: int) -> int:
        with suppress(FileExistsError):
            os.mkfifo(self._fifo_path, 0o600)
        file = os.open(self._fifo_path, flags | os.O_CLOEXEC)
        if self._fifo is not None:
            os.close(self._fifo)
        self._fifo = file
        return file

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
                with suppress(OSError):  # it only tells others less
                    os.ftruncate(self._file, 0)
        finally:
            os.close(self._file)
            if self._fifo is not None:  # last, so that those whom this wakes can take the lock
                os.close(self._fifo)


class WorkerLocks:
    """The locks of a directory. Any thread of any process may use it."""

    def __init__(
        self,
        directory: Path | None,
        report_failure: Callable[[OSError], None],
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = wait_for_release,
    ) -> None:
        """Use the locks of a directory.

        Args:
            directory: The directory; None: there are no other processes.
            report_failure: Called when a lock cannot be used.
            clock: Seconds that only grow, the same for all processes.
            wait: Waits for a release.
        """
        self._directory = directory
        self._report_failure = report_failure
        self._clock = clock
        self._wait = wait

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
            with self.hold([next_one], patience):
                held.enter_context(self.hold(slots, patience))
            yield

    @contextmanager
    def hold(
        self,
        paths: Sequence[Path],
        patience: float,
        look: Callable[[], Found | None] = lambda: None,
        on_begun: Callable[[float], None] | None = None,
    ) -> Iterator[Found | FileLock | None]:
        """Yield what ``look`` finds, or one of the locks, held; None: neither, and it goes on without.

        Args:
            paths: The files of the locks, of which one is taken.
            patience: Seconds after which a holder is not waited for, as it may be stopped.
            look: Returns what makes the lock unnecessary; None: nothing does.
            on_begun: Called during the wait with the moment at which a holder began (``FileLock.begin``).
        """
        with ExitStack() as stack:
            try:
                locks = [stack.enter_context(FileLock(path)) for path in paths]
                found = self._acquire(locks, patience, look, on_begun)
            except OSError as error:
                self._report_failure(error)
                found = None
            yield found

    def _acquire(
        self,
        locks: Sequence[FileLock],
        patience: float,
        look: Callable[[], Found | None],
        on_begun: Callable[[float], None] | None,
    ) -> Found | FileLock | None:
        began = self._clock()
        latest = began + min(deadline.current().remaining() / 2, MOST_HOLDERS * patience)
        releases = _Releases(locks, self._wait)
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
            has_begun = begun_at > -math.inf
            if on_begun and has_begun:
                on_begun(begun_at)
            left = min(latest, (began if since == -math.inf else since) + patience) - self._clock()
            if left <= 0:
                return None
            releases.wait(min(left, LONGEST_PAUSE if has_begun or not on_begun else PAUSE_BEFORE_BEGIN))


class _Releases:
    """The releases of some locks, as one that waits for any of them is told of them."""

    def __init__(self, locks: Sequence[FileLock], wait: Wait) -> None:
        self._locks = locks
        self._wait = wait
        self._files: list[int] = []
        self._was_told = False
        self._pause = FIRST_PAUSE

    def wait(self, seconds: float) -> None:
        """Wait for a release, for so many seconds at most; the locks are to be tried after that.

        The first call only begins to listen: the release may have been before.
        """
        if not self._files:
            self._files = [lock.listen() for lock in self._locks]
            return
        told = self._wait(self._files, seconds)
        if told and self._was_told:
            # Told again at once while another worker is taking the lock, or if it could not open the FIFO.
            self._wait((), self._pause)
            self._pause = min(2 * self._pause, PAUSE_BEFORE_BEGIN)
        self._was_told = told
