"""Classes by dotted path: nova's names of the built-in ones, and operators' own.

spec: filters-and-weighers 1.2

nova's paths of classes that Berth has resolve to Berth's, whether or not nova is installed. Any other path is
imported as it is given, also one below ``nova.scheduler.filters.`` or ``nova.scheduler.weights.``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
import inspect
from types import FunctionType
from typing import Any, cast

from oslo_config import cfg
from oslo_utils import importutils

from scheduler.errors import ClassNotFound, nearest_class
from scheduler.rules import installed_nova

#: What to do about a class that needs more of nova than Berth provides.
INSTALL = "install nova where Berth runs (pip install nova)"

NOVA_PREFIXES = ("nova.scheduler.filters.", "nova.scheduler.weights.")


def resolve(path: str, built_in: Mapping[str, object], is_rule: Callable[[type], bool]) -> list[type]:
    """Return the classes that one configured path stands for.

    A function is called, once in a process, and what it returns is taken unchecked, apart from nova's own
    classes: they stand for the built-in ones, however they came into the list.

    Args:
        path: A dotted path.
        built_in: By nova's paths, the built-in classes, and the function that lists them all.
        is_rule: Whether a class is of the right kind.

    Raises:
        ClassNotFound: The path leads to no class of that kind.
    """
    found = built_in.get(path)
    if found is None:
        found = _import(path, built_in)
    if inspect.isclass(found) and not found.__name__.startswith("_") and is_rule(found):
        return [found]
    if isinstance(found, FunctionType):
        returned = _returned(found)
        return [cast("type", built_in.get(f"{cls.__module__}.{cls.__name__}", cls)) for cls in returned]
    raise ClassNotFound(f"Class {path} could not be found: it is no filter or weigher")


@cache
def _returned(function: Callable[[], Iterable[type]]) -> tuple[type, ...]:
    return tuple(function())


def _import(path: str, built_in: Iterable[str]) -> object:
    if "," in path:
        raise ClassNotFound(f"Class {path} could not be found: it has a comma; give the option once for each")
    hint = _meant(path, built_in)
    if "." not in path:
        form = "a path has the form package.module.Class"
        raise ClassNotFound(f"Class {path!r} could not be found: {form}{hint}")
    installed = installed_nova.directory() is not None
    if path.startswith(NOVA_PREFIXES) and not installed:
        raise ClassNotFound(
            f"Class {path} could not be found: nova has no such filter or weigher{hint}. If it is a class of "
            f"yours, {INSTALL}, with the class in it, or move the class to a package of its own"
        )
    try:
        return importutils.import_class(path)
    except ImportError as error:
        needs_nova = (error.name or "").partition(".")[0] == "nova" and not installed
        hint = f"; Berth has no such module of nova: {INSTALL}" if needs_nova else hint
        raise ClassNotFound(f"Class {path} could not be found: {error}{hint}") from error


def _meant(path: str, built_in: Iterable[str]) -> str:
    """Return a hint at the built-in class with the nearest name, whatever its package."""
    by_name = {known.rpartition(".")[2]: known for known in built_in}
    name = nearest_class(path.rpartition(".")[2], by_name)
    return f"; did you mean {by_name[name]}?" if name else ""


def made(cls: type, conf: cfg.ConfigOpts) -> Any:
    """Make an object of a class that takes no arguments, as nova does, and give it the options as ``conf``.

    A class that brings a ``conf`` of its own keeps that, whatever it is.
    """
    rule = cls()
    if not hasattr(rule, "conf"):
        rule.conf = conf
    return rule


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """Add a note for the log, which names an operator's class, to what is raised inside."""
    try:
        yield
    except Exception as error:
        error.add_note(f"Raised by {name}, which is not a class of Berth")
        raise


def derives_from(cls: type, own: type, names: tuple[str, ...], modules: tuple[str, ...]) -> bool:
    """Return whether a class derives from a base class of ours, or of a nova that is installed too.

    Args:
        names: Names of nova's base classes.
        modules: Modules that have base classes of these names.
    """
    if issubclass(cls, own):
        return True
    return any(base.__name__ in names and base.__module__ in modules for base in inspect.getmro(cls))
