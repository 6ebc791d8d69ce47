"""What is known to be allocated, what was freed when, and what follows for a request without a host."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
import random
import threading
import time


@dataclass(frozen=True)
class Holding:
    """An instance and its allocation.

    Attributes:
        uuid: The instance.
        provider: The UUID of its provider.
        amounts: What it holds of each resource class.
    """

    uuid: str
    provider: str
    amounts: Mapping[str, int]


class Verdict(Enum):
    """What a fresh query says of a request that got no host."""

    TRUE = "no host has room"
    FALSE = "a host had room from the request to the query"
    UNDECIDED = "hosts have room, but something was freed on each of them meanwhile"


@dataclass
class _Freeing:
    provider: str
    ended: float | None = None


@dataclass
class History:
    """The instances that hold something, and all deletions; any thread may use it.

    Attributes:
        clock: Seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _held: dict[str, Holding] = field(default_factory=dict)
    _freeings: list[_Freeing] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, holding: Holding) -> None:
        """Note an instance that has its allocation."""
        with self._lock:
            self._held[holding.uuid] = holding

    def used(self, resource_class: str) -> int:
        """Return how much of a resource class all instances hold together."""
        with self._lock:
            return sum(each.amounts.get(resource_class, 0) for each in self._held.values())

    def remove_one(self, rng: random.Random) -> Holding | None:
        """Return an instance for this caller alone to delete; None if there is none."""
        with self._lock:
            if not self._held:
                return None
            return self._held.pop(rng.choice(list(self._held)))

    @contextmanager
    def freeing(self, provider: str) -> Iterator[None]:
        """Note that something of a provider is freed at an unknown time within the context."""
        freeing = _Freeing(provider)
        with self._lock:
            self._freeings.append(freeing)
        try:
            yield
        finally:
            freeing.ended = self.clock()

    def judge(self, offered: Collection[str], started: float) -> Verdict:
        """Judge a ``NoValidHost``.

        A provider with room now, of which nothing was freed since the request was sent, has had room all the
        time: usage can only have grown.

        Args:
            offered: The providers that a query offers, which was sent after the reply.
            started: When the request was sent.
        """
        if not offered:
            return Verdict.TRUE
        with self._lock:
            freed = {each.provider for each in self._freeings if each.ended is None or each.ended >= started}
        return Verdict.UNDECIDED if freed.issuperset(offered) else Verdict.FALSE

    def expected(self) -> dict[str, tuple[str, Mapping[str, int]]]:
        """Return what has to be in Placement, in the form of ``truth.check``."""
        with self._lock:
            return {uuid: (each.provider, each.amounts) for uuid, each in self._held.items()}
