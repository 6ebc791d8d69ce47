"""Forks workers, also if the system has no room for another process at the moment.

A worker often dies for want of memory, and for the same reason its successor may not be forked at once.
cotyledon tries it once: after a failure the thread that starts workers again has ended.
"""

from collections.abc import Callable
from multiprocessing.context import ForkContext, ForkProcess
import time
from typing import Any, TypeVar

from oslo_log import log as logging

from scheduler.logs import OutageLog

LOG = logging.getLogger(f"nova.{__name__}")

#: How often it is tried to fork a worker, and seconds between two attempts.
ATTEMPTS, PAUSE = 30, 1.0

Made = TypeVar("Made")


class WorkerContext(ForkContext):
    """The context of multiprocessing that cotyledon starts workers with."""

    def __init__(
        self, on_failure: Callable[[OSError], None], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Fork nothing yet.

        Args:
            on_failure: Called when the last attempt has failed, in the thread that starts workers.
        """
        super().__init__()
        self._on_failure = on_failure
        self._sleep = sleep
        self._outage = OutageLog(LOG, "Cannot start a worker", "Workers start again")

    def Event(self) -> Any:  # noqa: N802 - as multiprocessing has it
        """Return an event that processes share."""
        return self.patiently(super().Event)

    def Process(self, **described: Any) -> ForkProcess:  # type: ignore[override] # noqa: N802 - as above
        """Return a process that is not started yet."""
        return _WorkerProcess(self, **described)

    def patiently(self, make: Callable[[], Made]) -> Made:
        """Return what a function returns, once the system has room for it.

        Raises:
            OSError: It has none for too long.
        """
        left = ATTEMPTS
        while True:
            try:
                made = make()
            except OSError as error:
                self._outage.report_failure(error)
                left -= 1
                if not left:
                    self._on_failure(error)
                    raise
                self._sleep(PAUSE)
            else:
                self._outage.report_success()
                return made


class _WorkerProcess(ForkProcess):
    def __init__(self, context: WorkerContext, **described: Any) -> None:
        super().__init__(**described)
        self._context = context

    def start(self) -> None:
        self._context.patiently(super().start)
