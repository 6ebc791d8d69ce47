"""Recording every request of a worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import time
from typing import Any

from oslo_config import cfg

from scheduler.errors import NoValidHost
from scheduler.explain.decision_log import DecisionFile, DecisionLog
from scheduler.explain.memory import DecisionMemory
from scheduler.explain.record import DecisionRecord
from scheduler.explain.summary import summarize
from scheduler.explain.trace import Trace
from scheduler.request.scheduling_request import SchedulingRequest

MIB = 2**20

Observe = Callable[[DecisionRecord, BaseException | None], None]
"""(record, error) -> None; it must not raise."""


def ignore_decision(_record: DecisionRecord, _error: BaseException | None) -> None:
    """Do nothing."""


class DecisionRecorder:
    """Keeps a record of each request, with the reason in one line if the request failed.

    Attributes:
        memory: The latest records.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        clock: Callable[[], float] = time.monotonic,
        observe: Observe = ignore_decision,
        analyse: Callable[[DecisionRecord], None] = lambda _record: None,
    ) -> None:
        """Keep no record yet.

        Args:
            conf: The options.
            clock: Seconds that only grow.
            observe: Called with each record that is complete, and the error that ended the request, if any.
            analyse: Called with the record of each failed request, if the options want it; it must not raise.
        """
        self._conf: Any = conf
        self._observe = observe
        self._analyse = analyse
        self._clock = clock
        self.memory = DecisionMemory(*self._bounds())
        options = self._conf.berth
        self._log = (
            DecisionLog(
                DecisionFile(options.decision_log, options.decision_log_size * MIB, options.decision_log_days)
            )
            if options.decision_log
            else None
        )

    def start(self) -> None:
        """Begin to write decisions to disk, if that is wanted."""
        if self._log is not None:
            self._log.start()

    def stop(self, timeout: float) -> None:
        """Write to disk what still waits, in ``timeout`` seconds at most."""
        if self._log is not None:
            self._log.stop(timeout)

    def reset(self) -> None:
        """Take over changed options."""
        self.memory.resize(*self._bounds())

    def begin(self, request: SchedulingRequest) -> Trace:
        """Return what notes the decision on a request."""
        trace = Trace(request, self._clock)
        trace.record.partition = (self._conf.berth.partition or "").lower()
        return trace

    @contextmanager
    def recording(self, trace: Trace) -> Iterator[None]:
        """Keep what was noted until the end of the context, be it an error."""
        try:
            yield
        except BaseException as error:
            record = trace.finish(error)
            self._observe(record, error)
            self._keep_failed(record, error)
            raise
        record = trace.finish(None)
        # first, as a record that is kept may lose its hosts at any time
        self._observe(record, None)
        self._keep(record)

    def _keep_failed(self, record: DecisionRecord, error: BaseException) -> None:
        record.summary = summarize(record)
        self._keep(record)
        if self._conf.berth.analyse_empty_answers:
            self._analyse(record)
        if not isinstance(error, NoValidHost) or not self._conf.berth.explain_no_valid_host:
            return
        if str(error).strip() not in record.summary:
            error.add_detail(record.summary)

    def _keep(self, record: DecisionRecord) -> None:
        self.memory.add(record)
        if self._log is not None:
            self._log.add(record)

    def _bounds(self) -> tuple[int, int]:
        return self._conf.berth.decision_records, self._conf.berth.decision_memory * MIB


class LastRecord(DecisionRecorder):
    """Keeps the record of the last request only, for a caller that asks for it.

    Attributes:
        record: The record; None before the first request has ended.
    """

    record: DecisionRecord | None = None

    def _keep(self, record: DecisionRecord) -> None:
        self.record = record
