"""Reading resource providers: lists of them with generations, and what a single one has.

A generation is read before what it stands for, so what was read is at least as new as its generation.
Placement raises it with every write on the provider, except ``DELETE /allocations`` (spec:
placement-and-workflow 2.5).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
import math
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from scheduler.placement.answer import Usage
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError, QuestionRefused
from scheduler.placement.reply import Reply
from scheduler.request.query import MICROVERSION

CLOCKS = 10.0
"""Seconds by which the clocks of Placement's servers may differ. Times of changes are rounded to seconds."""

MOST_AMOUNT = 2**31 - 1
"""The largest amount that Placement lets one allocation have."""


class ListedProvider(msgspec.Struct, frozen=True, gc=False):
    """A provider as lists name it."""

    uuid: str
    generation: int
    root_provider_uuid: str
    name: str = ""

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


class Holding(msgspec.Struct, gc=False):
    """What a consumer holds of a provider."""

    resources: dict[str, int]


@dataclass(frozen=True, slots=True)
class ProviderState:
    """What Placement has of a provider; empty where it was not read.

    Attributes:
        uuid: Its uuid.
        generation: The oldest generation of the answers; each of them is at least as new.
        inventories: By resource class.
        used: Amounts by resource class.
        traits: Its traits.
        aggregates: The uuids of its aggregates.
        allocations: By consumer.
        since: In the mirror, when its reading began, in seconds of the clock; -inf if this process, or one
            that announced it, has written to it since, or shortly before: the time of its last change proves
            nothing then.
    """

    uuid: str
    generation: int
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    allocations: Mapping[str, Holding] = field(default_factory=dict)
    since: float = -math.inf


ABSENT = ProviderState("", -1)

READINGS: dict[str, tuple[str, Any]] = {
    "inventories": ("inventories", dict[str, Inventory]),
    "usages": ("used", dict[str, int]),
    "traits": ("traits", frozenset[str]),
    "aggregates": ("aggregates", frozenset[str]),
    "allocations": ("allocations", dict[str, Holding]),
}
"""What can be read of a provider: its attribute in ``ProviderState``, and its type."""

STATE = "inventories", "usages", "traits", "aggregates"
"""What decides whether a provider suits a query."""


class _List(msgspec.Struct):
    resource_providers: list[ListedProvider]


class _TraitNames(msgspec.Struct):
    traits: frozenset[str]


_Body = TypeVar("_Body")

# Made here: msgspec looks at a type when a decoder is made, or else when it is first decoded. If two threads
# do that at once, the process crashes.
_list = msgspec.json.Decoder(_List)
_listed = msgspec.json.Decoder(ListedProvider)
_trait_names = msgspec.json.Decoder(_TraitNames)
_readings: dict[str, msgspec.json.Decoder[Any]] = {
    what: msgspec.json.Decoder(msgspec.defstruct(what, [(what, kind), ("resource_provider_generation", int)]))
    for what, (_, kind) in READINGS.items()
}


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
    return decode_list(client.get(path, MICROVERSION, context, search=True))


def decode_list(reply: Reply) -> list[ListedProvider]:
    """Return the list of providers in a response; raises QuestionRefused if it has none."""
    return _decode(reply, _list).resource_providers


def read_provider(
    client: PlacementClient, provider: str, *whats: str, context: Any = None
) -> ProviderState | None:
    """Return some of what Placement has of a provider, None if it does not exist; raises as ``read_list``.

    Args:
        whats: Keys of ``READINGS``, which are read in this order.
    """
    generations, values = [], {}
    for what in whats:
        path = f"/resource_providers/{quote(provider, safe='')}/{what}"
        reply = client.get(path, MICROVERSION, context)
        if reply.status == 404:
            return None
        body = _decode(reply, _readings[what])
        generations.append(body.resource_provider_generation)
        values[READINGS[what][0]] = getattr(body, what)
    return ProviderState(provider, min(generations), **values)


def read_age(client: PlacementClient, provider: str, context: Any = None) -> tuple[int, float] | None:
    """Return the generation of a provider and the seconds since its last change, by Placement's clock.

    Such a change is each write that raises the generation, and the creation of the provider.

    Returns:
        None if the provider does not exist; raises as ``read_list``.
    """
    reply = client.get(f"/resource_providers/{quote(provider, safe='')}", MICROVERSION, context)
    if reply.status == 404:
        return None
    return _decode(reply, _listed).generation, reply.unchanged_for


def read_usage(client: PlacementClient, provider: str, context: Any = None) -> dict[str, Usage]:
    """Return capacity and usage of a provider by resource class; empty if Placement does not answer."""
    try:
        state = read_provider(client, provider, "inventories", "usages", context=context) or ABSENT
    except PlacementError:
        return {}
    return {name: Usage(one.capacity, state.used.get(name, 0)) for name, one in state.inventories.items()}


def which_traits_exist(client: PlacementClient, names: Collection[str]) -> frozenset[str]:
    """Return those of some traits that Placement has; raises as ``read_list``."""
    any_of = ",".join(sorted(names))
    path = f"/traits?{urlencode({'name': f'in:{any_of}'})}"
    return _decode(client.get(path, MICROVERSION), _trait_names).traits


def _decode(reply: Reply, decoder: msgspec.json.Decoder[_Body]) -> _Body:
    if reply.status != 200:
        raise QuestionRefused(reply.summary)
    try:
        return decoder.decode(reply.body)
    except msgspec.DecodeError as error:
        raise QuestionRefused(f"the response of Placement cannot be read: {error}") from error
