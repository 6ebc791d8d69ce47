"""What a request waits for, noted where it waits; ``berth-explain waiting`` lists it.

The recorder of decisions enters the ``Waits`` of a request. Whatever waits for another party in that thread
wraps the wait in ``waiting_for``: a new wait is listed without being given anything. For a background thread
nothing is noted.
"""

from collections.abc import Callable
from contextvars import ContextVar, Token
import time
from typing import NamedTuple

#: What is waited for: a text without secrets or addresses, or what returns it when it is listed.
What = str | Callable[[], str]


class Wait(NamedTuple):
    """One wait.

    Attributes:
        since: When it began, in seconds of the clock.
    """

    what: What
    since: float

    @property
    def text(self) -> str:
        return self.what if isinstance(self.what, str) else self.what()


class Waits:
    """The waits of one request, noted within the ``with`` block.

    Its threads note them without a lock; any thread may read the current one.
    """

    __slots__ = ("_clock", "_open", "_token")
    _token: "Token[Waits | None]"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: list[Wait] = []

    def __enter__(self) -> None:
        self._token = _current.set(self)

    def __exit__(self, *_error: object) -> None:
        _current.reset(self._token)

    @property
    def current(self) -> Wait | None:
        """The innermost wait; None if the request does not wait."""
        return next(reversed(self._open.copy()), None)

    def begin(self, what: What) -> Wait:
        wait = Wait(what, self._clock())
        self._open.append(wait)
        return wait

    def end(self, wait: Wait) -> None:
        # not always the last one: a request may read in several threads
        self._open.remove(wait)


_current: ContextVar[Waits | None] = ContextVar("waits", default=None)


class waiting_for:  # noqa: N801 - it reads as a function
    """Note that the request of this thread waits within the ``with`` block.

    A class: what ``contextmanager`` makes takes three times as long.
    """

    __slots__ = ("_wait", "_waits", "_what")

    def __init__(self, what: What) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._waits = _current.get()
        if self._waits is not None:
            self._wait = self._waits.begin(self._what)

    def __exit__(self, *_error: object) -> None:
        if self._waits is not None:
            self._waits.end(self._wait)
