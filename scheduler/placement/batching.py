"""Calls that wait at the same time are made together, in the order in which they came.

The result of a call in flight may be older than what happened since it was sent, so callers that come while
it runs do not get that result. Callers with the same key wait together as one batch, and the first of them
makes one call for all, as soon as a slot is free and no call with this key is in flight. So each caller gets
the result of a call that began after it came, and a burst of a thousand equal calls costs a handful. Caching
libraries share a result that is in flight, or an old one.

A batch is open until the call closes it, which is when its question is sent, by whomever: as long as the call
waits for a chance to send it, callers join. The call is for those who came before the question was sent; the
others are called for next.

Batches get slots in the order of their first callers. A server that is given more calls than it has
processors answers none sooner, and callers that come during the wait can still join a batch.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, wait
import threading
from typing import Generic, TypeVar

from scheduler.placement.errors import PlacementUnanswered

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Batch(Generic[Item, Result]):
    """The callers that wait with one key. The first of them makes the call."""

    def __init__(self, lock: threading.Lock) -> None:
        """Make an empty batch that is open; ``lock`` is that of all batches."""
        self._lock = lock
        self._items: list[Item] = []
        self._taken: list[int] | None = None
        self.results: Future[Sequence[Result]] = Future()
        self.may_begin = threading.Event()

    @property
    def items(self) -> list[Item]:
        """The items so far, that of the first caller first."""
        with self._lock:
            return list(self._items)

    @property
    def is_open(self) -> bool:
        """Whether callers can join."""
        return self._taken is None

    def add(self, item: Item) -> int:
        """Add an item to an open batch and return its number. The caller holds the lock."""
        self._items.append(item)
        return len(self._items) - 1

    def close(self, suits: Callable[[Item], bool] = lambda _item: True) -> list[Item]:
        """Decide, once, which items the call is for, and return them. The others wait for the next call.

        Args:
            suits: Whether the call is for an item. It is for the first one in any case.
        """
        with self._lock:
            if self._taken is None:
                self._taken = [
                    number for number, item in enumerate(self._items) if number == 0 or suits(item)
                ]
            return [self._items[number] for number in self._taken]

    def __len__(self) -> int:
        return len(self._items)

    def has_taken(self, number: int) -> bool:
        """Whether the call is for the item with this number."""
        return self._taken is not None and number in self._taken

    def result_of(self, number: int) -> Result:
        """Return the result for an item that was taken, or raise what the call has raised."""
        results = self.results.result()
        return results[(self._taken or []).index(number)]


class BatchedCalls(Generic[Key, Item, Result]):
    """Calls with equal keys, one at a time, and few at once in all; see the module."""

    def __init__(
        self,
        call: Callable[[Key, Batch[Item, Result]], Sequence[Result]],
        wait_timeout: float,
        at_once: int,
    ) -> None:
        """Bound the waits.

        Args:
            call: (key, batch) -> a result for each item that ``batch.close`` has returned, in their order. It
                closes the batch when its question is sent, or as soon as it knows when it was.
            wait_timeout: Seconds after which a slot is no longer waited for: the call is made without one. A
                caller waits three times as long at most.
            at_once: The number of slots.
        """
        self._call = call
        self._wait_timeout = wait_timeout
        self._free = at_once
        self._lock = threading.Lock()
        self._waiting: dict[Key, Batch[Item, Result]] = {}  # in the order of their first callers
        self._running: dict[Key, int] = {}

    def call(self, key: Key, item: Item) -> Result:
        """Return the result for ``item``, or raise what the call for its batch raises.

        Raises:
            PlacementUnanswered: The caller that makes the call got no result in time.
        """
        while True:
            batch, number = self._join(key, item)
            if number:
                self._wait_for(batch)
            else:
                self._lead(key, batch)
            if batch.has_taken(number):
                return batch.result_of(number)

    def waiting(self, key: Key) -> int:
        """Return how many callers wait for the next call with this key."""
        with self._lock:
            batch = self._waiting.get(key)
            return len(batch) if batch and batch.is_open else 0

    def __len__(self) -> int:
        """Return how many keys are waited for or in flight."""
        with self._lock:
            return len(self._waiting.keys() | self._running.keys())

    def _join(self, key: Key, item: Item) -> tuple[Batch[Item, Result], int]:
        with self._lock:
            batch = self._waiting.get(key)
            if batch is None or not batch.is_open:
                self._waiting.pop(key, None)  # a new batch is the last of all
                batch = self._waiting[key] = Batch(self._lock)
            number = batch.add(item)
            self._admit()
            return batch, number

    def _admit(self) -> None:
        """Give free slots to the batches that came first. Others can join them until their calls begin."""
        for key, batch in self._waiting.items():
            if not self._free:
                return
            if key not in self._running and not batch.may_begin.is_set():
                self._free -= 1
                batch.may_begin.set()

    def _lead(self, key: Key, batch: Batch[Item, Result]) -> None:
        batch.may_begin.wait(self._wait_timeout)
        has_slot = self._begin(key, batch)
        try:
            batch.results.set_result(self._make_call(key, batch))
        except BaseException as error:  # noqa: BLE001 - each caller raises it
            batch.results.set_exception(error)
        finally:
            self._end(key, batch, has_slot=has_slot)

    def _make_call(self, key: Key, batch: Batch[Item, Result]) -> Sequence[Result]:
        try:
            return self._call(key, batch)
        finally:
            batch.close()

    def _begin(self, key: Key, batch: Batch[Item, Result]) -> bool:
        """Count the call of a batch as running. Return whether it has a slot."""
        with self._lock:
            self._running[key] = self._running.get(key, 0) + 1
            return batch.may_begin.is_set()

    def _end(self, key: Key, batch: Batch[Item, Result], *, has_slot: bool) -> None:
        with self._lock:
            if self._waiting.get(key) is batch:
                del self._waiting[key]
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]
            self._free += has_slot
            self._admit()

    def _wait_for(self, batch: Batch[Item, Result]) -> None:
        if not wait((batch.results,), 3 * self._wait_timeout).done:
            text = "the same query of another request got no response"
            raise PlacementUnanswered(text, timed_out=True)
