"""Locks by name that are held for a short time and waited for with a bound."""

from collections.abc import Iterator
from contextlib import contextmanager
import threading
from weakref import WeakValueDictionary

from scheduler.bounds import deadline
from scheduler.bounds.waits import What, waiting_for


class KeyedLocks:
    """One lock for each key. A lock exists only while a thread holds it or waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def hold(self, key: str, timeout: float, what: What) -> Iterator[bool]:
        """Hold the lock of a key.

        Args:
            timeout: Seconds to wait for it, at most until the deadline of the request.
            what: What is waited for meanwhile, as ``waiting_for`` takes it.

        Yields:
            Whether it is held.
        """
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with waiting_for(what):
            held = lock.acquire(timeout=deadline.current().bound(timeout))
        try:
            yield held
        finally:
            if held:
                lock.release()
