"""What Placement answers an explanation: which hosts it offers for a query, and what it has of one host."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
import threading
from typing import TypeVar
from urllib.parse import parse_qsl

from cachetools import TTLCache
import msgspec
from oslo_log import log as logging

from scheduler.bounds import deadline
from scheduler.placement import answer
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError, QuestionRefused
from scheduler.placement.providers import STATE, ProviderState, read_provider
from scheduler.request.query import MICROVERSION
from scheduler.selection.headroom import Headroom

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds for which what was read of a compute node, or the answer to a query, serves other explanations.
REMEMBERED_FOR = 10.0

T = TypeVar("T")


@dataclass(frozen=True)
class OfferedHosts:
    """What Placement offers for a query.

    Attributes:
        nodes: The UUIDs of the compute nodes.
        cut: Whether there may be more, beyond the limit of the query.
    """

    nodes: frozenset[str] = frozenset()
    cut: bool = False


class PlacementQuestions:
    """Queries Placement. All methods raise PlacementError if there is no usable answer."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def offer(self, querystring: str, placed: Sequence[AllocationCandidate] = ()) -> OfferedHosts:
        """Return the hosts that have room besides ``placed``, which Placement does not count."""
        reply = self._client.get(f"/allocation_candidates?{querystring}", MICROVERSION, search=True)
        if reply.status != 200:
            raise QuestionRefused(reply.summary)
        limit = dict(parse_qsl(querystring)).get("limit")
        try:
            found = answer.parse(reply.body, None if limit is None else int(limit))
        except msgspec.DecodeError as error:
            raise QuestionRefused(f"the response cannot be read: {error}") from error
        taken = Headroom(found.usage)
        for candidate in placed:
            taken.plan(candidate)
        nodes = (root for root, some in found.by_root.items() if not placed or any(map(taken.fits, some)))
        return OfferedHosts(frozenset(nodes), found.truncated)

    def provider(self, uuid: str) -> ProviderState | None:
        """Return a resource provider; None if there is none."""
        return read_provider(self._client, uuid, *STATE)


class RecentAnswers:
    """Asks Placement, or gives what it said some seconds ago. Any thread may use it."""

    def __init__(
        self,
        questions: PlacementQuestions,
        clock: Callable[[], float],
        learn: Callable[[ProviderState, float], None] | None,
    ) -> None:
        """Remember nothing yet.

        Args:
            learn: Called with the state of each provider that is read, and when the reading began.
        """
        self._questions = questions
        self._clock = clock
        self._learn = learn
        self._lock = threading.Lock()
        self._states: TTLCache[str, ProviderState | None] = TTLCache(1024, REMEMBERED_FOR, timer=clock)
        self._offers: TTLCache[str, OfferedHosts] = TTLCache(256, REMEMBERED_FOR, timer=clock)

    def states(self, uuids: Iterable[str], *, again: bool = False) -> dict[str, ProviderState]:
        """Return what Placement has of compute nodes, as far as it answers within the deadline.

        Args:
            again: Whether to read also what was read some seconds ago.
        """
        found: dict[str, ProviderState] = {}
        try:
            for uuid in uuids:
                if deadline.current().expired:  # which ends no read but that of candidates
                    break
                if again:
                    with self._lock:
                        self._states.pop(uuid, None)
                if state := self._remembered(self._states, uuid, self._read):
                    found[uuid] = state
        except PlacementError as error:
            LOG.debug("Cannot read resource providers: %s", error)
        return found

    def offer(self, querystring: str, placed: Sequence[AllocationCandidate] = ()) -> OfferedHosts | None:
        """Return what Placement offers for a query; None if it does not answer.

        Args:
            placed: What instances of the same request would hold.
        """
        try:
            if placed:
                return self._questions.offer(querystring, placed)
            return self._remembered(self._offers, querystring, self._questions.offer)
        except PlacementError as error:
            LOG.debug("Placement does not answer %s: %s", querystring, error)
            return None

    def _read(self, uuid: str) -> ProviderState | None:
        begun, state = self._clock(), self._questions.provider(uuid)
        if state is not None and self._learn is not None:
            self._learn(state, begun)
        return state

    def _remembered(self, known: TTLCache[str, T], key: str, read: Callable[[str], T]) -> T:
        with self._lock:
            if key in known:
                return known[key]
        found = read(key)
        with self._lock:
            known[key] = found
        return found
