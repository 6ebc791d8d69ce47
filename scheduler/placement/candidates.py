"""Which hosts could take a request, according to Placement (spec: placement-and-workflow 2, 3.4, 7.2)."""

from collections.abc import Callable, Sequence
from functools import reduce
import time
from typing import Any

import msgspec
from oslo_log import log

from scheduler.placement.answer import AllocationCandidate, Candidates, merge, parse
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.fresh import Fetch, FreshCandidates
from scheduler.placement.questions import QuestionRefused, Questions
from scheduler.request.query import Query
from scheduler.shared_answers import SharedAnswers

__all__ = ["AllocationCandidate", "CandidateSource", "Candidates", "FetchCandidates"]

LOG = log.getLogger(__name__)


class CandidateSource:
    """Answers which hosts could take a request. How old an answer may be depends on ``fetch``."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    @classmethod
    def of(
        cls,
        client: PlacementClient,
        answers: SharedAnswers,
        at_once: int = 2,
        before_question: Callable[[], None] = lambda: None,
    ) -> "CandidateSource":
        """Make the default source: every question is sent after the request came; see ``fresh``.

        Args:
            client: Sends the questions.
            answers: What Placement answered to other workers.
            at_once: How many different ones are in flight, of all workers that share answers.
            before_question: Called when questions are about to be sent for requests that waited for them.
        """
        questions = Questions(client, answers, at_once)
        in_full = FetchCandidates(questions)
        return cls(FreshCandidates(questions, in_full, at_once, before_question=before_question))

    def fetch(self, queries: Sequence[Query], context: Any) -> Candidates:
        """Return the candidates of one query, or of two: those of the fallback query come last."""
        found = reduce(merge, [self._fetch(query, context) for query in queries])
        if not found.by_root:
            LOG.info("Got no allocation candidates from the Placement API: %s", found.reason)
        return found


class FetchCandidates:
    """One GET for each query, or the answer to one that another worker has sent late enough."""

    def __init__(self, questions: Questions, clock: Callable[[], float] = time.monotonic) -> None:
        self._questions = questions
        self._clock = clock

    def __call__(
        self,
        query: Query,
        context: Any,
        not_before: float | None = None,
        sending: Callable[[float], None] = lambda _moment: None,
    ) -> Candidates:
        """Ask Placement; ``not_before``, by default now, and ``sending`` are as for ``Questions.ask``."""
        sent_at = self._clock()
        not_before = sent_at if not_before is None else not_before
        try:
            path = f"/allocation_candidates?{query.querystring}"
            answer = self._questions.ask(path, not_before, context, sending)
            return parse(answer.body, query.limit, answer.asked_at)
        except QuestionRefused as error:
            reason = str(error)
        except PlacementSilent as error:
            # The client has logged it, and not once for every request.
            return Candidates(reason=f"Placement does not respond: {error}", failed=True, sent_at=sent_at)
        except msgspec.DecodeError as error:
            reason = f"the response of Placement cannot be read: {error}"
        LOG.error(
            "Failed to retrieve allocation candidates from placement API for %s. %s",
            query.querystring,
            reason,
        )
        return Candidates(reason=reason, failed=True, sent_at=sent_at)
