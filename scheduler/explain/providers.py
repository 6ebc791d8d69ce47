"""What Placement answers an analysis: the offer for a query, and what it has of single resource providers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from scheduler.explain.refusals import Inventory, Stock
from scheduler.placement import answer
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.request.query import MICROVERSION

T = TypeVar("T")


class Provider(msgspec.Struct):
    """The provider of a compute node: inventories and usages by class, traits, UUIDs of aggregates."""

    inventories: dict[str, Inventory] = msgspec.field(default_factory=dict)
    usages: dict[str, int] = msgspec.field(default_factory=dict)
    traits: list[str] = msgspec.field(default_factory=list)
    aggregates: list[str] = msgspec.field(default_factory=list)

    def used(self, resource_class: str) -> int:
        return self.usages.get(resource_class, 0)

    def stocks(self, resource_class: str) -> list[Stock]:
        """Return what there is of a class: one stock, or none."""
        inventory = self.inventories.get(resource_class)
        return [Stock(inventory, self.used(resource_class))] if inventory else []


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


_body, _provider = msgspec.json.Decoder(_Body), msgspec.json.Decoder(Provider)


def read_offer(body: bytes, limit: int | None) -> OfferedHosts:
    """Return what a response of allocation candidates offers.

    Args:
        limit: The limit of the query, or None.

    Raises:
        msgspec.DecodeError: It is no such response.
    """
    found = answer.parse(body, limit)
    return OfferedHosts(frozenset(found.by_root), found.truncated, _body.decode(body).provider_summaries)


class QuestionFailed(PlacementError):
    """Placement refused a question, or its response cannot be read; ``status`` is that of the response."""

    def __init__(self, text: str, status: int) -> None:
        self.status = status
        super().__init__(text)


class PlacementQuestions:
    """Queries Placement for an analysis. All methods raise PlacementError if there is no usable answer."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def offer(self, querystring: str) -> OfferedHosts:
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
