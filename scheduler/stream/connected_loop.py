"""A thread that works on a connection of its own, and connects again after a failure."""

from collections.abc import Callable
import time

from scheduler.bounds.background import STOP_TIMEOUT, BackgroundLoop
from scheduler.stream.broker import StreamConnection, StreamUnavailable

RETRY_INTERVAL = 1.0
"""Seconds between two attempts to connect."""


class ConnectedLoop(BackgroundLoop):
    """Calls a function with a connection, again and again. Only its own thread uses the connection."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], StreamConnection],
        work: Callable[[StreamConnection], float],
        on_failure: Callable[[StreamUnavailable], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Describe the loop; nothing is connected to before ``start``.

        Args:
            name: The name of the thread.
            work: One round. Returns the seconds until the next one.
            on_failure: Called with each reason for which the stream cannot be used, until ``stop``.
        """
        super().__init__(name, self.run_round)
        self.failing = False
        self._connect = connect
        self._work_on = work
        self._on_failure = on_failure
        self._clock = clock
        self._connection: StreamConnection | None = None
        self._retry_at = 0.0
        self._stopping = False

    def start(self, delay: float = 0.0) -> None:
        """Start the thread, unless it is running or was stopped."""
        if not self._stopping:
            super().start(delay)

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """End the thread, in ``timeout`` seconds at most.

        A thread that needs longer closes the connection itself: closed by another thread, it would fail.
        """
        self._stopping = True
        ended = super().stop(timeout)
        if ended:
            self._disconnect()
        return ended

    def run_round(self) -> float:
        """Connect if necessary, and work. Return the seconds to wait before the next round."""
        now = self._clock()
        if now < self._retry_at:
            return self._retry_at - now
        try:
            if self._connection is None:
                self._connection = self._connect()
            wait = self._work_on(self._connection)
            self.failing = False
            return wait
        except StreamUnavailable as error:
            self._disconnect()
            self._retry_at, self.failing = self._clock() + RETRY_INTERVAL, True
            if not self._stopping:
                self._on_failure(error)
            return RETRY_INTERVAL
        finally:
            if self._stopping:
                self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
