"""A nova that is installed next to Berth, for operators' own classes (spec: filters-and-weighers 1.12).

Some operators keep filters and weighers inside nova's package, or run a fork that has more of them. nova is
imported only if it has such classes, or a class of the options imports it: it takes much memory and time.
"""

import ast
from collections.abc import Callable, Collection, Iterator
from functools import cache
import importlib
import importlib.util
from pathlib import Path
import sys

from oslo_config import cfg
from oslo_utils import importutils

from scheduler.errors import ClassNotFound

#: What nova's own programs call before anything else. The bus has options that cells need.
_CONFIGURED = (("nova.rpc", "init"), ("nova.db.api.api", "configure"), ("nova.db.main.api", "configure"))


def directory() -> Path | None:
    """Return where nova's package is; None if nova is not installed."""
    try:
        spec = importlib.util.find_spec("nova")
    except ValueError:  # a module without a specification stands in its place
        return None
    places = getattr(spec, "submodule_search_locations", None)
    return Path(places[0]) if places else None


def added_classes(package: str, function: str, known: Collection[str]) -> tuple[type, ...]:
    """Return the classes that an installed nova offers and Berth does not know.

    Args:
        package: ``nova.scheduler.filters`` or ``nova.scheduler.weights``.
        function: The name of the function there that returns all classes.
        known: The dotted paths of the classes that Berth has or has replaced.

    Raises:
        ClassNotFound: nova has others, but cannot be imported.
    """
    root = directory()
    if root is None or not any(path not in known for path in _subclasses(root, package)):
        return ()
    try:
        offered: Callable[[], Collection[type]] = importutils.import_class(f"{package}.{function}")
        return tuple(cls for cls in offered() if f"{cls.__module__}.{cls.__name__}" not in known)
    except ImportError as error:
        raise ClassNotFound(f"Classes of {package} in {root} could not be imported: {error}") from error


def _subclasses(root: Path, package: str) -> Iterator[str]:
    """Yield the path of each public class that the modules of a package derive from another class."""
    folder = root.joinpath(*package.split(".")[1:])
    for path in sorted(folder.rglob("*.py")):
        if path.name == "__init__.py":
            continue
        module = ".".join((package, *path.relative_to(folder).with_suffix("").parts))
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and node.bases and not node.name.startswith("_"):
                yield f"{module}.{node.name}"


def is_imported() -> bool:
    """Return whether a class has imported modules of an installed nova."""
    return "nova" in sys.modules and directory() is not None


def register_objects() -> None:
    """Register nova's objects; its modules are imported for that."""
    if _has("nova.objects"):
        importlib.import_module("nova.objects").register_all()


@cache  # a database that is in use cannot be configured again
def configure() -> None:
    """Give nova's objects the message bus and the databases of nova.conf, once in a process.

    nova's options, ``oslo_config.cfg.CONF``, must have the values of the files.
    """
    for name, function in _CONFIGURED:
        if _has(name):
            getattr(importlib.import_module(name), function)(cfg.CONF)


def _has(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
