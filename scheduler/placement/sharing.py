"""One answer for all who ask the same at the same time.

A question that is in flight may be older than what happened since it was sent, so those who come
while it runs do not get its answer. They wait together, and the first of them asks *again* as soon as it is
back. Each answer so comes from a question that was sent after its reader asked, and a burst of a
thousand equal questions costs a handful.
"""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
import threading

from scheduler.placement.errors import PlacementUnanswered


@dataclass(slots=True)
class _Line:
    """The question in flight, and the one that waits for it to come back."""

    running: Future | None = None
    waiting: Future | None = None


class SharedCalls:
    """Calls with equal keys, one at a time; see the module.

    :ivar patience: seconds after which a call in flight is no longer waited for. Callers wait twice as long
        at most.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._lines: dict[object, _Line] = {}

    def call(self, key, function):
        """``function()``, or what it returned or raised for another caller who was first with this key.

        :raises PlacementUnanswered: the other caller got no answer in time.
        """
        line, flight, before, leads = self._join(key)
        if not leads:
            return self._result(flight)
        try:
            if before:
                self._wait_for(before)
                self._take_off(line, flight)
            flight.set_result(function())
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            self._land(key, line, flight)
        return flight.result()

    def _join(self, key) -> tuple[_Line, Future, Future | None, bool]:
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            if line.waiting:
                return line, line.waiting, None, False
            flight = Future()
            before = line.running
            if before:
                line.waiting = flight
            else:
                line.running = flight
            return line, flight, before, True

    def _wait_for(self, before: Future) -> None:
        # Whether it succeeded is none of our business: we ask anew.
        try:
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
            return flight.result(2 * self._patience)
        except FutureTimeout:
            raise PlacementUnanswered("another request's question is not answered", timed_out=True) from None
