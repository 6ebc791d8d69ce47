"""Versioned objects as computes store them in their rows: JSON that is read without making objects of it.

Source: spec numa-and-pci 1.1, 1.5.
"""

from collections.abc import Callable, Mapping

from scheduler.errors import BerthError
from scheduler.objects.base import DATA, NAME, VERSION

# Amounts beyond cannot be told from nonsense. Many of those below still add up to what becomes a float.
MOST = 2**63 - 1


class Malformed(BerthError):
    """What a compute stored cannot be read; ``reason`` says what is wrong with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def data_of(stored: object, name: str, is_known: Callable[[object], bool]) -> Mapping:
    """The fields of an envelope. Raises ``Malformed`` unless it is one of class ``name``.

    ``is_known``: whether a version can be read.
    """
    if not isinstance(stored, dict) or stored.get(NAME) != name:
        raise Malformed(f"there is no {name} where one belongs")
    version = stored.get(VERSION)
    if not is_known(version):
        raise Malformed(f"{name} of unknown version {version!r:.40}")
    data = stored.get(DATA)
    if not isinstance(data, dict):
        raise Malformed(f"{name} without data")
    return data


def integer(key: str, value: object) -> int:
    """A whole number, be it a text. Raises ``Malformed``, which names ``key``."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise Malformed(f"{key} is not a number: {value!r:.40}") from None
    if isinstance(value, float) and number != value:
        raise Malformed(f"{key} is not a whole number: {value!r}")
    if abs(number) > MOST:
        raise Malformed(f"{key} is out of range")
    return number
