"""Locks by name that are held for a short time and waited for with a bound."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
import threading
import time

from scheduler.bounds import deadline
from scheduler.bounds.waits import What, waiting_for


class KeyedLocks:
    """One lock for each key. A lock exists only while a thread holds it or waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, keys: Iterable[str], timeout: float, what: What) -> Iterator[bool]:
        """Hold the locks of all keys.

        Args:
            keys: May repeat.
            timeout: Seconds to wait for all of them together, at most until the deadline of the request.
            what: What is waited for meanwhile, as ``waiting_for`` takes it.

        Yields:
            True while all locks are held; False if the time was over, and none is held.
        """
        end = time.monotonic() + deadline.current().bound(timeout)
        with ExitStack() as held:
            # In one order for all callers, or two of them could wait for each other.
            with waiting_for(what):
                acquired = all(self._acquire(key, end, held) for key in sorted(set(keys)))
            if not acquired:
                held.close()
            yield acquired

    def _acquire(self, key: str, end: float, held: ExitStack) -> bool:
        with self._lock:
            lock, users = self._locks.get(key) or (threading.Lock(), 0)
            self._locks[key] = (lock, users + 1)
        held.callback(self._remove_user, key)
        if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
            return False
        held.callback(lock.release)
        return True

    def _remove_user(self, key: str) -> None:
        with self._lock:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)
