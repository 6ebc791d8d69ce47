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

from scheduler.placement.questions import Questions

# Lists that are remembered, each with up to all providers.
LISTS = 16


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

    @property
    def uuids(self) -> list[str]:
        """All providers."""
        return [*self.roots, *(uuid for uuid, _ in self.children)]

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


class _Asked:
    """A question that was asked, or is in flight.

    Attributes:
        not_before: When it was sent at the earliest, in seconds of the clock.
        result: The answer.
    """

    def __init__(self, not_before: float) -> None:
        self.not_before = not_before
        self.result: Future[ProviderList] = Future()

    def is_late_enough(self, not_before: float) -> bool:
        """Whether the question was, or is about to be, sent at this moment or later."""
        return self.not_before >= not_before


class ProviderLists:
    """Asks for lists. Questions that several requests have are sent once, if late enough for all of them."""

    def __init__(self, questions: Questions, clock: Callable[[], float] = time.monotonic) -> None:
        self._questions = questions
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: cachetools.LRUCache[str, _Asked] = cachetools.LRUCache(LISTS)

    def fetch(
        self,
        path: str,
        not_before: float,
        context: Any = None,
        sending: Callable[[float], None] = lambda _moment: None,
    ) -> ProviderList:
        """Return a list that was asked for at ``not_before`` or later.

        Args:
            path: As ``list_path`` makes it.
            not_before: Seconds of the clock.
            context: The request context whose id is sent along.
            sending: As for ``Questions.ask``; not called if another thread of this process has sent it.

        Raises:
            PlacementSilent: There was no response.
            QuestionRefused: The response is an error.
            msgspec.DecodeError: It cannot be read.
        """
        with self._lock:
            asked: _Asked | None = self._latest.get(path)
            is_late_enough = asked is not None and asked.is_late_enough(not_before)
            if asked is None or not is_late_enough:
                asked = self._latest[path] = _Asked(not_before)
        if not is_late_enough:
            self._ask(path, asked, context, sending)
        return asked.result.result()

    def _ask(self, path: str, asked: _Asked, context: Any, sending: Callable[[float], None]) -> None:
        def about_to_send(moment: float) -> None:
            asked.not_before = moment
            sending(moment)

        try:
            answer = self._questions.ask(path, asked.not_before, context, about_to_send)
            found = ProviderList(answer.body, answer.asked_at)
        except BaseException as error:
            with self._lock:
                if self._latest.get(path) is asked:  # an error is no answer for those who come later
                    del self._latest[path]
            asked.result.set_exception(error)
            raise
        asked.not_before = max(asked.not_before, answer.asked_at)
        asked.result.set_result(found)
