"""A nova that is installed next to Berth, for operators' own classes (spec: filters-and-weighers 1.12).

Some operators keep filters and weighers inside nova's package, or run a fork that has more of them. nova is
imported only if it has such classes, or a class of the options imports it: it takes much memory and time.
"""

import ast
from collections.abc import Callable, Collection, Iterator
import importlib
import importlib.util
from pathlib import Path
import sys

from oslo_config import cfg
from oslo_utils import importutils

from scheduler.errors import ClassNotFound


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


def configure_databases(conf: cfg.ConfigOpts) -> None:
    """Give nova's objects the databases of nova.conf.

    Args:
        conf: nova's options, with the values of the files.
    """
    for name in ("nova.db.api.api", "nova.db.main.api"):
        if _has(name):
            importlib.import_module(name).configure(conf)


def _has(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
