"""The built-in filters, found by looking through the modules of this package.

A filter is built in if it is defined in a module here and names the modules of nova that it stands for
(``HostFilter.nova_modules``), or says that it is none of nova's (``of_berth``). No list is kept elsewhere: a
new filter is known once its file is there.
"""

from collections.abc import Iterator, Mapping
from functools import cache
import importlib
import pkgutil
from typing import TypeGuard

from scheduler import filters
from scheduler.filters.base import HostFilter

NOVA_PACKAGE = "nova.scheduler.filters"

FilterClass = type[HostFilter]


def shipped() -> tuple[FilterClass, ...]:
    """Return the filters that nova ships; in this order ``all_filters`` offers them."""
    return tuple(cls for cls in _all() if not cls.removed_from_nova and not cls.of_berth)


def past() -> tuple[FilterClass, ...]:
    """Return those that only past releases of nova had; an old ``enabled_filters`` may name them."""
    return tuple(cls for cls in _all() if cls.removed_from_nova)


def added() -> tuple[FilterClass, ...]:
    """Return those that nova does not have; ``enabled_filters`` may name them."""
    return tuple(cls for cls in _all() if cls.of_berth)


@cache
def by_nova_path() -> Mapping[str, FilterClass]:
    """Return each class by its dotted path in nova; one has several if it moved between modules."""
    return {f"{NOVA_PACKAGE}.{module}.{cls.__name__}": cls for cls in _all() for module in cls.nova_modules}


@cache
def _all() -> tuple[FilterClass, ...]:
    return tuple(sorted(defined(), key=lambda cls: (cls.nova_modules, cls.__name__)))


def defined() -> Iterator[FilterClass]:
    """Yield the filters that the modules of this package define."""
    for info in pkgutil.iter_modules(filters.__path__, f"{filters.__name__}."):
        for cls in vars(importlib.import_module(info.name)).values():
            if _is_built_in(cls) and cls.__module__ == info.name:
                yield cls


def _is_built_in(found: object) -> TypeGuard[FilterClass]:
    if not (isinstance(found, type) and issubclass(found, HostFilter)):
        return False
    return bool(found.nova_modules) or found.of_berth
