"""Locks by name, held for a moment and waited for with a bound."""

from collections.abc import Iterable
from contextlib import ExitStack, contextmanager
import threading
import time


class KeyedLocks:
    """One lock a key, made when it is first wanted and forgotten when nobody wants it any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, keys: Iterable[str], timeout: float):
        """Hold the locks of all keys. After ``timeout`` seconds the value is False, and none is held."""
        deadline = time.monotonic() + timeout
        with ExitStack() as held:
            # In one order for all, or two holders could wait for each other.
            got = all(self._acquire(key, deadline, held) for key in sorted(set(keys)))
            if not got:
                held.close()
            yield got

    def busy(self) -> list[str]:
        """The keys that are held or waited for."""
        with self._lock:
            return list(self._locks)

    def _acquire(self, key: str, deadline: float, held: ExitStack) -> bool:
        with self._lock:
            lock, users = self._locks.get(key) or (threading.Lock(), 0)
            self._locks[key] = (lock, users + 1)
        held.callback(self._leave, key)
        if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        held.callback(lock.release)
        return True

    def _leave(self, key: str) -> None:
        with self._lock:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)
