"""Reading resource providers: lists of them with generations, and single ones with all that they have.

A generation is read before what it stands for, so what was read is at least as new as its generation.
Placement raises it with every write on the provider, except ``DELETE /allocations`` (spec:
placement-and-workflow 2.5).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from scheduler.placement.answer import Usage
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError, QuestionRefused
from scheduler.request.query import MICROVERSION

MOST_AMOUNT = 2**31 - 1
"""The largest amount that Placement lets one allocation have."""


class ListedProvider(msgspec.Struct, gc=False):
    """A provider as lists name it."""

    uuid: str
    generation: int
    root_provider_uuid: str

    @property
    def is_root(self) -> bool:
        """Whether it is the root of its tree, as compute nodes are."""
        return self.uuid == self.root_provider_uuid


class Inventory(msgspec.Struct, gc=False):
    """What a provider has of a resource class."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    min_unit: int = 1
    max_unit: int = MOST_AMOUNT
    step_size: int = 1

    @property
    def capacity(self) -> int:
        """What can be allocated (spec: placement-and-workflow 2.1)."""
        return int((self.total - self.reserved) * self.allocation_ratio)

    def admits(self, amount: int) -> bool:
        """Return whether one allocation may have this amount."""
        return self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0


@dataclass(frozen=True, slots=True)
class ProviderState:
    """All that Placement knows of a provider.

    Attributes:
        uuid: Its uuid.
        generation: The oldest generation of the answers; each of them is at least as new.
        inventories: By resource class.
        used: Amounts by resource class.
        traits: Its traits.
        aggregates: The uuids of its aggregates.
    """

    uuid: str
    generation: int
    inventories: Mapping[str, Inventory]
    used: Mapping[str, int]
    traits: frozenset[str]
    aggregates: frozenset[str]


class Memberships(NamedTuple):
    """The traits and aggregates of a provider.

    Attributes:
        generation: The oldest generation of the answers; each of them is at least as new.
        traits: Its traits.
        aggregates: The uuids of its aggregates; none if they were not read.
    """

    generation: int
    traits: frozenset[str]
    aggregates: frozenset[str]


class _List(msgspec.Struct):
    resource_providers: list[ListedProvider]


class _Generation(msgspec.Struct):
    generation: int


class _Inventories(msgspec.Struct):
    inventories: dict[str, Inventory]
    resource_provider_generation: int = -1


class _Usages(msgspec.Struct):
    usages: dict[str, int]
    resource_provider_generation: int = -1


class _Consumers(msgspec.Struct):
    allocations: dict[str, msgspec.Raw]


class _TraitNames(msgspec.Struct):
    traits: frozenset[str]


class _Traits(_TraitNames):
    resource_provider_generation: int


class _Aggregates(msgspec.Struct):
    aggregates: frozenset[str]
    resource_provider_generation: int


_Body = TypeVar("_Body")

# Made here: msgspec looks at a type when a decoder is made, or else when it is first decoded. If two threads
# do that at once, the process crashes.
_list = msgspec.json.Decoder(_List)
_generation = msgspec.json.Decoder(_Generation)
_inventories = msgspec.json.Decoder(_Inventories)
_usages = msgspec.json.Decoder(_Usages)
_consumers = msgspec.json.Decoder(_Consumers)
_trait_names = msgspec.json.Decoder(_TraitNames)
_traits = msgspec.json.Decoder(_Traits)
_aggregates = msgspec.json.Decoder(_Aggregates)


def list_path(
    amounts: Mapping[str, int] | None = None,
    required: Iterable[str] = (),
    member_of: Collection[str] = (),
) -> str:
    """Return the path of the list of providers that have the amounts left, the traits, and one aggregate."""
    pairs = [("member_of", f"in:{','.join(sorted(member_of))}")] if member_of else []
    if traits := ",".join(sorted(required)):
        pairs.append(("required", traits))
    if amounts:
        pairs.append(("resources", ",".join(f"{name}:{amount}" for name, amount in sorted(amounts.items()))))
    return f"/resource_providers?{urlencode(pairs)}" if pairs else "/resource_providers"


def read_list(client: PlacementClient, path: str, context: Any = None) -> list[ListedProvider]:
    """Return a list of providers; ``path`` as of ``list_path``.

    Raises:
        PlacementSilent: There was no response.
        QuestionRefused: The response is an error, or cannot be read.
    """
    reply = client.get(path, MICROVERSION, context, search=True)
    if reply.status != 200:
        raise QuestionRefused(reply.summary)
    return decode_list(reply.body)


def decode_list(body: bytes) -> list[ListedProvider]:
    """Return the list of providers in a body.

    Raises:
        QuestionRefused: It is no such list.
    """
    return _decode(body, _list).resource_providers


def read_generation(client: PlacementClient, provider: str, context: Any = None) -> int | None:
    """Return the generation of a provider, None if it does not exist; raises as ``read_list``."""
    found = _get(client, provider, "", _generation, context)
    return None if found is None else found.generation


def read_memberships(
    client: PlacementClient, provider: str, context: Any = None, *, aggregates: bool
) -> Memberships | None:
    """Return the traits of a provider, and its aggregates if wanted; None if it does not exist.

    Raises as ``read_list``.
    """
    traits = _get(client, provider, "/traits", _traits, context)
    if traits is None:
        return None
    if not aggregates:
        return Memberships(traits.resource_provider_generation, traits.traits, frozenset())
    found = _get(client, provider, "/aggregates", _aggregates, context)
    if found is None:
        return None
    generation = min(traits.resource_provider_generation, found.resource_provider_generation)
    return Memberships(generation, traits.traits, found.aggregates)


def read_state(client: PlacementClient, provider: str, context: Any = None) -> ProviderState | None:
    """Return all that is known of a provider, None if it does not exist; raises as ``read_list``."""
    inventories = _get(client, provider, "/inventories", _inventories, context)
    usages = _get(client, provider, "/usages", _usages, context)
    traits = _get(client, provider, "/traits", _traits, context)
    aggregates = _get(client, provider, "/aggregates", _aggregates, context)
    if inventories is None or usages is None or traits is None or aggregates is None:
        return None
    answers = (inventories, usages, traits, aggregates)
    return ProviderState(
        provider,
        min(answer.resource_provider_generation for answer in answers),
        inventories.inventories,
        usages.usages,
        traits.traits,
        aggregates.aggregates,
    )


def read_inventories(client: PlacementClient, provider: str, context: Any = None) -> dict[str, Inventory]:
    """Return the inventories of a provider, none if it does not exist; raises as ``read_list``."""
    found = _get(client, provider, "/inventories", _inventories, context)
    return {} if found is None else found.inventories


def read_aggregates(client: PlacementClient, context: Any, provider: str) -> frozenset[str]:
    """Return the aggregates of a provider, none if it does not exist; raises as ``read_list``."""
    found = _get(client, provider, "/aggregates", _aggregates, context)
    return frozenset() if found is None else found.aggregates


def which_traits_exist(client: PlacementClient, names: Collection[str]) -> frozenset[str]:
    """Return those of some traits that Placement has; raises as ``read_list``."""
    any_of = ",".join(sorted(names))
    reply = client.get(f"/traits?{urlencode({'name': f'in:{any_of}'})}", MICROVERSION)
    if reply.status != 200:
        raise QuestionRefused(reply.summary)
    return _decode(reply.body, _trait_names).traits


def read_consumers(client: PlacementClient, provider: str, context: Any = None) -> frozenset[str]:
    """Return the uuids of what holds something of a provider; raises as ``read_list``."""
    found = _get(client, provider, "/allocations", _consumers, context)
    return frozenset() if found is None else frozenset(found.allocations)


def read_usage(client: PlacementClient, provider: str, context: Any = None) -> dict[str, Usage]:
    """Return capacity and usage of a provider by resource class; empty if Placement does not answer."""
    try:
        inventories = read_inventories(client, provider, context)
        usages = _get(client, provider, "/usages", _usages, context)
    except PlacementError:
        return {}
    used = {} if usages is None else usages.usages
    return {name: Usage(one.capacity, used.get(name, 0)) for name, one in inventories.items()}


def _get(
    client: PlacementClient, provider: str, what: str, decoder: msgspec.json.Decoder[_Body], context: Any
) -> _Body | None:
    path = f"/resource_providers/{quote(provider, safe='')}{what}"
    reply = client.get(path, MICROVERSION, context)
    if reply.status not in {200, 404}:
        raise QuestionRefused(reply.summary)
    return _decode(reply.body, decoder) if reply.status == 200 else None


def _decode(body: bytes, decoder: msgspec.json.Decoder[_Body]) -> _Body:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise QuestionRefused(f"the response of Placement cannot be read: {error}") from error
