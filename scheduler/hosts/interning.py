"""Texts parsed once: equal texts give the very same value, for as long as some row uses it."""

from collections.abc import Callable
import threading
from typing import Any, Generic, TypeVar
import weakref

Value = TypeVar("Value")


class Interned:
    """Base of parsed values that an ``Interner`` hands out; slots need ``__weakref__`` to be forgotten."""

    __slots__ = ("__weakref__",)


class Interner(Generic[Value]):
    """Remembers the parsed value of each distinct text while anything refers to the value.

    A text whose value no row holds any more is forgotten with it, so the memory follows the table.
    """

    def __init__(self, parse: Callable[[Any], Value]) -> None:
        self._parse = parse
        self._values: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def __call__(self, text: Any) -> Value:
        """The value of ``text`` (anything hashable); raises what ``parse`` raises. None is not remembered."""
        value = self._values.get(text)
        if value is None:
            with self._lock:
                value = self._values.get(text)
                if value is None:
                    value = self._parse(text)
                    if value is not None:
                        self._values[text] = value
        return value

    def __len__(self) -> int:
        return len(self._values)
