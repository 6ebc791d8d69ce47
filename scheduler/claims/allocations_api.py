"""Reading and writing the allocations of a consumer in Placement (spec: placement-and-workflow 4.1-4.3)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
import time
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from scheduler.claims.responses import WriteOutcome, write_outcome
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.client import PlacementClient, Reply
from scheduler.placement.errors import PlacementUnreachable
from scheduler.request.query import MICROVERSION

READ_VERSION = "1.28"


@dataclass(frozen=True, slots=True)
class Owner:
    """The project and the user whose quota allocations count against."""

    project_id: str | None
    user_id: str | None


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """What a consumer holds.

    Attributes:
        allocations: Provider UUID → ``{"resources": {class: amount}}``.
        generation: The consumer generation to send with the next write; None for a consumer without
            allocations.
        owner: Whose they are.
    """

    allocations: Resources = field(default_factory=dict)
    generation: int | None = None
    owner: Owner = Owner(None, None)


NOTHING = ConsumerAllocations()


class Written(Protocol):
    """Is told of each write once its outcome is known, or known to be unknown."""

    def __call__(self, bodies: Collection[Mapping[str, Any]], begun: float, *, done: bool | None) -> None:
        """Learn of a write.

        Args:
            bodies: What was written for each consumer; as of ``allocations_body``.
            begun: When it was sent, in seconds of the clock.
            done: Whether it was carried out; None: that is not known.
        """


class AllocationsApi:
    """The requests to Placement. What a response to a write means is told by ``responses.write_outcome``.

    Attributes:
        before_write: Called with the UUIDs of the consumers right before a write of theirs is sent.
        written: Called after each write.
    """

    def __init__(self, client: PlacementClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self.before_write: Callable[[Collection[str]], None] = _do_nothing
        self.written: Written = _ignore_write

    def get_allocations(self, uuid: str, context: Any = None) -> ConsumerAllocations:
        """Return what the consumer holds now.

        Raises:
            PlacementSilent: No response, or one that does not tell.
        """
        reply = self._client.get(_path(uuid), READ_VERSION, context)
        try:
            return _allocations_in(reply.data)
        except (KeyError, TypeError, AttributeError):
            text = f"Placement answers {reply.status} to a request for allocations: {reply.text}"
            raise PlacementUnreachable(text) from None

    def get_root_provider(self, provider: str, context: Any = None) -> str | None:
        """Return the root of a provider's tree; None for a provider that does not exist.

        Raises:
            PlacementSilent: No response, or one that does not tell.
        """
        reply = self._client.get(f"/resource_providers/{quote(provider, safe='')}", MICROVERSION, context)
        if reply.status not in {200, 404}:
            raise PlacementUnreachable(f"Placement answers {reply.status} to a request for a provider")
        return reply.data.get("root_provider_uuid")

    def put_allocations(self, uuid: str, body: dict[str, Any], context: Any = None) -> Reply:
        """Write the allocations of one consumer; raises as ``PlacementClient.write``."""
        self.before_write([uuid])
        return self._write("PUT", _path(uuid), [body], orjson.dumps(body), context)

    def post_allocations(self, bodies: dict[str, dict[str, Any]], context: Any = None) -> Reply:
        """Write the allocations of many consumers, all or none; raises as ``PlacementClient.write``."""
        self.before_write(list(bodies))
        return self._write("POST", "/allocations", bodies.values(), orjson.dumps(bodies), context)

    def _write(
        self, method: str, path: str, bodies: Collection[Mapping[str, Any]], data: bytes, context: Any
    ) -> Reply:
        begun, done = self._clock(), None
        try:
            reply = self._client.write(method, path, MICROVERSION, context, data)
            outcome = write_outcome(reply)
            done = None if outcome is WriteOutcome.UNKNOWN else outcome is WriteOutcome.DONE
            return reply
        except PlacementUnreachable:
            done = False
            raise
        finally:
            self.written(bodies, begun, done=done)


def _do_nothing(_uuids: Collection[str]) -> None:
    """Ignore that a write is about to be sent."""


def _ignore_write(bodies: Collection[Mapping[str, Any]], begun: float, *, done: bool | None) -> None:
    """Ignore that a write was sent."""


def _path(uuid: str) -> str:
    return f"/allocations/{quote(uuid, safe='')}"


def _allocations_in(data: dict[str, Any]) -> ConsumerAllocations:
    entries = data["allocations"]
    allocations = {provider: {"resources": entry["resources"]} for provider, entry in entries.items()}
    if not allocations:
        return NOTHING
    return ConsumerAllocations(
        allocations, data["consumer_generation"], Owner(data["project_id"], data["user_id"])
    )


def allocations_body(allocations: Resources, owner: Owner, generation: int | None) -> dict[str, Any]:
    """Return the body of a write that gives a consumer these allocations and nothing else.

    Args:
        allocations: Provider UUID → ``{"resources": {class: amount}}``.
        owner: Whose they are.
        generation: The generation of the consumer; None for one that must not exist yet.
    """
    return {
        "allocations": allocations,
        "project_id": owner.project_id,
        "user_id": owner.user_id,
        "consumer_generation": generation,
    }


def claim_body(candidate: AllocationCandidate, owner: Owner, generation: int | None) -> dict[str, Any]:
    """Return the body that gives a consumer what the candidate says, and nothing else.

    Args:
        candidate: What to claim.
        owner: For whom.
        generation: The generation of the consumer; None for one that must not exist yet.
    """
    body = allocations_body(candidate.allocations, owner, generation)
    # Placement refuses empty mappings, but not missing ones.
    return {**body, "mappings": candidate.mappings} if candidate.mappings else body


def claim_body_beside(
    source: ConsumerAllocations, candidate: AllocationCandidate, owner: Owner
) -> dict[str, Any]:
    """Return the body that keeps what a consumer holds, and adds what the candidate has besides.

    A provider in both keeps its old amounts: source and destination share it.
    """
    allocations = {**candidate.allocations, **source.allocations}
    return allocations_body(allocations, owner, source.generation)


def emptying_body(current: ConsumerAllocations) -> dict[str, Any]:
    """Return the body that takes everything from a consumer, unless another writer changed it since.

    It is for consumers that exist: of an unknown one Placement would keep a record without allocations.
    """
    return allocations_body({}, current.owner, current.generation)
