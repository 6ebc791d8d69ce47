"""Deadlines: one moment that bounds everything that is done for a request.

The manager limits the work of a request with ``limit_to``. Whatever waits for another party in that thread
reads ``current`` and waits at most that long. So a new wait is bounded by the request without being given
anything; a wait in a background thread, which no request limits, has only its own bound.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
import math
import time


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment after which a result is of no use.

    Attributes:
        at: The moment, in seconds of ``clock``; infinity for none.
        clock: Seconds that only grow.
    """

    at: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> "Deadline":
        """Return the deadline that is ``seconds`` from now."""
        return cls(clock() + seconds, clock)

    def remaining(self) -> float:
        """Return the seconds that are left, 0 if none are."""
        return max(0.0, self.at - self.clock()) if self.at != math.inf else math.inf

    def bound(self, seconds: float) -> float:
        """Return ``seconds``, or what is left if that is less."""
        return min(seconds, self.remaining())

    @property
    def expired(self) -> bool:
        """Whether the moment has passed."""
        return self.remaining() <= 0


NEVER = Deadline(math.inf)
_current: ContextVar[Deadline] = ContextVar("deadline", default=NEVER)


def current() -> Deadline:
    """Return the deadline of the work that this thread does; ``NEVER`` if nothing limits it."""
    return _current.get()


@contextmanager
def limit_to(deadline: Deadline) -> Iterator[None]:
    """Limit the work of this thread within the ``with`` block, in addition to what limits it already."""
    token = _current.set(min(_current.get(), deadline, key=Deadline.remaining))
    try:
        yield
    finally:
        _current.reset(token)
