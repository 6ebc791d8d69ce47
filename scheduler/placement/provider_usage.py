"""What single providers have and what of it is used, for answers that name providers without that."""

from typing import Any
from urllib.parse import quote

import msgspec

from scheduler.placement.answer import Usage
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.placement.questions import QuestionRefused
from scheduler.request.query import MICROVERSION


class Inventory(msgspec.Struct, gc=False):
    """What a provider has of a resource class."""

    total: int
    reserved: int
    allocation_ratio: float

    @property
    def capacity(self) -> int:
        """What can be allocated (spec: placement-and-workflow 2.1)."""
        return int((self.total - self.reserved) * self.allocation_ratio)


class _Inventories(msgspec.Struct):
    inventories: dict[str, Inventory]


class _Usages(msgspec.Struct):
    usages: dict[str, int]


def read_inventories(client: PlacementClient, provider: str, context: Any = None) -> dict[str, Inventory]:
    """Return the inventories of a provider by resource class; empty if it does not exist.

    Raises:
        PlacementSilent: There was no response.
        QuestionRefused: The response is an error.
        msgspec.DecodeError: It cannot be read.
    """
    body = _get(client, provider, "inventories", context)
    return {} if body is None else msgspec.json.decode(body, type=_Inventories).inventories


def read_used(client: PlacementClient, provider: str, context: Any = None) -> dict[str, int] | None:
    """Return what is used of a provider by resource class; None if it does not exist.

    Raises:
        PlacementSilent: There was no response.
        QuestionRefused: The response is an error.
        msgspec.DecodeError: It cannot be read.
    """
    body = _get(client, provider, "usages", context)
    return None if body is None else msgspec.json.decode(body, type=_Usages).usages


def read_usage(client: PlacementClient, provider: str, context: Any = None) -> dict[str, Usage]:
    """Return capacity and usage of a provider by resource class; empty if Placement does not tell."""
    try:
        inventories = read_inventories(client, provider, context)
        used = read_used(client, provider, context) or {}
    except (PlacementError, msgspec.DecodeError):
        return {}
    return {name: Usage(one.capacity, used.get(name, 0)) for name, one in inventories.items()}


def _get(client: PlacementClient, provider: str, what: str, context: Any) -> bytes | None:
    path = f"/resource_providers/{quote(provider, safe='')}/{what}"
    reply = client.get(path, MICROVERSION, context)
    if reply.status not in {200, 404}:
        raise QuestionRefused(reply.summary)
    return reply.body if reply.status == 200 else None
