"""Keeping the decisions of a scheduler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
import threading
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop
from scheduler.bounds.waits import waiting_for
from scheduler.conf.berth import EXPLAIN_CODE, EXPLAIN_FULL
from scheduler.conf.partitions import own_name
from scheduler.decisions.decision_log import DecisionLog
from scheduler.decisions.explanation import Explanation
from scheduler.decisions.failure import Failure
from scheduler.decisions.memory import DecisionMemory, KeptDecision
from scheduler.decisions.record import Names
from scheduler.decisions.trace import Trace
from scheduler.errors import NoValidHost
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(f"nova.{__name__}")

MIB = 2**20

#: Decisions in memory, and their bytes: berth-explain lists all of them in one reply.
MOST_DECISIONS, MOST_BYTES = 1000, 64 * MIB

#: Bytes of a file of the decision log.
LARGEST_FILE = 64 * MIB

#: Decisions whose explanations are to be completed, and as many that questions name: each keeps what its
#: request saw. Of more the oldest stay incomplete.
MOST_INCOMPLETE = 16

#: Seconds for which an operator's question waits for an explanation; then it is answered without.
PATIENCE = 3.0

#: Seconds between two looks while no explanation is incomplete; a new one ends them early.
IDLE = 600.0

#: Called with the trace and the error of a request; it must not raise.
Observe = Callable[[Trace, BaseException | None], None]


class DecisionRecorder:
    """Keeps the decision on each request, with the reason in one line if the request failed.

    The caller of a request hears at once that there is no host. What Placement has to say about it is read
    after that, for one decision at a time, or at once when an operator asks for the decision.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        clock: Callable[[], float] = time.monotonic,
        observe: Observe = lambda _trace, _error: None,
        explain: Callable[..., Explanation] | None = None,
        names: Callable[[], Names] = Names,
    ) -> None:
        """Keep nothing yet.

        Args:
            observe: Called with the trace of each request, and the error that ended it, if any.
            explain: Returns why no host suits, as ``FailureExplainer.explain``.
            names: Returns the names of cells.
        """
        self._conf: Any = conf
        self._observe = observe
        self._explain = explain
        self._clock = clock
        self._names = names
        self._partition = own_name(conf) or None
        self._open: set[Trace] = set()
        self.memory = DecisionMemory(MOST_DECISIONS, MOST_BYTES)
        self._incomplete: list[KeptDecision] = []  # the oldest first
        self._changed = threading.Condition()
        self._loop = BackgroundLoop("explanations", self._complete_next)
        directory, days = self._conf.berth.decision_log, self._conf.berth.decision_log_days
        self._log = DecisionLog(directory, LARGEST_FILE, days) if directory else None

    def start(self) -> None:
        self._loop.start()
        if self._log is not None:
            self._log.start()

    def stop(self, timeout: float) -> None:
        """Leave explanations incomplete, and end the log in at most so many seconds."""
        self._loop.stop()
        for kept in self._incomplete.copy():
            self._close(kept)
        if self._log is not None:
            self._log.stop(timeout)

    def begin(self, request: SchedulingRequest) -> Trace:
        return Trace(request, self._clock, names=self._names)

    def decision(self, name: str) -> str | None:
        """Return the document of the latest decision on a request id or an instance; None if unknown."""
        self.complete_now(name)
        found = self.memory.find(name)
        return None if found is None else found.decode()

    def complete_now(self, name: str = "", timeout: float = PATIENCE) -> None:
        """Complete the explanation of a request id or an instance next; without a name all.

        Args:
            timeout: Seconds to wait for it.
        """

        def named() -> list[KeptDecision]:
            return [kept for kept in self._incomplete if not name or kept.is_called(name)]

        with self._changed, waiting_for("the explanation of a decision"):
            for kept in named() if name else ():
                kept.is_urgent |= sum(other.is_urgent for other in self._incomplete) < MOST_INCOMPLETE
            self._loop.wake()
            self._changed.wait_for(lambda: not named(), timeout)

    def open(self) -> list[Trace]:
        """Return the traces of the decisions that are being made."""
        return list(self._open.copy())

    @contextmanager
    def recording(self, trace: Trace) -> Iterator[None]:
        """Keep the decision at the end of the context, also after an error; until then the trace is open."""
        self._open.add(trace)
        try:
            with trace.waits:
                try:
                    yield
                except BaseException as error:
                    if isinstance(error, NoValidHost):
                        trace.write_log()
                    self._end(trace, error)
                    raise
                trace.write_log()
                self._end(trace, None)
        finally:
            self._open.remove(trace)

    def _end(self, trace: Trace, error: BaseException | None) -> None:
        trace.record.partition = self._partition
        trace.finish(error, None if self._explain is None else self._explained)
        self._observe(trace, error)
        self._add_detail(trace, error)  # before more is found out: of the same cause as the line in the log
        kept = self.memory.add(trace.record)
        if trace.record.unexplained is not None:
            self._complete_later(kept)
        elif self._log is not None:
            self._log.add(partial(self.memory.text, kept))

    def _complete_later(self, kept: KeptDecision) -> None:
        with self._changed:
            self._incomplete.append(kept)
            dropped = [other for other in self._incomplete if not other.is_urgent][:-MOST_INCOMPLETE]
            self._incomplete = [other for other in self._incomplete if other not in dropped]
        for other in dropped:
            self._close(other)
        self._loop.wake()

    def _complete_next(self) -> float:
        """Complete the explanation that comes first; return the seconds until the next one."""
        with self._changed:
            kept = min(self._incomplete, key=lambda kept: not kept.is_urgent, default=None)
            if kept is None:
                return IDLE
            kept.is_urgent = True
        try:
            if (record := kept.record) is not None and record.unexplained is not None:
                record.note_why(self._explained(record.unexplained, asks=True))
        finally:
            self._close(kept)
        return 0.0

    def _close(self, kept: KeptDecision) -> None:
        """Keep a decision about which no more is found out."""
        if self.memory.close(kept) and self._log is not None:
            self._log.add(partial(self.memory.text, kept))
        with self._changed:
            self._incomplete = [other for other in self._incomplete if other is not kept]
            self._changed.notify_all()

    def _explained(self, failure: Failure, *, asks: bool = False) -> Explanation | None:
        """Return why no host suits; None if that cannot be found out.

        Args:
            asks: Whether Placement may be asked; not while a caller waits for the reply.
        """
        try:
            return None if self._explain is None else self._explain(failure, asks=asks)
        except Exception:
            LOG.exception("Cannot explain why there is no valid host")
            return None

    def _add_detail(self, trace: Trace, error: BaseException | None) -> None:
        """Append the cause to the fault that users see, as far as the operator wants."""
        if not isinstance(error, NoValidHost):
            return
        wanted, summary = self._conf.berth.explain_no_valid_host, trace.decision.summary
        if wanted in EXPLAIN_FULL and summary not in str(error):
            error.add_detail(summary)
        elif wanted == EXPLAIN_CODE and (cause := trace.decision.cause):
            error.add_detail(f"Cause: {cause.code}")
