"""Ends the use of database connections that hang.

A server that is stopped, or that trickles its answer, can keep a driver reading without a bound: psycopg2 has
no limit for reading at all, and others limit each read, not all of them together. The watch closes the socket
of a connection that has been in use for too long. The driver's read then ends with an error, the thread that
waited goes on, and the pool replaces the connection.
"""

from collections.abc import Callable
import contextlib
import os
import socket
import threading
import time
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from scheduler.bounds import deadline
from scheduler.bounds.background import BackgroundLoop
from scheduler.logs import RateLimitedLogger

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds between two reports about the same database.
REPORT_INTERVAL = 300.0


class ConnectionWatch:
    """Watches the connections of engines while they are in use. Any thread may use it."""

    def __init__(self, timeout: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        """Watch nothing yet.

        Args:
            timeout: Returns the seconds that a connection may be in use.
        """
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        # By the pool's record of a connection, or the key of a ping: database, connection, end of its time.
        self._in_use: dict[Any, tuple[str, Any, float]] = {}
        self._loop = BackgroundLoop("connection-watch", self._close_overdue)
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)

    def add(self, engine: Engine, what: str, factor: float = 1.0) -> None:
        """Watch the connections of an engine.

        Args:
            factor: By which the timeout is multiplied.
        """

        def begin(connection: Any, key: Any, _proxy: Any = None) -> None:
            seconds = deadline.current().bound(factor * self._timeout())
            with self._lock:
                self._in_use[key] = what, connection, self._clock() + seconds
            self._loop.start(self._interval())

        def end(_connection: Any, key: Any, *_error: Any) -> None:
            with self._lock:
                self._in_use.pop(key, None)

        def ping(connection: Any) -> bool:
            key = object()
            begin(connection, key)
            try:
                return unwatched_ping(connection)
            finally:
                end(connection, key)

        # The pool pings a connection before the checkout event.
        unwatched_ping = engine.dialect.do_ping
        engine.dialect.do_ping = ping  # type: ignore[method-assign, assignment]
        sa.event.listen(engine, "checkout", begin)
        for event in ("checkin", "invalidate", "close"):
            sa.event.listen(engine, event, end)

    def _interval(self) -> float:
        return self._timeout() / 4

    def _close_overdue(self) -> float:
        """Close what has been in use for too long; return the seconds until the next look.

        The thread ends while no connection is in use. The next use starts it again.
        """
        now = self._clock()
        with self._lock:
            overdue = [(key, *use) for key, use in self._in_use.items() if use[2] <= now]
            for key, _what, connection, _end in overdue:
                del self._in_use[key]
                # While the lock is held the connection cannot be returned to the pool and used again.
                close_socket(connection)
            if not self._in_use:
                self._loop.stop()
        for _key, what, _connection, _end in overdue:
            self._reports.warning(what, "%s: a connection timed out and was closed", what)
        return self._interval()


def close_socket(connection: Any) -> None:
    """End all reading and writing of a driver's connection, also in the thread that waits for it."""
    with contextlib.suppress(OSError, ValueError):
        # PyMySQL has no public name for its socket; SQLite has none.
        owner = connection if hasattr(connection, "fileno") else getattr(connection, "_sock", None)
        if owner is not None:
            with socket.socket(fileno=os.dup(owner.fileno())) as own:
                own.shutdown(socket.SHUT_RDWR)
