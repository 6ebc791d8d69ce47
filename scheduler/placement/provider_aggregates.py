"""The aggregates of a provider, for requests on routed networks (spec: filters-and-weighers 4)."""

from urllib.parse import quote

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementUnreachable

VERSION = "1.19"


class ProviderAggregates:
    """Asks each time: ``(context, provider UUID)`` → UUIDs of its aggregates."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def __call__(self, context, provider: str) -> list[str]:
        """Empty for a provider that does not exist.

        :raises PlacementSilent: no answer, or none that tells.
        """
        path = f"/resource_providers/{quote(provider, safe='')}/aggregates"
        reply = self._client.get(path, VERSION, context)
        if reply.status not in {200, 404}:
            text = (
                f"Placement answers {reply.status} to a question for aggregates: {reply.detail or reply.text}"
            )
            raise PlacementUnreachable(text)
        return reply.data.get("aggregates") or []
