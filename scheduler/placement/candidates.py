"""Which hosts could take a request, according to Placement (spec: placement-and-workflow 2, 3.4, 7.2)."""

from collections.abc import Callable, Sequence
from functools import reduce
import time

import msgspec
from oslo_log import log

from scheduler.placement.answer import AllocationCandidate, Candidates, merge, parse
from scheduler.placement.client import PlacementClient
from scheduler.placement.coalescing import CoalescedCalls
from scheduler.placement.errors import PlacementSilent
from scheduler.request.query import MICROVERSION, Query

__all__ = ["AllocationCandidate", "CandidateSource", "Candidates", "CoalescedFetch", "FetchCandidates"]

LOG = log.getLogger(__name__)

# Seconds after which requests stop waiting for another's GET; longer than a GET is given.
PATIENCE = 90.0

Ask = Callable[[Query, object], Candidates]
"""(query, context) → its candidates. Never raises: a failure is an empty answer with a reason."""


class CandidateSource:
    """Answers requests. How old an answer may be is up to ``ask``."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @classmethod
    def of(cls, client: PlacementClient, at_once: int = 2) -> "CandidateSource":
        """The default: every answer is asked for after the request came; equal questions share one.

        ``at_once``: how many different questions are in flight.
        """
        return cls(CoalescedFetch(FetchCandidates(client), at_once))

    def fetch(self, queries: Sequence[Query], context) -> Candidates:
        """The candidates of one query, or of two: those of the fallback follow those of the first."""
        found = reduce(merge, [self._ask(query, context) for query in queries])
        if not found.by_root:
            LOG.info("Got no allocation candidates from the Placement API: %s", found.reason)
        return found


class FetchCandidates:
    """One GET for each question."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def __call__(self, query: Query, context) -> Candidates:
        """Ask Placement now."""
        sent_at = time.monotonic()
        try:
            path = f"/allocation_candidates?{query.querystring}"
            reply = self._client.get(path, MICROVERSION, context, search=True)
            if reply.status == 200:
                return parse(reply.body, query.limit, sent_at)
            reason = reply.summary
        except PlacementSilent as error:
            # The client has said so, and does not repeat itself with every request.
            return Candidates(reason=f"Placement does not answer: {error}", failed=True, sent_at=sent_at)
        except msgspec.DecodeError as error:
            reason = f"Placement's answer is not understood: {error}"
        LOG.error(
            "Failed to retrieve allocation candidates from placement API for %s. %s",
            query.querystring,
            reason,
        )
        return Candidates(reason=reason, failed=True, sent_at=sent_at)


class CoalescedFetch:
    """Equal questions in flight share the next answer; see ``sharing``."""

    def __init__(self, ask: Ask, at_once: int, patience: float = PATIENCE) -> None:
        self._ask = ask
        self._calls = CoalescedCalls(patience, at_once)

    def __call__(self, query: Query, context) -> Candidates:
        """Ask, or wait for somebody else who is about to."""
        try:
            return self._calls.call(query.querystring, lambda: self._ask(query, context))
        except PlacementSilent as error:
            return Candidates(reason=f"Placement does not answer: {error}", failed=True)
