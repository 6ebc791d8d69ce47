"""The calls that are not answered yet, and what health checks and operators see of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import threading
import time

from scheduler.rpc.calls import Call, State


class OpenCalls:
    """The calls that are not answered yet. Any thread may use it.

    Attributes:
        in_flight: How many threads serve a call.
    """

    def __init__(self, threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a call.

        Args:
            threads: How many serve calls.
        """
        self._threads, self._clock = threads, clock
        self._lock = threading.Lock()
        self._calls: dict[Call, None] = {}
        self._moved_at = clock()
        self.in_flight = 0

    def __len__(self) -> int:
        """Return the number of calls that are not answered yet."""
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        """Iterate over the calls that there are now, in the order in which they were received."""
        with self._lock:
            return iter(list(self._calls))

    def add(self, call: Call) -> bool:
        """Hold a call that was just received; return whether there was none before."""
        with self._lock:
            self._calls[call] = None
            return len(self._calls) == 1

    def remove(self, call: Call) -> None:
        """Forget a call: it is over."""
        with self._lock:
            self._calls.pop(call, None)

    def holds(self, message_id: str) -> bool:
        """Return whether there is a call of a message that the broker does not have again."""
        same = (call for call in self if message_id and call.message_id == message_id)
        return any(call.can_be_requeued and not call.is_lost for call in same)

    def take(self, call: Call) -> bool:
        """End the wait of a call for a reader of its reply queue; return whether it waited."""
        with self._lock:
            waited = call.state is State.WAITS_FOR_READER
            if waited:
                call.state = State.WAITS_FOR_THREAD
        return waited

    # -- what is shown ---------------------------------------------------------------------------------------

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count a thread while it serves a call."""
        self._move(1)
        try:
            yield
        finally:
            self._move(-1)

    def touch(self) -> None:
        """Note progress within a call: an event of a claim, or a sign of a scheduler that was called."""
        self._move(0)

    def stalled(self) -> float:
        """Return the seconds for which no call was begun, ended or got on with; 0 if there is nothing to do.

        There is if no thread is free, or if calls wait although one is: then the threads are dead.
        """
        waiting = [call for call in self if call.state is not State.WAITS_FOR_READER]
        if self.in_flight < self._threads and len(waiting) <= self.in_flight:
            return 0.0
        return self._clock() - self._moved_at

    def _move(self, step: int) -> None:
        with self._lock:
            self.in_flight += step
            self._moved_at = self._clock()
