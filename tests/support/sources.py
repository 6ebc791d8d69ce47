"""Sources of this repository, each parsed once for all tests that look at them."""

import ast
from functools import cache
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


@cache
def modules(folder):
    """The paths of the modules below a folder of the repository, sorted."""
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def tree(path):
    """A module, parsed."""
    return ast.parse(path.read_text(), str(path))


@cache
def walked(path):
    """Each part of a module."""
    return tuple(ast.walk(tree(path)))


def nodes(folder):
    """Each module below a folder, and each part of it."""
    return ((path, node) for path in modules(folder) for node in walked(path))
