"""What Placement answers an analysis: the offer for a query, and what is used of the providers in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import msgspec

from scheduler.placement import answer
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import QuestionRefused
from scheduler.placement.providers import Inventory, ProviderState, read_inventories, read_state
from scheduler.request.query import MICROVERSION


class _Usage(msgspec.Struct, frozen=True):
    capacity: int = 0
    used: int = 0


class OfferedProvider(msgspec.Struct, frozen=True):
    """A resource provider in an answer: the root of its tree, and its resources by class."""

    root_provider_uuid: str
    resources: dict[str, _Usage]

    def free(self, resource_class: str) -> int:
        usage = self.resources[resource_class]
        return usage.capacity - usage.used


class _Body(msgspec.Struct):
    provider_summaries: dict[str, OfferedProvider]


@dataclass(frozen=True)
class OfferedHosts:
    """What Placement offers for a query.

    Attributes:
        nodes: The UUIDs of the compute nodes.
        cut: Whether there may be more, beyond the limit of the query.
        providers: By UUID the providers of their trees, and those that share with them.
    """

    nodes: frozenset[str] = frozenset()
    cut: bool = False
    providers: Mapping[str, OfferedProvider] = field(default_factory=dict)


_body = msgspec.json.Decoder(_Body)


def read_offer(body: bytes, limit: int | None) -> OfferedHosts:
    """Return what a response of allocation candidates offers.

    Args:
        limit: The limit of the query, or None.

    Raises:
        msgspec.DecodeError: It is no such response.
    """
    found = answer.parse(body, limit)
    return OfferedHosts(frozenset(found.by_root), found.truncated, _body.decode(body).provider_summaries)


class PlacementQuestions:
    """Queries Placement for an analysis. All methods raise PlacementError if there is no usable answer."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def offer(self, querystring: str) -> OfferedHosts:
        reply = self._client.get(f"/allocation_candidates?{querystring}", MICROVERSION, search=True)
        if reply.status != 200:
            raise QuestionRefused(reply.summary)
        limit = dict(parse_qsl(querystring)).get("limit")
        try:
            return read_offer(reply.body, None if limit is None else int(limit))
        except msgspec.DecodeError as error:
            raise QuestionRefused(f"the response cannot be read: {error}") from error

    def inventories(self, provider: str) -> Mapping[str, Inventory]:
        return read_inventories(self._client, provider)

    def provider(self, uuid: str) -> ProviderState | None:
        """Return a resource provider; None if there is none."""
        return read_state(self._client, uuid)
