"""Candidates as of a moment after the request came, at the least cost for Placement.

Where compute nodes alone decide (``plain_query``, ``ProviderTrees``) a list of providers names the same hosts
as allocation candidates do, for a third of the cost, and all of them: no limit cuts it. What is asked for is
then allocated on the compute node itself. Requests that wait at the same time and differ only in aggregates,
such as availability zones, share one list, which is cut by lists of the aggregates' members, if that costs
less than a list for each. All other queries, and those for which a list is empty, are answered by allocation
candidates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
import time
from typing import Any, Protocol

import msgspec

from scheduler.placement.answer import Candidates, RootsAlone
from scheduler.placement.batching import Batch, BatchedCalls
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.list_costs import ListCosts
from scheduler.placement.mirror import PlainQuery, plain_query
from scheduler.placement.provider_lists import ProviderList, ProviderLists, list_path
from scheduler.placement.provider_trees import ProviderTrees
from scheduler.placement.provider_usage import read_usage
from scheduler.placement.questions import QuestionRefused, Questions
from scheduler.request.query import Query

# Seconds that requests wait for the GET of another one; longer than a GET may take.
WAIT_TIMEOUT = 90.0

# Batches that are called for at once where workers bound their questions in flight together: most of them
# wait for what another worker has sent.
WAITING_CALLS = 32

Fetch = Callable[[Query, Any], Candidates]
"""(query, request context) -> its candidates. It never raises: a failure is an empty answer with a reason."""


class FetchInFull(Protocol):
    """Asks for allocation candidates. It never raises: a failure is an empty answer with a reason."""

    def __call__(
        self, query: Query, context: Any, not_before: float, sending: Callable[[float], None]
    ) -> Candidates:
        """Return the candidates of a query, as of ``not_before`` or later; see ``Questions.ask``."""


_Aggregates = tuple[frozenset[frozenset[str]], frozenset[str]]
"""What a query asks of aggregates: one of each set, and none of others."""


@dataclass(frozen=True, slots=True)
class _ListKey:
    """What queries have in common that share a list."""

    amounts: frozenset[tuple[str, int]]
    required: frozenset[str]
    forbidden: frozenset[str]

    @classmethod
    def of(cls, plain: PlainQuery) -> "_ListKey":
        return cls(frozenset(plain.amounts.items()), plain.required, plain.forbidden)

    def path(self, aggregates: _Aggregates = (frozenset(), frozenset())) -> str:
        return list_path(dict(self.amounts), self.required, self.forbidden, *aggregates)


@dataclass(frozen=True, slots=True)
class _Item:
    """A query that waits.

    Attributes:
        query: The query.
        context: The request context.
        aggregates: What it asks of aggregates.
        came_at: When it came, in seconds of the clock.
    """

    query: Query
    context: Any
    aggregates: _Aggregates
    came_at: float


_Batch = Batch[_Item, Candidates | None]


class FreshCandidates:
    """Answers each query by questions that were sent after it came; those that wait together share them."""

    def __init__(
        self,
        questions: Questions,
        fetch_in_full: FetchInFull,
        at_once: int = 2,
        wait_timeout: float = WAIT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        before_question: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up the questions; nothing is sent yet.

        Args:
            questions: Asks for lists.
            fetch_in_full: Asks for allocation candidates.
            at_once: How many batches of queries are in flight, unless they are shared with other workers.
            wait_timeout: Seconds to wait for a place among them.
            clock: Seconds that only grow.
            before_question: Called when a question is about to be sent for the queries of a batch.
        """
        self._client = questions.client
        self._before_question = before_question
        self._fetch_in_full = fetch_in_full
        self._clock = clock
        self._lists = ProviderLists(questions, clock)
        self._trees = ProviderTrees(self._client, self._lists, clock)
        self._costs = ListCosts(lambda: self._trees.roots)
        self._calls: BatchedCalls[_ListKey | str, _Item, Candidates | None] = BatchedCalls(
            self._ask, wait_timeout, WAITING_CALLS if questions.shared else at_once
        )

    def __call__(self, query: Query, context: Any) -> Candidates:
        """Return the candidates of a query."""
        plain = plain_query(query)
        try:
            if plain is not None and self._trees.provided_by_roots(plain.amounts):
                aggregates = frozenset(plain.member_of), plain.not_member_of
                item = _Item(query, context, aggregates, self._clock())
                found = self._calls.call(_ListKey.of(plain), item)
                if found is not None and (found.by_root or found.failed):
                    return found
            item = _Item(query, context, (frozenset(), frozenset()), self._clock())
            return self._calls.call(query.querystring, item) or Candidates()
        except PlacementSilent as error:
            return Candidates(reason=f"Placement does not respond: {error}", failed=True)

    def _ask(self, key: _ListKey | str, batch: _Batch) -> Sequence[Candidates | None]:
        """Return the candidates for each item; None for those that need allocation candidates."""
        if not isinstance(key, _ListKey):
            first, *_ = batch.items
            begin = partial(self._begin, batch)
            found = self._fetch_in_full(first.query, first.context, first.came_at, begin)
            items = batch.close(_came_until(found.sent_at))
            return [replace(found, requests=len(items)) if len(items) > 1 else found] * len(items)
        try:
            by_aggregates = self._ask_lists(key, batch)
        except (QuestionRefused, msgspec.DecodeError):
            return [None] * len(batch.close())
        except PlacementSilent as error:
            # The client has logged it, and not once for every request.
            failed = Candidates(reason=f"Placement does not respond: {error}", failed=True)
            return [failed] * len(batch.close())
        items = batch.close()
        answers = [by_aggregates[item.aggregates] for item in items]
        return [replace(each, requests=len(items)) for each in answers] if len(items) > 1 else answers

    def _begin(self, batch: _Batch, moment: float) -> None:
        """Close a batch with those who came before a moment, after which a question is sent."""
        if batch.is_open:
            self._before_question()
            batch.close(_came_until(moment))

    def _ask_lists(self, key: _ListKey, batch: _Batch) -> Mapping[_Aggregates, Candidates]:
        """Close the batch, and return the candidates for each condition on aggregates.

        Raises:
            PlacementSilent: There was no response.
            QuestionRefused: The response is an error.
            msgspec.DecodeError: It cannot be read.
        """
        first, *_ = queries = batch.items
        path = key.path() if self._shares_list(key, queries) else key.path(first.aggregates)
        listed = self._fetch(path, first.came_at, first.context, partial(self._begin, batch))
        items = batch.close(_came_until(listed.sent_at))
        needed: dict[_Aggregates, float] = {}
        for item in items:
            needed[item.aggregates] = max(item.came_at, needed.get(item.aggregates, item.came_at))
        fetch = partial(self._fetch, context=first.context)
        if not self._shares_list(key, items):
            lists = {
                aggregates: fetch(key.path(aggregates), came_at) for aggregates, came_at in needed.items()
            }
            return {aggregates: self._candidates(key, each.roots, each) for aggregates, each in lists.items()}
        everywhere = fetch(key.path(), max(needed.values()))
        found = {}
        for aggregates, came_at in needed.items():
            members = {path: fetch(path, came_at).members for path in _member_paths(aggregates)}
            roots = _cut(everywhere.roots, aggregates, members)
            found[aggregates] = self._candidates(key, roots, everywhere)
        return found

    def _shares_list(self, key: _ListKey, items: Sequence[_Item]) -> bool:
        """Whether one list for all, cut by lists of members, costs less than a list for each condition."""
        needed = {item.aggregates for item in items}
        single = {key.path(aggregates) for aggregates in needed}
        shared = {key.path(), *(path for aggregates in needed for path in _member_paths(aggregates))}
        return self._costs.are_less(shared, single)

    def _fetch(
        self,
        path: str,
        not_before: float,
        context: Any,
        sending: Callable[[float], None] = lambda _moment: None,
    ) -> ProviderList:
        providers = self._lists.fetch(path, not_before, context, sending)
        self._costs.learn(path, len(providers.roots))
        return providers

    def _candidates(self, key: _ListKey, roots: tuple[str, ...], listed: ProviderList) -> Candidates:
        return Candidates(
            by_root=RootsAlone(roots, dict(key.amounts)),
            reason="" if roots else "no provider satisfies the request",
            sent_at=listed.sent_at,
            read_usage=partial(read_usage, self._client),
        )


def _came_until(moment: float) -> Callable[[_Item], bool]:
    """Return whether a question that was sent at a moment answers a query: it came before."""
    return lambda item: item.came_at <= moment


def _member_path(any_of: Iterable[str]) -> str:
    return list_path(member_of=[any_of])


def _member_paths(aggregates: _Aggregates) -> list[str]:
    """Return the paths of the lists that a list without aggregates is cut by."""
    wanted, unwanted = aggregates
    return [_member_path(any_of) for any_of in (*wanted, *([unwanted] if unwanted else []))]


def _cut(
    roots: tuple[str, ...], aggregates: _Aggregates, members: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    """Return the roots that are in one aggregate of each wanted set and in no unwanted one."""
    wanted, unwanted = aggregates
    for any_of in wanted:
        inside = members[_member_path(any_of)]
        roots = tuple([root for root in roots if root in inside])
    if unwanted:
        outside = members[_member_path(unwanted)]
        roots = tuple([root for root in roots if root not in outside])
    return roots
