"""Providers and allocations, read from Placement.

Placement has no pages: the list of all providers is one response, as are the allocations of one provider
(spec: placement-and-workflow 7.4).
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import msgspec

from scheduler.operators.audit.values import Provider, ProviderState
from scheduler.placement.allocations import AllocationReader, ConsumerAllocations
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementUnreachable, QuestionRefused
from scheduler.placement.providers import ABSENT, read_provider
from scheduler.placement.providers import ProviderState as FullState
from scheduler.request.query import MICROVERSION

SHARING = "MISC_SHARES_VIA_AGGREGATE"


class _Providers(msgspec.Struct):
    resource_providers: list[Provider]


_providers = msgspec.json.Decoder(_Providers)


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
        return next(iter(self._list(f"/resource_providers?uuid={quote(provider, safe='')}")), None)

    def consumers(self, provider: str) -> Iterable[str]:
        """Return what has allocations on a provider; nothing if it does not exist."""
        return (self._read(provider, "allocations") or ABSENT).allocations

    def states(self, providers: Iterable[Provider]) -> list[ProviderState | None]:
        """Return the state of each provider in order; None if it is gone."""
        return list(self._pool.map(self._state, providers))

    def holdings(self, consumers: Iterable[str]) -> list[ConsumerAllocations]:
        """Return what each consumer holds, in order."""
        return list(self._pool.map(self._consumers.read, consumers))

    def _state(self, provider: Provider) -> ProviderState | None:
        # Allocations come before usages: one that is added between them raises the generation.
        held, used, has = (
            self._read(provider.uuid, what) for what in ("allocations", "usages", "inventories")
        )
        if held is None or used is None or has is None:
            return None
        return ProviderState(
            provider,
            {name: one.capacity for name, one in has.inventories.items()},
            used.used,
            {uuid: one.resources for uuid, one in held.allocations.items()},
            consistent=held.generation == used.generation,
        )

    def _read(self, provider: str, what: str) -> FullState | None:
        try:
            return read_provider(self._client, provider, what)
        except QuestionRefused as error:
            raise PlacementUnreachable(str(error)) from error

    def _list(self, path: str) -> list[Provider]:
        reply = self._client.get(path, MICROVERSION, search=True)
        if reply.status != 200:
            raise PlacementUnreachable(reply.summary)
        try:
            return _providers.decode(reply.body).resource_providers
        except msgspec.DecodeError as error:
            raise PlacementUnreachable(
                f"Placement's response is not understood: {reply.text[:200]}"
            ) from error
