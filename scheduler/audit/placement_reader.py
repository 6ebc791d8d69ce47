"""Providers and allocations, read from Placement.

Placement has no pages: the list of all providers is one response, as are the allocations of one provider
(spec: placement-and-workflow 7.4).
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
import contextlib
import threading
from typing import TypeVar
from urllib.parse import quote

from scheduler.audit.values import ConsumerHolding, Provider, ProviderState
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable
from scheduler.placement.reply import Reply

VERSION = "1.36"
SHARING = "MISC_SHARES_VIA_AGGREGATE"

#: After so many requests in a row without an answer Placement is regarded as away for the rest of the audit.
FAILURES = 10

Item = TypeVar("Item")
Result = TypeVar("Result")


class PlacementReader:
    """Reads Placement with some requests at once. Every wait is bounded by the client."""

    def __init__(self, client: PlacementClient, at_once: int) -> None:
        self._client = client
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
        reply = self._get("/resource_providers", search=True)
        with _understood(reply):
            return {one["uuid"]: _provider(one) for one in reply.data["resource_providers"]}

    def sharing(self) -> frozenset[str]:
        """Return the roots of the trees that share resources with other hosts; raises as ``providers``."""
        reply = self._get(f"/resource_providers?required={SHARING}", search=True)
        with _understood(reply):
            return frozenset(one["root_provider_uuid"] for one in reply.data["resource_providers"])

    def provider(self, provider: str) -> Provider | None:
        """Return a provider, None if it does not exist; raises as ``providers``."""
        reply = self._get(f"/resource_providers/{quote(provider, safe='')}", missing=True)
        with _understood(reply):
            return None if reply.status == 404 else _provider(reply.data)

    def states(self, providers: Iterable[Provider]) -> list[ProviderState | PlacementSilent | None]:
        """Return each provider's state in order: an error if it could not be read, None if it is gone."""
        return self._each(self._state, providers)

    def holdings(self, consumers: Iterable[str]) -> list[ConsumerHolding | PlacementSilent]:
        """Return what each consumer holds in order; an error if that could not be read."""
        return self._each(self._holding, consumers)

    def _each(self, read: Callable[[Item], Result], items: Iterable[Item]) -> list[Result | PlacementSilent]:
        def guarded(item: Item) -> Result | PlacementSilent:
            try:
                return read(item)
            except PlacementSilent as error:
                return error

        return list(self._pool.map(guarded, items))

    def _state(self, provider: Provider) -> ProviderState | None:
        path = f"/resource_providers/{quote(provider.uuid, safe='')}"
        # Allocations come before usages: one that is added between them raises the generation.
        allocations = self._get(f"{path}/allocations", missing=True)
        usages = self._get(f"{path}/usages", missing=True)
        inventories = self._get(f"{path}/inventories", missing=True)
        if 404 in {allocations.status, usages.status, inventories.status}:
            return None
        with _understood(allocations, usages, inventories):
            generations = {reply.data["resource_provider_generation"] for reply in (allocations, usages)}
            return ProviderState(
                provider,
                {name: _capacity(one) for name, one in inventories.data["inventories"].items()},
                usages.data["usages"],
                {uuid: one["resources"] for uuid, one in allocations.data["allocations"].items()},
                consistent=len(generations) == 1,
            )

    def _holding(self, consumer: str) -> ConsumerHolding:
        reply = self._get(f"/allocations/{quote(consumer, safe='')}")
        with _understood(reply):
            amounts = {provider: one["resources"] for provider, one in reply.data["allocations"].items()}
            return ConsumerHolding(amounts, reply.data["consumer_generation"] if amounts else None)

    def _get(self, path: str, *, search: bool = False, missing: bool = False) -> Reply:
        with self._lock:
            if self._failures >= FAILURES:
                raise PlacementUnreachable(
                    f"not queried after {FAILURES} requests in a row without an answer"
                )
        try:
            reply = self._client.get(path, VERSION, search=search)
            if reply.status != 200 and not (missing and reply.status == 404):
                raise PlacementUnreachable(reply.summary)
        except PlacementSilent:
            with self._lock:
                self._failures += 1
            raise
        with self._lock:
            self._failures = 0
        return reply


@contextlib.contextmanager
def _understood(*replies: Reply) -> Iterator[None]:
    """Raise ``PlacementUnreachable`` where a response is not of Placement's form, such as that of a proxy."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        text = "; ".join(reply.text[:200] for reply in replies)
        raise PlacementUnreachable(f"Placement's response is not understood: {text}") from error


def _provider(one: dict) -> Provider:
    return Provider(one["uuid"], one["name"], one["root_provider_uuid"])


def _capacity(inventory: dict) -> int:
    return int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])
