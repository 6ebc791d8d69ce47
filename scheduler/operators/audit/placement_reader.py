"""Providers and allocations, read from Placement.

Placement has no pages: the list of all providers is one response, as are the allocations of one provider
(spec: placement-and-workflow 7.4).
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import quote

import msgspec

from scheduler.operators.audit.values import Provider, ProviderState
from scheduler.placement.allocations import AllocationReader, ConsumerAllocations
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.providers import Inventory

VERSION = "1.36"
SHARING = "MISC_SHARES_VIA_AGGREGATE"

Result = TypeVar("Result")


class _Providers(msgspec.Struct):
    resource_providers: list[Provider]


class _Holding(msgspec.Struct):
    resources: dict[str, int]


class _Allocations(msgspec.Struct):
    allocations: dict[str, _Holding]
    resource_provider_generation: int


class _Usages(msgspec.Struct):
    usages: dict[str, int]
    resource_provider_generation: int


class _Inventories(msgspec.Struct):
    inventories: dict[str, Inventory]


# Made here: if two threads decode a type for the first time at once, the process crashes.
_provider = msgspec.json.Decoder(Provider)
_providers = msgspec.json.Decoder(_Providers)
_allocations = msgspec.json.Decoder(_Allocations)
_usages = msgspec.json.Decoder(_Usages)
_inventories = msgspec.json.Decoder(_Inventories)


class PlacementReader:
    """Reads Placement with some requests at once. Every wait is bounded by the client.

    All methods raise PlacementSilent if there is no usable answer.
    """

    def __init__(self, client: PlacementClient, at_once: int) -> None:
        self._client = client
        self._consumers = AllocationReader(client)
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="placement")

    def close(self) -> None:
        """Stop; requests that were not yet sent are not sent."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def providers(self) -> dict[str, Provider]:
        """Return all providers by UUID."""
        return {one.uuid: one for one in self._list("/resource_providers")}

    def sharing(self) -> frozenset[str]:
        """Return the roots of the trees that share resources with other hosts."""
        return frozenset(one.root for one in self._list(f"/resource_providers?required={SHARING}"))

    def provider(self, provider: str) -> Provider | None:
        """Return a provider, None if it does not exist."""
        return self._get(_path(provider), _provider)

    def consumers(self, provider: str) -> Iterable[str]:
        """Return what has allocations on a provider; nothing if it does not exist."""
        found = self._get(f"{_path(provider)}/allocations", _allocations)
        return () if found is None else found.allocations

    def states(self, providers: Iterable[Provider]) -> list[ProviderState | None]:
        """Return the state of each provider in order; None if it is gone."""
        return list(self._pool.map(self._state, providers))

    def holdings(self, consumers: Iterable[str]) -> list[ConsumerAllocations]:
        """Return what each consumer holds, in order."""
        return list(self._pool.map(self._consumers.read, consumers))

    def _state(self, provider: Provider) -> ProviderState | None:
        path = _path(provider.uuid)
        # Allocations come before usages: one that is added between them raises the generation.
        allocations = self._get(f"{path}/allocations", _allocations)
        usages = self._get(f"{path}/usages", _usages)
        inventories = self._get(f"{path}/inventories", _inventories)
        if allocations is None or usages is None or inventories is None:
            return None
        return ProviderState(
            provider,
            {name: one.capacity for name, one in inventories.inventories.items()},
            usages.usages,
            {uuid: one.resources for uuid, one in allocations.allocations.items()},
            consistent=allocations.resource_provider_generation == usages.resource_provider_generation,
        )

    def _list(self, path: str) -> list[Provider]:
        found = self._get(path, _providers, search=True)
        if found is None:
            raise PlacementUnreachable(f"Placement answers 404 to {path}")
        return found.resource_providers

    def _get(
        self, path: str, decoder: msgspec.json.Decoder[Result], *, search: bool = False
    ) -> Result | None:
        """Return the body of a response; None for what does not exist."""
        reply = self._client.get(path, VERSION, search=search)
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise PlacementUnreachable(reply.summary)
        try:
            return decoder.decode(reply.body)
        except msgspec.DecodeError as error:
            raise PlacementUnreachable(
                f"Placement's response is not understood: {reply.text[:200]}"
            ) from error


def _path(provider: str) -> str:
    return f"/resource_providers/{quote(provider, safe='')}"
