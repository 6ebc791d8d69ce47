"""What Placement answers an explanation: which hosts it offers for a query, and what it has of one host."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

import msgspec

from scheduler.placement import answer
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import QuestionRefused
from scheduler.placement.providers import STATE, ProviderState, read_provider
from scheduler.request.query import MICROVERSION
from scheduler.selection.headroom import Headroom


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
