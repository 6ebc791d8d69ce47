"""What consumers hold in Placement (spec: placement-and-workflow 4.1-4.3)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from scheduler.placement.answer import Resources
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.read_each import read_each
from scheduler.request.query import MICROVERSION

READ_VERSION = "1.28"

#: Resource classes that distinguish compute nodes from providers that they share.
COMPUTE = frozenset({"VCPU", "PCPU", "MEMORY_MB"})


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


class AllocationReader:
    """Reads what consumers hold; shared by all threads."""

    def __init__(self, client: PlacementClient, at_once: int = 4) -> None:
        """Read through ``client``, at most ``at_once`` consumers of a call at the same time."""
        self._client = client
        self._at_once = at_once

    def read(self, uuid: str, context: Any = None) -> ConsumerAllocations:
        """Return what a consumer holds now.

        Raises:
            PlacementSilent: No usable response.
        """
        reply = self._client.get(path_of(uuid), READ_VERSION, context)
        try:
            return _allocations_in(reply.data)
        except (KeyError, TypeError, AttributeError):
            text = f"Placement answers {reply.status} to a request for allocations: {reply.text}"
            raise PlacementUnreachable(text) from None

    def read_many(
        self, uuids: Sequence[str], context: Any = None, *, in_any_case: bool = False
    ) -> Mapping[str, ConsumerAllocations]:
        """Return what consumers hold now, by UUID; ``in_any_case`` also after the request's deadline.

        Raises:
            PlacementSilent: Placement gives no usable answer for one of them.
        """
        return read_each(partial(self.read, context=context), uuids, self._at_once, in_any_case=in_any_case)

    def root_of(self, provider: str, context: Any = None) -> str | None:
        """Return the root of a provider's tree; None for a provider that does not exist.

        Raises:
            PlacementSilent: No usable response.
        """
        reply = self._client.get(f"/resource_providers/{quote(provider, safe='')}", MICROVERSION, context)
        if reply.status not in {200, 404}:
            raise PlacementUnreachable(f"Placement answers {reply.status} to a request for a provider")
        return reply.data.get("root_provider_uuid")

    def kept(self, held: Resources, nodes: Collection[str], context: Any = None) -> Resources:
        """Return what an instance keeps that leaves compute nodes: what it holds of them, or shared.

        Raises:
            PlacementSilent: The root of a provider is not known.
        """
        roots = {each: each if each in nodes else self.root_of(each, context) for each in held}
        used = {roots[each] for each, entry in held.items() if COMPUTE & entry["resources"].keys()}
        return {
            each: entry for each, entry in held.items() if roots[each] in nodes or roots[each] not in used
        }


def path_of(uuid: str) -> str:
    """Return the path of what a consumer holds."""
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
        generation: The generation of the consumer; None for one that must not exist yet.
    """
    return {
        "allocations": allocations,
        "project_id": owner.project_id,
        "user_id": owner.user_id,
        "consumer_generation": generation,
    }
