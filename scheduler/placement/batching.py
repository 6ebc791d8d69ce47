"""Calls that wait at the same time are made together, in the order in which they came.

The result of a call in flight may be older than what happened since it was sent, so callers that come while
it runs do not get that result. Callers with the same key wait together as one batch, and the first of them
makes one call for all, as soon as a slot is free and no call with this key is in flight. So each caller gets
the result of a call that began after it came, and a burst of a thousand equal calls costs a handful. Caching
libraries share a result that is in flight, or an old one.

Batches get slots in the order of their first callers. A server that is given more calls than it has
processors answers none sooner, and callers that come during the wait can still join a batch.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
import threading
from typing import Generic, TypeVar

from scheduler.placement.errors import PlacementUnanswered

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Batch(Generic[Item, Result]):
    """The callers that wait with one key. The first of them makes the call."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.results: Future[Sequence[Result]] = Future()
        self.may_begin = threading.Event()


class BatchedCalls(Generic[Key, Item, Result]):
    """Calls with equal keys, one at a time, and few at once in all; see the module."""

    def __init__(
        self, call: Callable[[Key, Sequence[Item]], Sequence[Result]], wait_timeout: float, at_once: int
    ) -> None:
        """Bound the waits.

        Args:
            call: (key, items) -> a result for each item, in their order.
            wait_timeout: Seconds after which a slot is no longer waited for: the call is made without one. A
                caller waits three times as long at most.
            at_once: The number of slots.
        """
        self._call = call
        self._wait_timeout = wait_timeout
        self._free = at_once
        self._lock = threading.Lock()
        self._waiting: dict[Key, _Batch[Item, Result]] = {}  # in the order of their first callers
        self._running: dict[Key, int] = {}

    def call(self, key: Key, item: Item) -> Result:
        """Return the result for ``item``, or raise what the call for its batch raises.

        Raises:
            PlacementUnanswered: The caller that makes the call got no result in time.
        """
        batch, number = self._join(key, item)
        if number:
            return self._result_of(batch)[number]
        batch.may_begin.wait(self._wait_timeout)
        items, has_slot = self._begin(key, batch)
        try:
            batch.results.set_result(self._call(key, items))
        except BaseException as error:
            batch.results.set_exception(error)
            raise
        finally:
            self._end(key, has_slot=has_slot)
        return batch.results.result()[0]

    def waiting(self, key: Key) -> int:
        """Return how many callers wait for the next call with this key."""
        with self._lock:
            batch = self._waiting.get(key)
            return len(batch.items) if batch else 0

    def __len__(self) -> int:
        """Return how many keys are waited for or in flight."""
        with self._lock:
            return len(self._waiting.keys() | self._running.keys())

    def _join(self, key: Key, item: Item) -> tuple[_Batch[Item, Result], int]:
        with self._lock:
            batch = self._waiting.get(key)
            if batch is None:
                batch = self._waiting[key] = _Batch()
            batch.items.append(item)
            self._admit()
            return batch, len(batch.items) - 1

    def _admit(self) -> None:
        """Give free slots to the batches that came first. Others can join them until their calls begin."""
        for key, batch in self._waiting.items():
            if not self._free:
                return
            if key not in self._running and not batch.may_begin.is_set():
                self._free -= 1
                batch.may_begin.set()

    def _begin(self, key: Key, batch: _Batch[Item, Result]) -> tuple[list[Item], bool]:
        """Close the batch. Return its items, and whether it has a slot."""
        with self._lock:
            del self._waiting[key]
            self._running[key] = self._running.get(key, 0) + 1
            return batch.items, batch.may_begin.is_set()

    def _end(self, key: Key, *, has_slot: bool) -> None:
        with self._lock:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]
            self._free += has_slot
            self._admit()

    def _result_of(self, batch: _Batch[Item, Result]) -> Sequence[Result]:
        try:
            return batch.results.result(3 * self._wait_timeout)
        except FutureTimeout:
            text = "the same query of another request got no response"
            raise PlacementUnanswered(text, timed_out=True) from None
