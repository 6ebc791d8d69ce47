"""Equal calls that wait at the same time are made once.

The result of a call in flight may be older than what happened since it was sent, so callers that come while
it runs do not get that result. They wait together, and the first of them makes the call *again* as soon as
the one in flight has returned. So each caller gets the result of a call that began after it asked, and a
burst of a thousand equal calls costs a handful. Caching libraries share a result that is in flight, or an
old one.

Calls that differ wait for one of a few slots before they are made: a server that is given more calls than it
has processors answers none sooner, and callers that come during the wait can still join.
"""

from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
import threading
from typing import Generic, TypeVar

from scheduler.placement.errors import PlacementUnanswered

T = TypeVar("T")


@dataclass(slots=True)
class _Calls(Generic[T]):
    """The calls of one key: the one in flight, and the next one with the number of its callers."""

    running: Future[T] | None = None
    next: Future[T] | None = None
    callers: int = 0


class CoalescedCalls(Generic[T]):
    """Calls with equal keys, one at a time, and few at once in all; see the module."""

    def __init__(self, wait_timeout: float, at_once: int) -> None:
        """Bound the waits.

        Args:
            wait_timeout: Seconds after which a call in flight, or a free slot, is no longer waited for. A
                caller waits three times as long at most.
            at_once: The number of slots.
        """
        self._wait_timeout = wait_timeout
        self._slots = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._by_key: dict[Hashable, _Calls[T]] = {}

    def call(self, key: Hashable, function: Callable[[], T]) -> T:
        """Return or raise what ``function`` does, called by the first caller that waits with this key.

        Raises:
            PlacementUnanswered: The other caller got no result in time.
        """
        calls, future, is_first = self._join(key)
        if not is_first:
            return self._result_of(future)
        try:
            self._wait_for(calls.running)
            with self._slot():
                self._begin(calls, future)
                future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            self._end(key, calls, future)
        return future.result()

    def waiting(self, key: Hashable) -> int:
        """Return how many callers wait for the next call with this key."""
        with self._lock:
            calls = self._by_key.get(key)
            return calls.callers if calls else 0

    def __len__(self) -> int:
        return len(self._by_key)

    def _join(self, key: Hashable) -> tuple[_Calls[T], Future[T], bool]:
        with self._lock:
            calls = self._by_key.setdefault(key, _Calls())
            calls.callers += 1
            if calls.next is not None:
                return calls, calls.next, False
            calls.next = Future()
            return calls, calls.next, True

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Hold a slot; after the timeout go on without one."""
        held = self._slots.acquire(timeout=self._wait_timeout)
        try:
            yield
        finally:
            if held:
                self._slots.release()

    def _wait_for(self, running: Future[T] | None) -> None:
        # Its outcome does not matter: the call is made again.
        try:
            if running:
                running.exception(self._wait_timeout)
        except FutureTimeout:
            return

    def _begin(self, calls: _Calls[T], future: Future[T]) -> None:
        with self._lock:
            calls.running, calls.next, calls.callers = future, None, 0

    def _end(self, key: Hashable, calls: _Calls[T], future: Future[T]) -> None:
        with self._lock:
            if calls.next is future:
                calls.next, calls.callers = None, 0
            if calls.running is future:
                calls.running = None
            if not calls.running and not calls.next:
                self._by_key.pop(key, None)

    def _result_of(self, future: Future[T]) -> T:
        try:
            return future.result(3 * self._wait_timeout)
        except FutureTimeout:
            text = "the same query of another request got no response"
            raise PlacementUnanswered(text, timed_out=True) from None
