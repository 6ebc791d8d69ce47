"""The aggregates of a provider, for requests on routed networks (spec: filters-and-weighers 4.10)."""

from typing import Any
from urllib.parse import quote

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementUnreachable

VERSION = "1.19"


class ProviderAggregates:
    """Asks Placement for the aggregates of a provider, each time."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def __call__(self, context: Any, provider: str) -> list[str]:
        """Return the uuids of the aggregates of a provider; none if the provider does not exist.

        Raises:
            PlacementSilent: Placement did not respond, or with an error.
        """
        path = f"/resource_providers/{quote(provider, safe='')}/aggregates"
        reply = self._client.get(path, VERSION, context)
        if reply.status not in {200, 404}:
            raise PlacementUnreachable(f"GET {path}: {reply.summary}")
        return reply.data.get("aggregates") or []
