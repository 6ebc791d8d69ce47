"""Queries for which Placement offered no host: what would have helped is found out afterwards."""

from collections import deque
from collections.abc import Callable, Mapping
import math
import threading
import time
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl

import cachetools
import msgspec
from oslo_log import log as logging

from scheduler import objects
from scheduler.background import BackgroundLoop
from scheduler.explain.document import Decision, Relaxed, time_text
from scheduler.explain.refusals import Inventory
from scheduler.explain.relaxation import (
    NOTHING_HELPS,
    ConstraintNames,
    Offer,
    Questions,
    RelaxationSearch,
    read_offer,
)
from scheduler.explain.trace import Trace
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.request.query import MICROVERSION

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between the end of looking into one query and the begin of the next, and how many may wait.
INTERVAL = 10.0
MOST_WAITING = 16

#: Queries whose result is remembered, and for how many seconds.
REMEMBERED = 256
REMEMBERED_FOR = 60.0


class QuestionFailed(PlacementError):
    """Placement refused a question, or its response cannot be read."""


class _Inventories(msgspec.Struct):
    inventories: dict[str, Inventory]


_inventories = msgspec.json.Decoder(_Inventories)


class PlacementQuestions:
    """Asks Placement what an analysis wants to know (``relaxation.Questions``)."""

    def __init__(self, client: PlacementClient) -> None:
        """Ask with a client."""
        self._client = client

    def offer(self, querystring: str) -> Offer:
        """Return what is offered for a query string."""
        limit = dict(parse_qsl(querystring)).get("limit")
        path = f"/allocation_candidates?{querystring}"
        return self._read(path, lambda body: read_offer(body, None if limit is None else int(limit)))

    def inventories(self, provider: str) -> Mapping[str, Inventory]:
        """Return the inventories of a provider by resource class."""
        path = f"/resource_providers/{provider}/inventories"
        return self._read(path, lambda body: _inventories.decode(body).inventories)

    def _read(self, path: str, read: Callable[[bytes], T]) -> T:
        reply = self._client.get(path, MICROVERSION, search=True)
        if reply.status != 200:
            raise QuestionFailed(reply.summary)
        try:
            return read(reply.body)
        except msgspec.DecodeError as error:
            raise QuestionFailed(f"the response cannot be read: {error}") from error


class _Finding(NamedTuple):
    relaxed: list[Relaxed]
    at: str


class EmptyAnswers:
    """Looks into queries of failed requests for which Placement offered no host, one at a time.

    That is done by a thread of its own: the requests have been answered by then.
    """

    def __init__(
        self,
        questions: Questions,
        is_wanted: Callable[[], bool],
        names: Callable[[objects.RequestSpec], ConstraintNames],
        amend: Callable[[Decision], None],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Look into nothing yet.

        Args:
            questions: Asks Placement.
            is_wanted: Whether questions may be sent now; not while Placement is away.
            names: Returns what the constraints of a request are called.
            amend: Called with a document that has grown since it was kept.
            clock: Seconds that only grow.
            wall_clock: Seconds since the epoch.
        """
        self._search = RelaxationSearch(questions, clock)
        self._is_wanted = is_wanted
        self._names = names
        self._amend = amend
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
        """Start the thread."""
        self._loop.start(delay=INTERVAL)

    def stop(self) -> None:
        """End the thread after the question that is under way."""
        with self._lock:
            self._waiting.clear()
        self._loop.stop(0)

    def consider(self, failed: Trace) -> None:
        """Have the query of a failed request looked into, if Placement offered no host and said so itself.

        A Placement that failed has offered none either: then there is nothing to be found out.
        """
        queries, found = failed.decision.queries, failed.decision.candidates
        if not queries or found.hosts or found.failed or found.asked != "placement":
            return
        with self._lock:
            known = self._known.get(queries[0])
            if known is None and len(self._waiting) < MOST_WAITING:
                self._waiting.append(failed)
                if self._clock() >= self._next_at:
                    self._loop.wake()
        if known is not None:
            self._note(failed.decision, known)

    def run_round(self) -> float:
        """Look into one query; return the seconds to wait."""
        with self._lock:
            failed = self._waiting.popleft() if self._waiting else None
            if failed is not None:
                self._next_at = math.inf
        if failed is None:
            return INTERVAL
        try:
            if self._is_wanted():
                self._look_into(failed)
        finally:
            with self._lock:
                self._next_at = self._clock() + INTERVAL
        return INTERVAL

    def _look_into(self, failed: Trace) -> None:
        query, request = failed.decision.queries[0], failed.request
        with self._lock:
            known = self._known.get(query)
        if known is None:
            try:
                found = self._search.find(query, self._names(request.spec))
            except PlacementError as error:
                LOG.debug("Cannot find out why Placement offers no host for %s: %s", query, error)
                return
            known = _Finding([Relaxed(**each.values()) for each in found], time_text(self._wall_clock()))
            if all(each.constraints for each in found):
                with self._lock:
                    self._known[query] = known
        self._note(failed.decision, known)
        LOG.info(
            "Placement offered no host for request %s: %s",
            failed.decision.request_id,
            "; ".join(each.text for each in known.relaxed) or NOTHING_HELPS,
            context=request.context,
        )

    def _note(self, decision: Decision, known: _Finding) -> None:
        decision.candidates.relaxed, decision.candidates.relaxed_at = known
        self._amend(decision)
