"""Calls that wait at the same time are made together, in the order in which they came.

The result of a call in flight may be older than what happened since it was sent, so callers that come while
it runs do not get that result. Callers with the same key wait together, and the first of them makes one call
for all, as soon as a slot is free and no call with this key is in flight. So each caller gets the result of a
call that began after it came, and a burst of a thousand equal calls costs a handful. Caching libraries share
a result that is in flight, or an old one.

Keys get slots in the order of their first callers. A server that is given more calls than it has processors
answers none sooner, and callers that come during the wait can still join.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
import threading
from typing import Generic, TypeVar

from scheduler.bounds import deadline
from scheduler.bounds.waits import waiting_for
from scheduler.placement.errors import PlacementUnanswered

Result = TypeVar("Result")


class _Batch(Generic[Result]):
    """The callers that wait with one key. The first of them makes the call."""

    def __init__(self) -> None:
        self.callers = 0
        self.result: Future[tuple[Result, int]] = Future()
        self.may_begin = threading.Event()


class BatchedCalls(Generic[Result]):
    """Calls with equal keys, one at a time, and few at once in all; see the module."""

    def __init__(self, wait_timeout: float, at_once: int) -> None:
        """Bound the waits.

        Args:
            wait_timeout: Seconds after which a slot is no longer waited for: the call is made without one. A
                caller waits three times as long at most, and none longer than until its own deadline.
        """
        self._wait_timeout = wait_timeout
        self._free = at_once
        self._lock = threading.Lock()
        self._waiting: dict[str, _Batch[Result]] = {}  # in the order of their first callers
        self._running: dict[str, int] = {}

    def call(self, key: str, make: Callable[[], Result]) -> tuple[Result, int]:
        """Return what ``make`` returns, or that of an equal call which begins from now on; or raise it.

        With it comes the number of callers that it was made for.

        Raises:
            PlacementUnanswered: The caller that makes the call got no result in time.
        """
        with self._lock:
            batch = self._waiting.setdefault(key, _Batch())
            batch.callers += 1
            leads = batch.callers == 1
            self._admit()
        if leads:
            self._lead(key, batch, make)
        else:
            with waiting_for("an equal query of another request"):
                done, _ = wait((batch.result,), deadline.current().bound(3 * self._wait_timeout))
            if not done:
                text = "the same query of another request got no response"
                raise PlacementUnanswered(text, timed_out=True)
        return batch.result.result()

    def waiting(self, key: str) -> int:
        """Return how many callers wait for the next call with this key."""
        with self._lock:
            batch = self._waiting.get(key)
            return batch.callers if batch else 0

    def __len__(self) -> int:
        """Return how many keys are waited for or in flight."""
        with self._lock:
            return len(self._waiting.keys() | self._running.keys())

    def _admit(self) -> None:
        """Give free slots to the batches that came first. Others can join them until their calls begin."""
        for key, batch in self._waiting.items():
            if not self._free:
                return
            if key not in self._running and not batch.may_begin.is_set():
                self._free -= 1
                batch.may_begin.set()

    def _lead(self, key: str, batch: _Batch[Result], make: Callable[[], Result]) -> None:
        with waiting_for("its turn to query Placement"):
            batch.may_begin.wait(deadline.current().bound(self._wait_timeout))
        with self._lock:
            has_slot = batch.may_begin.is_set()
            del self._waiting[key]  # later callers wait for the next call
            self._running[key] = self._running.get(key, 0) + 1
        try:
            batch.result.set_result((make(), batch.callers))
        except BaseException as error:  # noqa: BLE001 - each caller raises it
            batch.result.set_exception(error)
        finally:
            self._end(key, has_slot=has_slot)

    def _end(self, key: str, *, has_slot: bool) -> None:
        with self._lock:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]
            self._free += has_slot
            self._admit()
