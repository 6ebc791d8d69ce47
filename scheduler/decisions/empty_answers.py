"""Analysis of queries for which Placement offered no host, after the reply to the request."""

from collections import deque
from collections.abc import Callable, Sequence
import math
import threading
import time
from typing import NamedTuple

import cachetools
from oslo_log import log as logging

from scheduler import objects
from scheduler.bounds.background import BackgroundLoop
from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.document import NOTHING_HELPS, Decision, Relaxed, time_text
from scheduler.decisions.providers import PlacementQuestions
from scheduler.decisions.relaxation import RelaxationSearch
from scheduler.decisions.trace import Trace
from scheduler.placement.errors import PlacementError

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between the end of one analysis and the begin of the next, and how many requests may wait.
INTERVAL = 10.0
MOST_WAITING = 16

#: Queries whose result is remembered, and for how many seconds.
REMEMBERED = 256
REMEMBERED_FOR = 60.0


class _Finding(NamedTuple):
    relaxed: list[Relaxed]
    at: str


class EmptyAnswers:
    """Analyses queries of failed requests for which Placement offered no host, one at a time, in a thread."""

    def __init__(
        self,
        questions: PlacementQuestions,
        is_wanted: Callable[[], bool],
        names: Callable[[objects.RequestSpec], RequestNames],
        conclude: Callable[[Decision], None],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Analyse nothing yet.

        Args:
            is_wanted: Whether queries may be sent now; not while Placement is unavailable.
            names: Returns the names of the constraints of a request.
            conclude: Called once with the document of each failed request when it is complete: at once, or
                after the analysis of its query.
        """
        self._search = RelaxationSearch(questions, clock)
        self._is_wanted = is_wanted
        self._names = names
        self._conclude = conclude
        self._clock = clock
        self._wall_clock = wall_clock
        self._next_at = clock()
        self._lock = threading.Lock()
        self._waiting: deque[Trace] = deque()
        self._known: cachetools.TTLCache[str, _Finding] = cachetools.TTLCache(
            REMEMBERED, REMEMBERED_FOR, timer=clock
        )
        self._loop = BackgroundLoop("empty-answers", self.run_round)

    def start(self) -> None:
        self._loop.start(delay=INTERVAL)

    def stop(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        self._loop.stop(0)
        for failed in waiting:
            self._conclude(failed.decision)

    def consider(self, failed: Trace) -> None:
        """Have the query of a failed request analysed if Placement answered it and offered no host."""
        found = failed.decision.candidates
        is_empty = not found.hosts and not found.failed and found.origin == "placement"
        if not (is_empty and failed.decision.queries and self._is_wanted() and self._has_to_wait(failed)):
            self._conclude(failed.decision)

    def _has_to_wait(self, failed: Trace) -> bool:
        """Return whether a query has to wait for its analysis; a known result is added at once."""
        with self._lock:
            known = self._known.get(failed.decision.queries[0])
            if known is None and len(self._waiting) < MOST_WAITING:
                self._waiting.append(failed)
                if self._clock() >= self._next_at:
                    self._loop.wake()
                return True
        if known is not None:
            _add(failed.decision, known)
        return False

    def run_round(self) -> float:
        """Analyse one query; return the seconds to wait."""
        with self._lock:
            equal = [each for each in self._waiting if _query(each) == _query(self._waiting[0])]
            for each in equal:
                self._waiting.remove(each)
            if equal:
                self._next_at = math.inf
        if not equal:
            return INTERVAL
        try:
            if self._is_wanted():
                self._analyse(equal)
        finally:
            for each in equal:
                self._conclude(each.decision)
            with self._lock:
                self._next_at = self._clock() + INTERVAL
        return INTERVAL

    def _analyse(self, equal: Sequence[Trace]) -> None:
        query = _query(equal[0])
        with self._lock:
            known = self._known.get(query)
        if known is None:
            try:
                found = self._search.find(query, self._names(equal[0].request.spec))
            except PlacementError as error:
                LOG.debug("Cannot find out why Placement offers no host for %s: %s", query, error)
                return
            known = _Finding(found, time_text(self._wall_clock()))
            if all(each.without for each in found):
                with self._lock:
                    self._known[query] = known
        for each in equal:
            _add(each.decision, known)
            LOG.info(
                "Placement offered no host for request %s: %s",
                each.decision.request_id,
                "; ".join(one.text for one in known.relaxed) or NOTHING_HELPS,
                context=each.request.context,
            )


def _query(failed: Trace) -> str:
    return failed.decision.queries[0]


def _add(decision: Decision, known: _Finding) -> None:
    decision.candidates.relaxed, decision.candidates.relaxed_at = known
