"""Which hosts could take a request, according to Placement (spec: placement-and-workflow 2, 3.4, 7.2).

It is nova's own query. Requests with the same query at the same time share the response.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
import time
from typing import Any

import msgspec
from oslo_log import log

from scheduler.logs import RateLimitedLogger
from scheduler.placement.answer import Candidates, merge, parse, unanswered
from scheduler.placement.batching import BatchedCalls
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent
from scheduler.request.query import MICROVERSION, Query

LOG = log.getLogger(f"nova.{__name__}")

# Different questions in flight: each keeps a CPU of Placement busy, and while it does equal ones can gather.
AT_ONCE = 2

# Seconds that requests wait for the question of another one; longer than an answer may take.
WAIT_TIMEOUT = 90.0


class CandidateSource:
    """Answers which hosts could take a request, by a question that is sent after the request came.

    Equal questions of requests that wait together are sent once.
    """

    def __init__(
        self,
        client: PlacementClient,
        before_question: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet.

        Args:
            before_question: Called when a question is about to be sent for the requests that waited for it.
        """
        self._client = client
        self._before_question = before_question
        self._clock = clock
        self._repeated = RateLimitedLogger(LOG, clock=clock)
        self._calls: BatchedCalls[Candidates] = BatchedCalls(WAIT_TIMEOUT, AT_ONCE)

    def fetch(self, queries: Sequence[Query], context: Any) -> Candidates:
        """Return the candidates of one query, or of two: those of the fallback query come last."""
        candidates = reduce(merge, [self._ask(query, context) for query in queries])
        if not candidates.by_root and not candidates.failed:
            LOG.info("Got no allocation candidates from the Placement API: %s", candidates.reason)
        return candidates

    def _ask(self, query: Query, context: Any) -> Candidates:
        def ask() -> Candidates:
            self._before_question()
            return self._get(query, context)

        try:
            candidates, callers = self._calls.call(query.querystring, ask)
        except PlacementSilent as error:
            return unanswered(error, self._clock())
        return replace(candidates, requests=callers) if callers > 1 else candidates

    def _get(self, query: Query, context: Any) -> Candidates:
        """Send a query. A failure is an empty answer with a reason."""
        sent_at, rejection = self._clock(), ""
        path = f"/allocation_candidates?{query.querystring}"
        try:
            reply = self._client.get(path, MICROVERSION, context, search=True)
            if reply.status == 200:
                return parse(reply.body, query.limit, sent_at)
            reason, rejection = reply.summary, reply.rejection
        except PlacementSilent as error:
            return unanswered(error, sent_at)
        except msgspec.DecodeError as error:
            reason = f"the response of Placement cannot be read: {error}"
        text = "Failed to retrieve allocation candidates from placement API for %s. %s"
        if rejection:
            self._repeated.error(query.querystring, text, query.querystring, reason)
        else:  # outages have lines of their own
            LOG.debug(text, query.querystring, reason)
        return Candidates(reason=reason, failed=True, rejection=rejection, sent_at=sent_at)
