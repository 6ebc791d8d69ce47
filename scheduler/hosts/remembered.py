"""What was read once and need not be read again, as long as there is room for it."""

from collections.abc import Iterable, Mapping
import threading
from typing import Any


class Remembered:
    """A map of bounded size: it starts anew when it is full."""

    LIMIT = 200_000

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: Any) -> bool:
        return key in self._values

    def get(self, key: Any, default: Any = None) -> Any:
        return self._values.get(key, default)

    def put(self, values: Mapping[Any, Any]) -> None:
        with self._lock:
            if len(self._values) + len(values) > self.LIMIT:
                self._values = {}
            self._values.update(values)

    def drop(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._values.pop(key, None)
