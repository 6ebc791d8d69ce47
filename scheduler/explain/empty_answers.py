"""Queries for which Placement offered no host: what would have helped is found out afterwards."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
import math
import threading
import time
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import cachetools
import msgspec
from oslo_log import log as logging

from scheduler import objects
from scheduler.background import BackgroundLoop
from scheduler.explain.document import Decision, Relaxed, time_text
from scheduler.explain.providers import Provider
from scheduler.explain.refusals import Inventory
from scheduler.explain.relaxation import (
    NOTHING_HELPS,
    ConstraintNames,
    OfferedHosts,
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
    """Placement refused a question, or its response cannot be read; ``status`` is that of the response."""

    def __init__(self, text: str, status: int) -> None:
        self.status = status
        super().__init__(text)


_provider = msgspec.json.Decoder(Provider)


class PlacementQuestions:
    """Asks Placement what an analysis wants to know (``relaxation.Questions``)."""

    def __init__(self, client: PlacementClient) -> None:
        """Ask with a client."""
        self._client = client

    def offer(self, querystring: str) -> OfferedHosts:
        """Return what is offered for a query string."""
        limit = dict(parse_qsl(querystring)).get("limit")
        path = f"/allocation_candidates?{querystring}"
        return self._read(path, lambda body: read_offer(body, None if limit is None else int(limit)))

    def inventories(self, provider: str) -> Mapping[str, Inventory]:
        """Return the inventories of a provider by resource class."""
        return self._read(f"/resource_providers/{provider}/inventories", _provider.decode).inventories

    def provider(self, uuid: str) -> Provider | None:
        """Return a resource provider; None if there is none."""
        found: dict[str, Any] = {}
        for name in ("inventories", "usages", "traits", "aggregates"):
            try:
                part = self._read(f"/resource_providers/{uuid}/{name}", _provider.decode)
            except QuestionFailed as error:
                if error.status == 404:
                    return None
                raise
            found[name] = getattr(part, name)
        return Provider(**found)

    def _read(self, path: str, read: Callable[[bytes], T]) -> T:
        reply = self._client.get(path, MICROVERSION, search=True)
        if reply.status != 200:
            raise QuestionFailed(reply.summary, reply.status)
        try:
            return read(reply.body)
        except msgspec.DecodeError as error:
            raise QuestionFailed(f"the response cannot be read: {error}", reply.status) from error


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
        conclude: Callable[[Decision], None],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Look into nothing yet.

        Args:
            is_wanted: Whether questions may be sent now; not while Placement is away.
            names: Returns what the constraints of a request are called.
            conclude: Called once with the document of each failed request, when all is known of it that will
                be: at once, or when its query was looked into.
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
        """Start the thread."""
        self._loop.start(delay=INTERVAL)

    def stop(self) -> None:
        """End the thread after the question that is under way."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        self._loop.stop(0)
        for failed in waiting:
            self._conclude(failed.decision)

    def consider(self, failed: Trace) -> None:
        """Have the query of a failed request looked into, if Placement offered no host and said so itself.

        A Placement that failed has offered none either: then there is nothing to be found out.
        """
        found = failed.decision.candidates
        is_empty = not found.hosts and not found.failed and found.asked == "placement"
        if not (is_empty and failed.decision.queries and self._is_wanted() and self._is_to_wait(failed)):
            self._conclude(failed.decision)

    def _is_to_wait(self, failed: Trace) -> bool:
        """Return whether a query is to be looked into; if the result is known already, it is noted."""
        with self._lock:
            known = self._known.get(failed.decision.queries[0])
            if known is None and len(self._waiting) < MOST_WAITING:
                self._waiting.append(failed)
                if self._clock() >= self._next_at:
                    self._loop.wake()
                return True
        if known is not None:
            _note(failed.decision, known)
        return False

    def run_round(self) -> float:
        """Look into one query; return the seconds to wait."""
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
                self._look_into(equal)
        finally:
            for each in equal:
                self._conclude(each.decision)
            with self._lock:
                self._next_at = self._clock() + INTERVAL
        return INTERVAL

    def _look_into(self, equal: Sequence[Trace]) -> None:
        query = _query(equal[0])
        with self._lock:
            known = self._known.get(query)
        if known is None:
            try:
                found = self._search.find(query, self._names(equal[0].request.spec))
            except PlacementError as error:
                LOG.debug("Cannot find out why Placement offers no host for %s: %s", query, error)
                return
            known = _Finding([Relaxed(**each.values()) for each in found], time_text(self._wall_clock()))
            if all(each.constraints for each in found):
                with self._lock:
                    self._known[query] = known
        for each in equal:
            _note(each.decision, known)
            LOG.info(
                "Placement offered no host for request %s: %s",
                each.decision.request_id,
                "; ".join(one.text for one in known.relaxed) or NOTHING_HELPS,
                context=each.request.context,
            )


def _query(failed: Trace) -> str:
    return failed.decision.queries[0]


def _note(decision: Decision, known: _Finding) -> None:
    decision.candidates.relaxed, decision.candidates.relaxed_at = known
