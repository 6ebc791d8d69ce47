"""What is known to be allocated, what was freed when, and what follows for a request without a host."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
import random
import threading
import time

from tools.rig.load import Flavor


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
    """The instances that hold something, each with its provider and flavor, and all deletions.

    Any thread may use it.
    """

    clock: Callable[[], float] = time.monotonic
    _held: dict[str, tuple[str, Flavor]] = field(default_factory=dict)
    _freeings: list[_Freeing] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, instance: str, provider: str, flavor: Flavor) -> None:
        """Note an instance that has its allocation."""
        with self._lock:
            self._held[instance] = provider, flavor

    def used(self) -> int:
        """Return the MiB of memory that all instances hold together."""
        with self._lock:
            return sum(flavor.memory_mb for _, flavor in self._held.values())

    def remove_one(self, rng: random.Random) -> tuple[str, str] | None:
        """Return an instance, and its provider, for this caller alone to delete; None if there is none."""
        with self._lock:
            if not self._held:
                return None
            instance = rng.choice(list(self._held))
            return instance, self._held.pop(instance)[0]

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
        """Judge that a request, sent at ``started``, got no host, by the providers that are offered after it.

        A provider with room now, of which nothing was freed since the request was sent, has had room all the
        time: usage can only have grown.
        """
        if not offered:
            return Verdict.TRUE
        with self._lock:
            freed = {each.provider for each in self._freeings if each.ended is None or each.ended >= started}
        return Verdict.UNDECIDED if freed.issuperset(offered) else Verdict.FALSE

    def expected(self) -> dict[str, tuple[str, Mapping[str, int]]]:
        """Return what has to be in Placement, in the form of ``truth.check``."""
        with self._lock:
            return {each: (provider, flavor.amounts) for each, (provider, flavor) in self._held.items()}
