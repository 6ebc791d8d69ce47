"""What plain values of NUMA cells and PCI devices share.

They are read from objects in a request, which can be nova's own if an operator's filter has put them there.
"""

from functools import cached_property
from typing import Any, TypeVar

Value = TypeVar("Value")


def hash_once(cls: type[Value]) -> type[Value]:
    """Let each value of a frozen dataclass compute its hash once: it is a key of caches, and large."""
    digest = cached_property(cls.__hash__)
    digest.__set_name__(cls, "_digest")
    for name, member in {"_digest": digest, "__hash__": lambda self: self._digest}.items():
        setattr(cls, name, member)
    return cls


def field(obj: object, name: str) -> Any:
    """Return the value of a field, or the default of an unset one.

    None if it is unset and has no default, and for fields of None.
    """
    # An unset field of nova's objects tries to load itself, which ends in NotImplementedError.
    try:
        return getattr(obj, name, None)
    except NotImplementedError:
        return None
