"""What Placement answers an explanation: which hosts it offers for a query, and what it has of one host."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
import threading
from typing import Any
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


OfferedHosts = tuple[frozenset[str], bool]
"""The UUIDs of the compute nodes that Placement offers, and whether a limit may hide more."""


def read_offer(
    client: PlacementClient, querystring: str, placed: Sequence[AllocationCandidate] = ()
) -> OfferedHosts:
    """Return the hosts that have room besides ``placed``, which Placement does not count.

    Raises:
        PlacementError: There is no usable answer.
    """
    reply = client.get(f"/allocation_candidates?{querystring}", MICROVERSION, search=True)
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
    return frozenset(nodes), found.truncated


class RecentAnswers:
    """Queries Placement, or gives what it said some seconds ago. Any thread may use it."""

    def __init__(self, client: PlacementClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._known: TTLCache[str, Any] = TTLCache(1024, REMEMBERED_FOR, timer=clock)

    def states(self, uuids: Iterable[str], *, again: bool = False) -> dict[str, ProviderState]:
        """Return what Placement has of compute nodes, as far as it answers within the deadline.

        Args:
            again: Whether to read also what was read some seconds ago.
        """
        found: dict[str, ProviderState] = {}

        def read(uuid: str) -> ProviderState | None:
            return read_provider(self._client, uuid, *STATE)

        try:
            for uuid in uuids:
                if deadline.current().expired:  # which ends no read but that of candidates
                    break
                if state := self._remembered(uuid, read, again=again):
                    found[uuid] = state
        except PlacementError as error:
            LOG.debug("Cannot read resource providers: %s", error)
        return found

    def offer(self, querystring: str, placed: Sequence[AllocationCandidate]) -> OfferedHosts | None:
        """Return what Placement offers for a query; None if it does not answer.

        Args:
            placed: What instances of the same request would hold.
        """
        try:
            if placed:
                return read_offer(self._client, querystring, placed)
            return self._remembered(querystring, partial(read_offer, self._client))
        except PlacementError as error:
            LOG.debug("Placement does not answer %s: %s", querystring, error)
            return None

    def _remembered(self, key: str, read: Callable[[str], Any], *, again: bool = False) -> Any:
        with self._lock:
            if key in self._known and not again:
                return self._known[key]
        found = read(key)
        with self._lock:
            self._known[key] = found
        return found
