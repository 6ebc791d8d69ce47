"""The paths, modules and classes that documents and docstrings name are there, and so are the bounds they quote."""

import ast
from functools import cache
import importlib.util
import re

import pytest

from scheduler.claims import claims
from scheduler.rules import nova_modules
from tests.support.sources import ROOT, modules, tree, walked

PACKAGES = ("scheduler", "conductor_client")
FOLDERS = (*PACKAGES, "tools", "tests", "examples")
DOCUMENTS = [
    *(ROOT / name for name in ("README.rst", "CONTRIBUTING.rst", "SECURITY.rst")),
    *sorted((ROOT / "doc" / "source").glob("*.rst")),
]
MODULES = sorted(path for folder in FOLDERS for path in modules(folder))

#: Texts and comments of modules.
NO_CODE = re.compile(r'''""".*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*''', re.DOTALL)

#: What is quoted: a path, a dotted name, a name in capital letters and small ones.
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")
DOTTED = re.compile(r"(?:[a-z_]\w*)(?:\.\w+)+")
CLASS = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+")

#: A part of a dotted name that is a path or a name of something else.
SUFFIXES = {"conf", "json", "jsonl", "log", "py", "rst", "sqlite", "txt", "yml", "md", "html", "ini"}

#: Names of others in documents: an exception of nova and one of a reply, settings of systemd.
FOREIGN = {
    "CellTimeout",
    "PlacementAPIConnectFailure",
    *("ExecStart", "MemoryDenyWriteExecute", "ReadWritePaths", "TimeoutStartSec", "TimeoutStopSec"),
    *(
        "DeviceAllow",
        "PrivateNetwork",
        "ProtectClock",
        "RestrictAddressFamilies",
        "RootDirectory",
        "RootImage",
    ),
}

#: Dotted names that are no modules of ours: a queue, a code of Placement, variables of an example.
NO_MODULES = {
    "scheduler.HOST",
    "placement.concurrent_update",
    *("request.spec", "hosts.count_instances", "hosts.image_properties"),
}


@cache
def identifiers():
    """All words of the code of this repository."""
    found = FOREIGN | set(nova_modules.NAMES)
    found |= set(re.findall(r"alert: (\w+)", (ROOT / "etc" / "berth-alerts.yml").read_text()))
    return found.union(*(re.findall(r"\w+", NO_CODE.sub("", path.read_text())) for path in MODULES))


def docstrings(path):
    for node in walked(path) if "``" in path.read_text() else ():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield text


def quoted(text):
    """What a text has between double back quotes, also over the end of a line."""
    return [" ".join(each.split()) for each in re.findall(r"``([^`]+?)``", text)]


def is_there(name):
    """Whether a path of this repository or below ``scheduler`` exists; True for paths elsewhere."""
    bases = [base for base in (ROOT, ROOT / "scheduler") if (base / name.partition("/")[0]).is_dir()]
    bases = [] if name.startswith("/") else bases
    return not bases or any((base / name).exists() or (base / f"{name}.py").exists() for base in bases)


@cache
def modules_called(name):
    """The modules of ours with this name, without a package; ``berth.NAME`` is a queue or a file."""
    return [path for folder in PACKAGES for path in modules(folder) if path.stem == name != "berth"]


@cache
def members(path):
    """What a module or a class in it defines, and the names that objects of it have."""
    return {
        each
        for node in walked(path)
        for each in ([node.attr] if isinstance(node, ast.Attribute) else defined(node))
    }


def resolves(name):
    """Whether a dotted name that begins with a package or module of ours is a module, or something in one."""
    parts = name.split(".")
    if name in NO_MODULES or parts[-1] in SUFFIXES:
        return True
    if parts[0] not in PACKAGES:
        if not (ROOT / "scheduler" / parts[0]).is_dir():
            known = modules_called(parts[0])
            return not known or any(parts[1] in members(path) for path in known)
        parts = ["scheduler", *parts]
    path = ROOT
    for number, part in enumerate(parts):
        if (path / part).is_dir():
            path /= part
        elif (path / f"{part}.py").exists():
            return defines(path / f"{part}.py", parts[number + 1 :])
        else:
            return defines(path / "__init__.py", parts[number:])
    return True


def defines(path, names):
    """Whether a module defines a name, and that one the next, as far as that can be seen."""
    holder = tree(path)
    for name in names:
        found = [node for node in getattr(holder, "body", ()) for each in defined(node) if each == name]
        if not found:
            return isinstance(holder, ast.ClassDef) and name in own_attributes(holder)
        holder = found[0]
    return True


def own_attributes(node):
    """The names that an object of a class has beside those of the class."""
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def defined(node):
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [each.asname or each.name for each in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def wrong_names(text):
    for name in quoted(text):
        if (
            (PATH.fullmatch(name) and not is_there(name))
            or (DOTTED.fullmatch(name) and not resolves(name))
            or (CLASS.fullmatch(name) and name not in identifiers())
        ):
            yield name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_what_documents_name_is_there(document):
    assert list(wrong_names(document.read_text())) == []


@cache
def sphinx_configuration():
    spec = importlib.util.spec_from_file_location("sphinx_configuration", ROOT / "doc" / "source" / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_bounds_that_documents_quote_are_constants(document):
    for name in re.findall(r":bound:`([^`]+)`", document.read_text()):
        assert re.fullmatch(r"[\d,.]+", sphinx_configuration().bound_text(name)), name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claims.claims.RELEASE_TIMEOUT", f"{claims.RELEASE_TIMEOUT:.0f}"),
        ("rpc.checks.MOST_INSTANCES", "16,000"),
    ],
)
def test_bounds_are_shown_with_their_values(name, text):
    assert sphinx_configuration().bound_text(name) == text
    with pytest.raises(AttributeError):
        sphinx_configuration().bound_text(f"{name}_GONE")


def test_what_docstrings_name_is_there():
    wrong = [
        (str(path.relative_to(ROOT)), name)
        for path in MODULES
        for text in docstrings(path)
        for name in wrong_names(text)
    ]
    assert wrong == []
