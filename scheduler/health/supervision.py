"""What the master knows of its workers, and which of them hang.

A worker makes progress if it reports, and if its report says that work is being done: no message waits for a
thread, or one was begun, finished or got on with a claim lately, and the host table is being refreshed. One
that makes none for ``[berth]/worker_timeout`` seconds is killed; its requests are delivered to other workers,
and it is started again. Time in which the master itself did not run, as in a container that was paused, does
not count.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
import os
import signal
import threading
import time

from oslo_log import log as logging

from scheduler.decisions.open_requests import OpenRequest
from scheduler.health.reports import Report, WorkerState

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between SIGABRT, which makes a worker write its stack traces, and SIGKILL.
ABORT_TIME = 5.0

#: Seconds without progress that a report may show of a worker that works: it may be short of CPU time.
MOVING = 5.0

#: Seconds between two checks after which the master itself did not run.
PAUSED = 10.0

#: Seconds after which what a worker last reported is not used any more.
STALE = 15.0

Kill = Callable[[int, int], None]


@dataclass
class WorkerRecord:
    """One worker, as the master knows it.

    Attributes:
        number: The number of the worker.
        since: When its process was started, or last reported; seconds of the clock.
        moved_at: When its process was started, or last reported progress.
        report: Its last report; None if its process has not reported yet.
        aborted_at: When it was signalled to end because it hung; None if it was not.
        ended: The process that ended before this one.
    """

    number: int
    since: float
    moved_at: float
    report: Report | None = None
    aborted_at: float | None = None
    ended: int | None = field(default=None, repr=False)

    @property
    def phase(self) -> str:
        """What the worker does."""
        return self.report.phase if self.report else "missing"

    @property
    def state(self) -> WorkerState:
        """What it reported last."""
        return self.report.state if self.report else WorkerState()


class WorkerTable:
    """All workers. Any thread of the master may use it.

    Attributes:
        loaded: The numbers of those that have read the API database, perhaps in a process that has ended.
        served: The numbers of those that have taken requests, perhaps in a process that has ended.
    """

    def __init__(
        self,
        count: int,
        timeout: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        kill: Kill = os.kill,
    ) -> None:
        """Expect workers.

        Args:
            timeout: Returns the seconds without progress after which a worker hangs; 0 or less: never.
        """
        self._timeout = timeout
        self._clock = clock
        self._kill = kill
        self._lock = threading.Lock()
        now = clock()
        self._records = {number: WorkerRecord(number, now, now) for number in range(count)}
        self._checked_at = now
        self.loaded: set[int] = set()
        self.served: set[int] = set()

    @property
    def records(self) -> list[WorkerRecord]:
        """All workers, in the order of their numbers."""
        return list(self._records.values())

    def age(self, record: WorkerRecord) -> float:
        """Return the seconds since a worker reported or was started."""
        return max(0.0, self._clock() - record.since)

    def current(self) -> list[WorkerRecord]:
        """Return the workers whose last report is recent."""
        return [each for each in self.records if each.report and self.age(each) <= STALE]

    def open_requests(self) -> list[tuple[int, OpenRequest]]:
        """Return the requests in progress as of now, each with its worker, the oldest first."""
        found = [
            (each.number, request.after(self.age(each)))
            for each in self.current()
            for request in each.state.requests
        ]
        return sorted(found, key=lambda one: -one[1].age)

    def reported(self, reports: Iterable[Report]) -> None:
        """Take over reports; of processes that have ended only how far they came."""
        with self._lock:
            for report in reports:
                record = self._records.get(report.worker)
                if record is None:
                    continue
                if report.state.api_database:
                    self.loaded.add(report.worker)
                if report.phase == "serving":
                    self.served.add(report.worker)
                if report.pid != record.ended:
                    record.report = report
                    record.since = self._clock()
                    if report.state.stalled < MOVING:
                        record.moved_at = record.since

    def ended(self, number: int) -> bool:
        """Note that the process of a worker has ended, and that another one is being started.

        Returns:
            Whether it was signalled to end because it hung.
        """
        with self._lock:
            record = self._records.get(number)
            if record is None:
                return False
            if record.report is not None:
                record.ended = record.report.pid
            record.report = None
            record.since = record.moved_at = self._clock()
            hung, record.aborted_at = record.aborted_at is not None, None
            return hung

    def stalled(self, record: WorkerRecord) -> float:
        """Return the seconds for which a worker made no progress."""
        return self._clock() - record.moved_at

    def check(self) -> None:
        """Kill the workers that hang."""
        self._allow_for_pause()
        timeout = self._timeout()
        for record in self.records if timeout > 0 else ():
            stalled = self.stalled(record)
            if record.report is None or stalled <= timeout:
                record.aborted_at = None
            elif record.aborted_at is None:
                LOG.error(
                    "Worker %d (process %d) made no progress for %d seconds and is killed; starting "
                    "another one, the broker redelivers its requests",
                    record.number,
                    record.report.pid,
                    stalled,
                )
                record.aborted_at = self._clock()
                self._send(signal.SIGABRT, record)
            elif self._clock() - record.aborted_at > ABORT_TIME:
                self._send(signal.SIGKILL, record)

    def all_alive(self) -> bool:
        """Return whether each worker makes progress, or was killed just now.

        False means that the master cannot get a worker to work: the service as a whole has to be restarted.
        """
        timeout = self._timeout()
        return timeout <= 0 or all(self.stalled(each) <= 2 * timeout for each in self.records)

    def _allow_for_pause(self) -> None:
        now = self._clock()
        paused, self._checked_at = now - self._checked_at, now
        if paused <= PAUSED:
            return
        LOG.warning(
            "Master process was suspended for %d s; this time does not count for worker_timeout", paused
        )
        with self._lock:
            for record in self._records.values():
                record.moved_at = min(now, record.moved_at + paused)

    def _send(self, number: int, record: WorkerRecord) -> None:
        if record.report is None:
            return
        try:
            self._kill(record.report.pid, number)
        except ProcessLookupError:
            LOG.debug("Process %d of worker %d has ended", record.report.pid, record.number)
