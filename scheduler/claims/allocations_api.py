"""A consumer's allocations in Placement: read, written, deleted (spec: placement-and-workflow 4.1-4.3)."""

from dataclasses import dataclass, field
from urllib.parse import quote

import orjson

from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.client import PlacementClient, Reply
from scheduler.placement.errors import PlacementUnreachable
from scheduler.request.query import MICROVERSION

READ_VERSION = "1.28"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose quota it is."""

    project_id: str | None
    user_id: str | None


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """What a consumer holds.

    :ivar generation: as Placement wants it back with the next write; None for a consumer without allocations.
    """

    allocations: Resources = field(default_factory=dict)
    generation: int | None = None
    owner: Owner = Owner(None, None)


NOTHING = ConsumerAllocations()


class AllocationsApi:
    """The calls. What an answer to a write means is told by ``outcome.judge``."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def read(self, uuid: str, context=None) -> ConsumerAllocations:
        """What the consumer holds now.

        :raises PlacementSilent: no answer, or none that tells.
        """
        reply = self._client.get(_path(uuid), READ_VERSION, context)
        try:
            return _held(reply.data)
        except (KeyError, TypeError, AttributeError):
            text = f"Placement answers {reply.status} to a question for allocations: {reply.text}"
            raise PlacementUnreachable(text) from None

    def root_of(self, provider: str, context=None) -> str | None:
        """The root of a provider's tree; None for a provider that does not exist.

        :raises PlacementSilent: as for ``read``.
        """
        reply = self._client.get(f"/resource_providers/{quote(provider, safe='')}", MICROVERSION, context)
        if reply.status not in {200, 404}:
            raise PlacementUnreachable(f"Placement answers {reply.status} to a question for a provider")
        return reply.data.get("root_provider_uuid")

    def put(self, uuid: str, body: dict, context=None) -> Reply:
        """Write one consumer's allocations; raises as ``PlacementClient.write``."""
        return self._client.write("PUT", _path(uuid), MICROVERSION, context, orjson.dumps(body))

    def post(self, bodies: dict[str, dict], context=None) -> Reply:
        """Write the allocations of many consumers, all or none; raises as ``PlacementClient.write``."""
        return self._client.write("POST", "/allocations", MICROVERSION, context, orjson.dumps(bodies))

    def delete(self, uuid: str, context=None) -> Reply:
        """Drop a consumer with what it holds: 204, or 404 for none; raises as ``PlacementClient.write``."""
        return self._client.write("DELETE", _path(uuid), None, context)


def _path(uuid: str) -> str:
    return f"/allocations/{quote(uuid, safe='')}"


def _held(data: dict) -> ConsumerAllocations:
    entries = data["allocations"]
    allocations = {provider: {"resources": entry["resources"]} for provider, entry in entries.items()}
    if not allocations:
        return NOTHING
    return ConsumerAllocations(
        allocations, data["consumer_generation"], Owner(data["project_id"], data["user_id"])
    )


def plain(allocations: Resources, owner: Owner, generation: int | None) -> dict:
    """The body that gives a consumer these allocations, and nothing else; ``generation`` as for ``fresh``."""
    return {
        "allocations": allocations,
        "project_id": owner.project_id,
        "user_id": owner.user_id,
        "consumer_generation": generation,
    }


def fresh(candidate: AllocationCandidate, owner: Owner, generation: int | None) -> dict:
    """The body that gives a consumer what the candidate says, and nothing else.

    :param generation: None for a consumer that must not exist yet.
    """
    body = plain(candidate.allocations, owner, generation)
    # Placement takes none, but no empty ones.
    return {**body, "mappings": candidate.mappings} if candidate.mappings else body


def doubled(held: ConsumerAllocations, candidate: AllocationCandidate, owner: Owner) -> dict:
    """The body that lets a consumer keep what it holds, and gives it what the candidate has besides.

    A provider in both keeps its old amounts: it is one that source and destination share.
    """
    return plain({**candidate.allocations, **held.allocations}, owner, held.generation)


def restored(previous: ConsumerAllocations, generation: int) -> dict:
    """The body that puts back what a consumer held before."""
    return plain(previous.allocations, previous.owner, generation)


def emptied(held: ConsumerAllocations) -> dict:
    """The body that takes everything from a consumer, unless somebody else changed it since it was read.

    For consumers that exist: for an unknown one Placement would keep a record without allocations.
    """
    return plain({}, held.owner, held.generation)
