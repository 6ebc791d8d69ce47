"""Queries for which Placement offered no host: what would have helped is found out afterwards."""

from collections import deque
from collections.abc import Callable
import math
import threading
import time
from urllib.parse import parse_qsl

import cachetools
import msgspec
from oslo_log import log as logging

from scheduler.background import BackgroundLoop
from scheduler.explain.record import DecisionRecord
from scheduler.explain.relaxation import Ask, Offer, Relaxation, RelaxationSearch, read_offer
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.request.query import MICROVERSION

LOG = logging.getLogger(__name__)

#: Seconds between the end of looking into one query and the begin of the next, and how many may wait.
INTERVAL = 10.0
MOST_WAITING = 16

#: Queries whose result is remembered, and for how many seconds.
REMEMBERED = 256
REMEMBERED_FOR = 300.0


class QuestionFailed(PlacementError):
    """Placement refused a question, or its response cannot be read."""


def asking(client: PlacementClient) -> Ask:
    """Return what asks Placement for the candidates of a query string."""

    def ask(querystring: str) -> Offer:
        reply = client.get(f"/allocation_candidates?{querystring}", MICROVERSION, search=True)
        if reply.status != 200:
            raise QuestionFailed(reply.summary)
        limit = dict(parse_qsl(querystring)).get("limit")
        try:
            return read_offer(reply.body, None if limit is None else int(limit))
        except msgspec.DecodeError as error:
            raise QuestionFailed(f"the response cannot be read: {error}") from error

    return ask


class EmptyAnswers:
    """Looks into queries of failed requests for which Placement offered no host, one at a time.

    That is done by a thread of its own: the requests have been answered by then.
    """

    def __init__(
        self,
        ask: Ask,
        is_wanted: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look into nothing yet.

        Args:
            ask: Asks Placement.
            is_wanted: Whether questions may be sent now; not while Placement is away.
            clock: Seconds that only grow.
        """
        self._search = RelaxationSearch(ask, clock)
        self._is_wanted = is_wanted
        self._clock = clock
        self._next_at = clock()
        self._lock = threading.Lock()
        self._waiting: deque[DecisionRecord] = deque()
        self._known: cachetools.TTLCache[str, tuple[Relaxation, ...]] = cachetools.TTLCache(
            REMEMBERED, REMEMBERED_FOR, timer=clock
        )
        self._loop = BackgroundLoop("empty-answers", self.run_round)

    def start(self) -> None:
        """Start the thread."""
        self._loop.start(delay=INTERVAL)

    def stop(self) -> None:
        """End the thread after the question that is under way."""
        with self._lock:
            self._waiting.clear()
        self._loop.stop(0)

    def consider(self, record: DecisionRecord) -> None:
        """Have the query of a failed request looked into, if Placement offered no host and said so itself."""
        found = record.candidates
        if not record.queries or found.offered or found.name not in {"placement", "coalesced"}:
            return
        with self._lock:
            known = self._known.get(record.queries[0])
            if known is not None:
                record.relaxed = known
            elif len(self._waiting) < MOST_WAITING:
                self._waiting.append(record)
                if self._clock() >= self._next_at:
                    self._loop.wake()

    def run_round(self) -> float:
        """Look into one query; return the seconds to wait."""
        with self._lock:
            record = self._waiting.popleft() if self._waiting else None
            if record is not None:
                self._next_at = math.inf
        if record is None:
            return INTERVAL
        try:
            if self._is_wanted():
                self._look_into(record)
        finally:
            with self._lock:
                self._next_at = self._clock() + INTERVAL
        return INTERVAL

    def _look_into(self, record: DecisionRecord) -> None:
        query = record.queries[0]
        with self._lock:
            known = self._known.get(query)
        if known is None:
            try:
                known = tuple(self._search.find(query))
            except PlacementError as error:
                LOG.debug("Why Placement offers no host for %s is not known: %s", query, error)
                return
            with self._lock:
                self._known[query] = known
        record.relaxed = known
        LOG.info(
            "Placement offered no host for request %s: %s",
            record.request_id,
            "; ".join(each.text for each in known) or "leaving out one or two constraints gives none either",
        )
