"""Answers to questions about decisions, one at a time and with pauses, beside the work of a scheduler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
import threading
import time

from scheduler.errors import BerthError
from scheduler.explain.document import entry
from scheduler.explain.explanation import Document, Names, explain, explain_host
from scheduler.explain.memory import DecisionMemory
from scheduler.explain.record import DecisionRecord

#: Seconds that a question waits for the one before it.
BUSY_TIMEOUT = 5.0

#: The longest pause in seconds between two pieces of an explanation.
LONGEST_PAUSE = 0.01

#: Entries of a list of decisions.
MOST_ENTRIES = 10_000


class Busy(BerthError):
    """Another question is being answered, and takes long."""


class Pace:
    """Pauses for as long as the work before each pause took: requests get half of the time at least."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin to work now."""
        self._clock = clock
        self._sleep = sleep
        self._since = clock()

    def __call__(self) -> None:
        """Pause, and go on to work."""
        self._sleep(min(LONGEST_PAUSE, max(0.0, self._clock() - self._since)))
        self._since = self._clock()


class Explainer:
    """Answers questions about the decisions of one worker. Any thread may use it."""

    def __init__(
        self,
        memory: DecisionMemory,
        names: Callable[[], Names],
        busy_timeout: float = BUSY_TIMEOUT,
        pace: Callable[[], Callable[[], None]] = Pace,
    ) -> None:
        """Answer from the records of a worker.

        Args:
            memory: The latest records.
            names: Returns the names of cells and of the default zone.
            busy_timeout: Seconds that a question waits for the one before it.
            pace: Returns what is called between two pieces of an explanation.
        """
        self._memory = memory
        self._names = names
        self._busy_timeout = busy_timeout
        self._pace = pace
        self._lock = threading.Lock()

    def decision(self, name: str, most_hosts: int) -> Document | None:
        """Return the explanation of the latest decision on a request id or an instance; None if unknown.

        Raises:
            Busy: Another question is being answered.
        """
        with self._alone():
            record = self._memory.find(name)
            if record is None:
                return None
            return explain(record, self._names(), most_hosts, pause=self._pace())

    def host(self, name: str, host: str) -> Document | None:
        """Return what each filter says of a host for the latest decision on ``name``; None if unknown.

        Raises:
            Busy: Another question is being answered.
        """
        with self._alone():
            record = self._memory.find(name)
            return None if record is None else explain_host(record, host, self._names())

    def decisions(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[Document]:
        """Return one entry for each of the latest decisions, the latest first.

        Args:
            failed: Only those of requests that failed.
            since: Only those since this time, in seconds since the epoch.
            project: Only those for instances of this project.
            at_most: The number of entries.
        """
        found: list[Document] = []
        for record in self._memory.latest_first():
            if len(found) >= min(at_most, MOST_ENTRIES):
                break
            if record.started_at >= since and _wanted(record, failed=failed, project=project):
                found.append(entry(record))
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._busy_timeout):
            raise Busy("Another question is being answered; ask again later")
        try:
            yield
        finally:
            self._lock.release()


def _wanted(record: DecisionRecord, *, failed: bool, project: str | None) -> bool:
    if failed and not record.error:
        return False
    spec = record.request.spec
    return project is None or (spec.project_id if "project_id" in spec else None) == project


def seconds_of(text: str) -> float:
    """Return the seconds since the epoch of a time in ISO format; one without a zone is UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
