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


def nodes(*folders):
    """Each module below these folders, and each part of it."""
    return ((path, node) for folder in folders for path in modules(folder) for node in ast.walk(tree(path)))
