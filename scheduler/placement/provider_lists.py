"""Lists of resource providers that meet conditions: ``GET /resource_providers``.

For Placement such a list is much cheaper than allocation candidates (spec: placement-and-workflow 2.5). Each
condition is about one provider alone, so the list of several conditions is the intersection of the lists of
each. Capacity, ``min_unit``, ``max_unit`` and ``step_size`` are respected as for candidates.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import cached_property
import threading
import time
from typing import Any
from urllib.parse import urlencode

import cachetools
import msgspec

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.request.query import MICROVERSION

# Lists that are remembered, each with up to all providers.
LISTS = 16


class ListRefused(PlacementError):
    """Placement answered a question for a list with an error."""


class _Provider(msgspec.Struct, gc=False):
    uuid: str
    root_provider_uuid: str
    generation: int = 0


class _Body(msgspec.Struct):
    resource_providers: list[_Provider]


_body = msgspec.json.Decoder(_Body)


class ProviderList:
    """Providers that met the conditions when they were asked for, in the order of the response.

    Attributes:
        roots: Uuids of those that are the root of their tree, as compute nodes are.
        children: Of the others, uuid and generation.
        sent_at: When the question was sent, in seconds of the clock.
    """

    def __init__(self, body: bytes, sent_at: float) -> None:
        """Read a response.

        Raises:
            msgspec.DecodeError: It is no list of providers.
        """
        providers = _body.decode(body).resource_providers
        self.roots = tuple([each.uuid for each in providers if each.uuid == each.root_provider_uuid])
        self.children = tuple(
            [(each.uuid, each.generation) for each in providers if each.uuid != each.root_provider_uuid]
        )
        self.sent_at = sent_at

    @cached_property
    def members(self) -> frozenset[str]:
        """The roots as a set."""
        return frozenset(self.roots)


def list_path(
    amounts: Mapping[str, int] | None = None,
    required: Iterable[str] = (),
    forbidden: Iterable[str] = (),
    member_of: Iterable[Iterable[str]] = (),
    not_member_of: Iterable[str] = (),
) -> str:
    """Return the path of the list of providers that meet all conditions.

    Equal conditions have equal paths.
    """
    pairs = [("member_of", f"in:{','.join(sorted(any_of))}") for any_of in member_of]
    if excluded := ",".join(sorted(not_member_of)):
        pairs.append(("member_of", f"!in:{excluded}"))
    if traits := [*sorted(required), *(f"!{trait}" for trait in sorted(forbidden))]:
        pairs.append(("required", ",".join(traits)))
    if amounts:
        pairs.append(("resources", ",".join(f"{name}:{amount}" for name, amount in sorted(amounts.items()))))
    return f"/resource_providers?{urlencode(sorted(pairs))}" if pairs else "/resource_providers"


_Asked = tuple[float, Future[ProviderList]]
"""When a question was sent, and its answer."""


class ProviderLists:
    """Asks for lists. Questions that several requests have are sent once, if late enough for all of them."""

    def __init__(self, client: PlacementClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: cachetools.LRUCache[str, _Asked] = cachetools.LRUCache(LISTS)

    def fetch(self, path: str, not_before: float, context: Any = None) -> ProviderList:
        """Return a list that was asked for at ``not_before`` or later.

        Raises:
            PlacementSilent: There was no response.
            ListRefused: The response is an error.
            msgspec.DecodeError: It cannot be read.
        """
        with self._lock:
            asked: _Asked | None = self._latest.get(path)
            is_late_enough = asked is not None and asked[0] >= not_before
            if asked is None or not is_late_enough:
                asked = self._latest[path] = self._clock(), Future()
        if not is_late_enough:
            self._send(path, *asked, context)
        return asked[1].result()

    def _send(self, path: str, sent_at: float, result: Future[ProviderList], context: Any) -> None:
        try:
            reply = self._client.get(path, MICROVERSION, context, search=True)
            if reply.status != 200:
                raise ListRefused(reply.summary)
            result.set_result(ProviderList(reply.body, sent_at))
        except BaseException as error:
            result.set_exception(error)
            raise
