"""Answers to equal questions that the workers of one daemon share, so that one asks for all of them.

A question is sent by the worker that has its lock. The answer is stored in a file of a directory in memory
that the master makes before it forks. A worker that waits for the lock takes that answer if it was asked for
late enough, else asks next. So a caller gets what it would have got by asking alone: an answer to a question
that was sent at ``not_before`` or later.

There are also slots, by which all workers together bound what they have in flight.

Nothing depends on the directory. Where a file cannot be written or read, and where the worker that has the
lock takes too long (it may be stopped), a worker asks for itself. The lock of one that has died is free.
"""

import atexit
from collections.abc import Callable, Iterable
import fcntl
import hashlib
import math
import os
from pathlib import Path
import shutil
import struct
import tempfile
import time
from typing import NamedTuple

from oslo_log import log

from scheduler.logs import OutageLog
from scheduler.worker_locks import FileLock, Wait, WorkerLocks, wait_for_release

LOG = log.getLogger(__name__)

#: How the names of all directories of answers begin.
DIRECTORY_PREFIX = "berth-answers-"

#: Where memory can be used like a disk.
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the directory in it is private

#: Seconds after which the answer to a question that another worker has sent is no longer waited for.
PATIENCE = 20.0

#: Answers that are kept, their bytes, and the seconds for which they are.
MOST_ANSWERS = 32
MOST_BYTES = 256 << 20
KEPT = 120.0

# Name of a lock: the first digits of the hash of the question. Questions with equal ones wait for each other,
# and the number of lock files is bounded.
_LOCK_DIGITS = 3

_MAGIC = b"berth-a1"
_HEADER = struct.Struct("=8s32sdQ")  # magic, SHA-256 of the question, when it was sent, length of the body


class SharedAnswer(NamedTuple):
    """An answer.

    Attributes:
        asked_at: When the question was sent, in seconds of ``time.monotonic``, which is the same for all
            processes of a machine.
        body: The answer itself.
    """

    asked_at: float
    body: bytes


class SharedAnswers:
    """Asks questions, or takes the answers that other processes got. Any thread of any process may use it.

    Attributes:
        locks: The locks of these processes.
    """

    def __init__(
        self,
        directory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = wait_for_release,
        patience: float = PATIENCE,
    ) -> None:
        """Share answers in a directory.

        Args:
            directory: As ``make_directory`` makes it; None: nothing is shared, and each question is asked.
            clock: Seconds that only grow, the same for all processes.
            wait: Waits for the release of a lock.
            patience: Seconds after which the answer to another process's question is not waited for.
        """
        self._directory = directory
        self._clock = clock
        self._wait = wait
        self._patience = patience
        self._outage = OutageLog(
            LOG,
            "Answers cannot be shared with the other workers; this worker asks for itself",
            "Answers are shared with the other workers again",
            clock,
        )
        self.locks = WorkerLocks(directory, self._outage.report_failure, clock, wait)

    @property
    def shared(self) -> bool:
        """Whether there are other processes to share answers with."""
        return self._directory is not None

    def apart(self, name: str, patience: float) -> "SharedAnswers":
        """Return what shares answers of another kind, with locks and bounds of its own.

        Args:
            name: The same in all processes, and the name of a file.
            patience: Seconds after which the answer to another process's question is not waited for.
        """
        directory = self._directory and self._directory / name
        try:
            if directory:
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._outage.report_failure(error)
            directory = None
        return SharedAnswers(directory, self._clock, self._wait, patience)

    def get(
        self,
        question: str,
        not_before: float,
        ask: Callable[[], bytes],
        at_once: int = 0,
        sending: Callable[[float], None] = lambda _moment: None,
    ) -> SharedAnswer:
        """Return an answer to a question that was sent at ``not_before`` or later.

        A wait for another process ends after ``patience`` seconds, or half of what is left until the deadline
        of the request.

        Args:
            question: All that the answer depends on.
            not_before: Seconds of the clock.
            ask: Sends the question and returns the answer. What it raises is raised here, and not shared.
            at_once: How many questions that are asked with such a bound are in flight in all processes; 0: it
                is asked without one.
            sending: Called when this process or another one sends the question, or is about to: with a moment
                before that, at ``not_before`` or later.
        """
        if self._directory is None:
            return self._ask(ask, sending)
        place = _Place(self._directory, question)
        at_least = not_before

        def on_begun(moment: float) -> None:
            nonlocal at_least
            if moment > at_least:
                at_least = moment  # what ``sending`` was told must be true of the answer
                sending(moment)

        with self.locks.hold([place.lock], self._patience, lambda: place.read(at_least), on_begun) as found:
            if isinstance(found, SharedAnswer):
                return found
            with self.locks.slot("questions", at_once, self._patience):
                self._tell(found)
                answer = self._ask(ask, sending)
            if found:
                self._store(place, answer)
            return answer

    def _tell(self, lock: FileLock | None) -> None:
        """Tell those that wait that the question is sent now: who comes until then can still join them."""
        try:
            if lock:
                lock.begin(self._clock())
        except OSError as error:
            self._outage.report_failure(error)

    def _ask(self, ask: Callable[[], bytes], sending: Callable[[float], None]) -> SharedAnswer:
        asked_at = self._clock()
        sending(asked_at)
        return SharedAnswer(asked_at, ask())

    def _store(self, place: "_Place", answer: SharedAnswer) -> None:
        try:
            place.write(answer)
            _remove_old(place.directory, self._clock() - KEPT)
        except OSError as error:
            self._outage.report_failure(error)
        else:
            self._outage.report_success()


class _Place:
    """Where the answer to one question is stored."""

    def __init__(self, directory: Path, question: str) -> None:
        digest = hashlib.sha256(question.encode())
        self.directory = directory
        self.lock = directory / f"{digest.hexdigest()[:_LOCK_DIGITS]}.lock"
        self._digest = digest.digest()
        self._answer = directory / f"{digest.hexdigest()}.answer"

    def read(self, not_before: float) -> SharedAnswer | None:
        """Return the answer, if there is one to a question that was sent late enough.

        Raises:
            OSError: It cannot be read.
        """
        try:
            with self._answer.open("rb", buffering=0) as file:
                magic, digest, asked_at, length = _header(file.read(_HEADER.size))
                if (magic, digest) != (_MAGIC, self._digest) or not asked_at >= not_before:
                    return None
                body = file.readall()
        except FileNotFoundError:
            return None
        return SharedAnswer(asked_at, body) if len(body) == length else None

    def write(self, answer: SharedAnswer) -> None:
        """Store an answer, unless it is larger than all answers may be; the caller has the lock.

        Raises:
            OSError: It cannot be stored.
        """
        if len(answer.body) > MOST_BYTES:
            return
        part = self._answer.with_suffix(".part")
        try:
            with part.open("wb") as file:
                file.write(_HEADER.pack(_MAGIC, self._digest, answer.asked_at, len(answer.body)))
                file.write(answer.body)
            part.rename(self._answer)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def make_directory(parents: Iterable[str | None]) -> Path | None:
    """Make a private directory for answers, which is removed with this process.

    Those that killed processes have left are removed. To be called once in a process, before it forks.

    Args:
        parents: Where to make it; the first that is a directory which can be written to.

    Returns:
        The directory; None if there can be none, and the log says so.
    """
    failure: OSError | None = None
    for parent in parents:
        if not parent:
            continue
        try:
            _remove_abandoned(Path(parent))
            directory = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=parent))
            _lock_directory(directory)
        except OSError as error:
            failure = error
        else:
            atexit.register(_remove_own, directory, os.getpid())
            return directory
    LOG.warning("Workers ask for themselves, as there is no directory to share answers in: %s", failure)
    return None


def _header(data: bytes) -> tuple[bytes, bytes, float, int]:
    """Return the fields of a header; those of a file that is too short are not valid."""
    return _HEADER.unpack(data) if len(data) == _HEADER.size else (b"", b"", 0.0, 0)


def _remove_old(directory: Path, before: float) -> None:
    """Remove answers that were asked for before a moment, and the oldest ones while there are too many."""
    paths = [*directory.glob("*.answer"), *directory.glob("*.part")]
    size = 0
    for number, (asked_at, length, path) in enumerate(sorted(map(_describe, paths), reverse=True), 1):
        size += length
        if asked_at < before or number > MOST_ANSWERS or size > MOST_BYTES:
            path.unlink(missing_ok=True)


def _describe(path: Path) -> tuple[float, int, Path]:
    """Return when the question of a file's answer was sent, infinity if it is not known yet; its bytes."""
    try:
        with path.open("rb", buffering=0) as file:
            data = file.read(_HEADER.size)
            return _header(data)[2] if data else math.inf, os.fstat(file.fileno()).st_size, path
    except FileNotFoundError:
        return math.inf, 0, path


def _lock_directory(directory: Path) -> int:
    """Mark a directory as in use by this process and those that it forks, until the last of them ends.

    Returns:
        The file to close if it is not to be in use any more.

    Raises:
        OSError: It does not exist any more, or others use it.
    """
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory.stat()
    except OSError:
        os.close(file)
        raise
    return file


def _remove_abandoned(parent: Path) -> None:
    """Remove directories of answers that no process uses any more."""
    for directory in parent.glob(f"{DIRECTORY_PREFIX}*"):
        try:
            file = _lock_directory(directory)
        except OSError:
            continue
        shutil.rmtree(directory, ignore_errors=True)
        os.close(file)


def _remove_own(directory: Path, process: int) -> None:
    if os.getpid() == process:  # not in a worker, which has inherited the duty
        shutil.rmtree(directory, ignore_errors=True)
