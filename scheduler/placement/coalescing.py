"""One answer for all who ask the same at the same time.

A question that is in flight may be older than what happened since it was sent, so those who come
while it runs do not get its answer. They wait together, and the first of them asks *again* as soon as it is
back. Each answer so comes from a question that was sent after its reader asked, and a burst of a
thousand equal questions costs a handful.

Different questions wait for one of a few seats before they are sent: a server that is asked more than it has
processors answers none the sooner, while those who come during the wait can still join.
"""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
import threading

from scheduler.placement.errors import PlacementUnanswered


@dataclass(slots=True)
class _Line:
    """The question in flight, and the one that waits for it to come back."""

    running: Future | None = None
    waiting: Future | None = None


class CoalescedCalls:
    """Calls with equal keys, one at a time, and few at once in all; see the module.

    :ivar patience: seconds after which a call in flight is no longer waited for, nor a seat. Callers wait
        three times as long at most.
    :ivar at_once: seats.
    """

    def __init__(self, patience: float, at_once: int) -> None:
        self._patience = patience
        self._seats = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._lines: dict[object, _Line] = {}

    def call(self, key, function):
        """``function()``, or what it returned or raised for another caller who was first with this key.

        :raises PlacementUnanswered: the other caller got no answer in time.
        """
        line, flight, leads = self._join(key)
        if not leads:
            return self._result(flight)
        try:
            self._wait_for(line.running)
            with self._seat():
                self._take_off(line, flight)
                flight.set_result(function())
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            self._land(key, line, flight)
        return flight.result()

    def _join(self, key) -> tuple[_Line, Future, bool]:
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            leads = line.waiting is None
            if leads:
                line.waiting = Future()
            return line, line.waiting, leads

    @contextmanager
    def _seat(self):
        """One of the calls that may be in flight at once; after some patience one more."""
        free = self._seats.acquire(timeout=self._patience)
        try:
            yield
        finally:
            if free:
                self._seats.release()

    def _wait_for(self, before: Future | None) -> None:
        # Whether it succeeded is none of our business: we ask anew.
        try:
            if before:
                before.exception(self._patience)
        except FutureTimeout:
            return

    def _take_off(self, line: _Line, flight: Future) -> None:
        with self._lock:
            line.running, line.waiting = flight, None

    def _land(self, key, line: _Line, flight: Future) -> None:
        with self._lock:
            if line.waiting is flight:
                line.waiting = None
            if line.running is flight:
                line.running = None
            if not line.running and not line.waiting:
                self._lines.pop(key, None)

    def _result(self, flight: Future):
        try:
            return flight.result(3 * self._patience)
        except FutureTimeout:
            raise PlacementUnanswered("another request's question is not answered", timed_out=True) from None
