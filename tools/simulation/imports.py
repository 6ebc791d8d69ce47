"""Imports the product so that it runs on the virtual clock and threads, without a change to it.

Modules of the named packages see the modules of ``threads`` where they import ``threading``, ``time`` and so
on, also in default arguments. All other modules see the real ones.
"""

import builtins
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
import sys
from types import ModuleType

from tools.simulation import threads

# cachetools takes the clock of its timed caches when it is imported; oslo.messaging has the server's threads;
# kombu waits between attempts to connect.
PACKAGES = (
    "scheduler",
    "cachetools",
    "kombu.utils.functional",
    "oslo_messaging",
    "oslo_utils.eventletutils",
    "oslo_utils.excutils",
    "oslo_utils.timeutils",
)


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        names = dict(vars(builtins), __import__=threads.virtual_import)
        module.__dict__["__builtins__"] = names
        super().exec_module(module)


class VirtualFinder(MetaPathFinder):
    """Finds modules of ``PACKAGES``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the import system would, with a loader that gives it virtual imports."""
        if not _is_virtual(name):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Import the named packages virtually from now on.

    Raises:
        RuntimeError: The product was imported before, with the real modules.
    """
    for name in sys.modules:
        if _is_virtual(name):
            raise RuntimeError(f"{name} was imported before the simulation was set up")
    sys.meta_path.insert(0, VirtualFinder())


def _is_virtual(name: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in PACKAGES)
