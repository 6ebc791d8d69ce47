"""Providers and allocations, read from Placement.

Placement has no pages: the list of all providers is one response, as are the allocations of one provider
(spec: placement-and-workflow 7.4).
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
import threading
from typing import TypeVar
from urllib.parse import quote

import msgspec

from scheduler.operators.audit.values import Provider, ProviderState
from scheduler.placement.allocations import AllocationReader, ConsumerAllocations
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable
from scheduler.placement.providers import Inventory

VERSION = "1.36"
SHARING = "MISC_SHARES_VIA_AGGREGATE"

#: After so many requests in a row without an answer Placement is regarded as away for the rest of the audit.
FAILURES = 10

Item = TypeVar("Item")
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
    """Reads Placement with some requests at once. Every wait is bounded by the client."""

    def __init__(self, client: PlacementClient, at_once: int) -> None:
        self._client = client
        self._consumers = AllocationReader(client)
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="placement")
        self._lock = threading.Lock()
        self._failures = 0

    def close(self) -> None:
        """Stop; requests that were not yet sent are not sent."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def providers(self) -> dict[str, Provider]:
        """Return all providers by UUID.

        Raises:
            PlacementSilent: there is no usable answer.
        """
        return {one.uuid: one for one in self._list("/resource_providers")}

    def sharing(self) -> frozenset[str]:
        """Return the roots of the trees that share resources with other hosts; raises as ``providers``."""
        return frozenset(one.root for one in self._list(f"/resource_providers?required={SHARING}"))

    def provider(self, provider: str) -> Provider | None:
        """Return a provider, None if it does not exist; raises as ``providers``."""
        return self._counted(lambda path: self._get(path, _provider), _path(provider))

    def states(self, providers: Iterable[Provider]) -> list[ProviderState | PlacementSilent | None]:
        """Return each provider's state in order: an error if it could not be read, None if it is gone."""
        return self._each(self._state, providers)

    def holdings(self, consumers: Iterable[str]) -> list[ConsumerAllocations | PlacementSilent]:
        """Return what each consumer holds in order; an error if that could not be read."""
        return self._each(self._consumers.read, consumers)

    def _each(self, read: Callable[[Item], Result], items: Iterable[Item]) -> list[Result | PlacementSilent]:
        def guarded(item: Item) -> Result | PlacementSilent:
            try:
                return self._counted(read, item)
            except PlacementSilent as error:
                return error

        return list(self._pool.map(guarded, items))

    def _counted(self, read: Callable[[Item], Result], item: Item) -> Result:
        """Read an item, unless there was no answer for many items in a row."""
        with self._lock:
            if self._failures >= FAILURES:
                raise PlacementUnreachable(
                    f"not queried after {FAILURES} requests in a row without an answer"
                )
        try:
            found = read(item)
        except PlacementSilent:
            with self._lock:
                self._failures += 1
            raise
        with self._lock:
            self._failures = 0
        return found

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
