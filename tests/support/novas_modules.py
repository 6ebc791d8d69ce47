"""Modules named as nova's: stand-ins that Berth makes for operators' filters, and those of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
import sys


def novas_modules() -> list[str]:
    """The names of those that are loaded, sorted."""
    return sorted(name for name in sys.modules if name == "nova" or name.startswith("nova."))


@contextmanager
def without_novas_modules() -> Iterator[None]:
    """As if none were loaded; those that are loaded within are taken away again."""
    before = {name: sys.modules.pop(name) for name in novas_modules()}
    try:
        yield
    finally:
        for name in novas_modules():
            del sys.modules[name]
        sys.modules.update(before)
