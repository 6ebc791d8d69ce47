"""The thread of a worker that reports to the master."""

from collections.abc import Callable
import os
import time

import msgspec
from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop
from scheduler.health.catalogue import WORKER_CPU, WORKER_MEMORY
from scheduler.health.counters import Counters
from scheduler.health.reports import Report, ReportChannel, WorkerState, resident_memory

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two reports.
INTERVAL = 1.0

ReadState = Callable[[], WorkerState]


class Reporter:
    """Reports the state of a worker, and what it has counted, from its start to its end.

    Attributes:
        phase: What the worker does: ``starting``, ``serving`` or ``stopping``.
        reloads: How many changes of the configuration it has taken over.
    """

    def __init__(
        self,
        worker: int,
        channel: ReportChannel,
        counters: Counters,
        read_state: ReadState = WorkerState,
        interval: float = INTERVAL,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        """Report nothing yet.

        Args:
            read_state: Returns the state of the worker; it must not block.
            interval: Seconds between two reports.
            cpu_clock: Seconds of CPU time of the process.
        """
        self.phase = "starting"
        self.reloads = 0
        self._worker = worker
        self._channel = channel
        self._counters = counters
        self._read_state = read_state
        self._state = WorkerState()
        self._interval = interval
        self._cpu_clock = cpu_clock
        self._cpu = cpu_clock()
        self._loop = BackgroundLoop("reports", self._round)

    def start(self) -> None:
        """Begin to report; in the process of the worker."""
        self._loop.start()

    def enter(self, phase: str) -> None:
        """Report another phase at once."""
        self.phase = phase
        self._loop.wake()

    def stop(self) -> None:
        """Report a last time, and end."""
        self._loop.stop()
        self.send()

    def send(self) -> None:
        """Report now."""
        cpu = self._cpu_clock()
        self._counters.add(WORKER_CPU, cpu - self._cpu, str(self._worker))
        self._cpu = cpu
        try:
            self._state = self._read_state()
        except Exception:  # a report that is missing would count as a worker that hangs
            LOG.exception("Cannot read the state of worker %d; reporting its last one", self._worker)
        gauges = self._state.gauges | {WORKER_MEMORY.name: resident_memory()}
        state = msgspec.structs.replace(self._state, gauges=gauges)
        counts = self._counters.take()
        report = Report(self._worker, os.getpid(), self.phase, self.reloads, state, counts)
        if not self._channel.send(report):
            self._counters.merge(counts)

    def _round(self) -> float:
        self.send()
        return self._interval
