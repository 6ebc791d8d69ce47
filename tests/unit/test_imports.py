"""The rules on who may import whom. A package here is a sub-package of ``scheduler``, or a module right in it."""

import ast
from functools import cache
import pathlib
import subprocess
import sys

import pytest

from tests.support.sources import ROOT, modules, nodes, walked

#: What every package may import.
GROUND_FLOOR = {"errors", "version", "logs", "bounds"}

#: The decision; no I/O.
DECISION = {"request", "hosts", "numa", "pci", "filters", "weights", "rules", "selection"}

#: What the decision reads and writes.
OUTSIDE = {"placement", "claims", "nova_db", "nova_service", "stream"}

#: All of the service: what berth-scheduler and berth-router run.
SERVICE = {
    *("objects", "conf", *DECISION, *OUTSIDE, "decisions", "workflow", "manager", "parts"),
    *("rpc", "router", "health", "daemon", "cmd"),
}

#: package -> packages of ours that it may import, beside itself and the ground floor
ALLOWED = {
    "errors": set(),
    "version": set(),
    "logs": set(),
    "bounds": set(),
    "objects": {"conf"},
    "conf": set(),
    "request": {"objects", "numa", "pci"},
    "placement": {"request"},
    "claims": {"placement", "request"},
    "pci": {"objects"},
    "numa": {"objects", "pci"},
    "hosts": {"numa", "pci"},
    "nova_db": {"hosts", "objects", "conf", "numa", "pci", "request"},
    "nova_service": {"nova_db", "conf"},
    "filters": {"hosts", "request", "objects", "numa", "pci", "conf"},
    "weights": {"hosts", "request", "objects", "conf"},
    "rules": {"conf", "filters", "weights", "hosts", "request"},
    "stream": {"hosts", "conf", "numa", "pci"},
    "router": {"rpc", "conf"},
    "selection": {"request", "placement", "filters", "weights", "claims", "hosts", "objects", "numa", "pci"},
    "health": {"decisions", "claims", "placement"},
    "decisions": {
        *("selection", "request", "placement", "filters", "weights", "claims", "hosts", "objects", "conf"),
    },
    "workflow": {*DECISION, *OUTSIDE, "objects", "decisions"},
    "parts": {*DECISION, *OUTSIDE, "workflow"},
    "manager": {*DECISION, *OUTSIDE, "objects", "conf", "parts", "decisions", "health", "workflow"},
    "rpc": {"objects", "manager", "decisions", "request"},
    "daemon": {"conf", "health"},
    "cmd": SERVICE,
    "operators": SERVICE - {"cmd", "daemon", "router", "health"},
}

#: Modules of ``scheduler`` that ``conductor_client`` may know: the scheduler's interface,
#: nova's tables, and Placement.
INTERFACE = (
    *(
        "scheduler.errors",
        "scheduler.objects",
        "scheduler.conf",
        "scheduler.rpc.serializer",
        "scheduler.rpc.context",
    ),
    *("scheduler.nova_db.schema", "scheduler.nova_db.cells", "scheduler.placement"),
)


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(package):
    return {module_name(path): path for path in modules(package)}


@cache
def imported(name, path):
    """Full names of all that a module imports, wherever in it that is done: modules, or things in them."""
    return tuple(_imported(name, path))


def _imported(name, path):
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in walked(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def package_of(name):
    """``scheduler.hosts.table`` is in ``hosts``; None for what is not the scheduler's."""
    parts = name.split(".")
    return parts[1] if parts[0] == "scheduler" and len(parts) > 1 else None


SCHEDULER = sources("scheduler")
CLIENT = sources("conductor_client")
OURS = {**SCHEDULER, **CLIENT}


def modules_imported(name):
    """The modules of ours that a module imports, packages by their own name."""
    return {_module_of(target) for target in imported(name, OURS[name])} - {None, name}


def _module_of(target):
    while target and target not in OURS:
        target = target.rpartition(".")[0]
    return target or None


@pytest.mark.parametrize("package", sorted({package_of(name) for name in SCHEDULER} - {None}))
def test_each_package_imports_only_what_it_may(package):
    assert package in ALLOWED, f"{package} has no rule: add one to the table in design and here"
    allowed = {package, *ALLOWED[package], *GROUND_FLOOR}
    wrong = [
        f"{name} imports {target}"
        for name in SCHEDULER
        if package_of(name) == package
        for target in imported(name, SCHEDULER[name])
        if package_of(target) is not None and package_of(target) not in allowed
    ]
    assert wrong == []


def test_the_scheduler_knows_nothing_of_those_who_call_it():
    assert [
        name
        for name in SCHEDULER
        for target in imported(name, SCHEDULER[name])
        if target.startswith("conductor_client")
    ] == []


def test_the_client_knows_only_the_schedulers_interface():
    wrong = [
        f"{name} imports {target}"
        for name in CLIENT
        for target in imported(name, CLIENT[name])
        if target.split(".")[0] == "scheduler"
        and not f"{target}.".startswith(tuple(f"{one}." for one in INTERFACE))
    ]
    assert [line for line in wrong if not line.endswith("imports scheduler")] == []


#: Prints the files of ours that a program has loaded when it starts.
LOADED = """
import sys
from oslo_service import backend
backend.init_backend(backend.BackendType.THREADING)
from scheduler.cmd import {daemon}
{daemon}.parts(None)
import scheduler.daemon.service
print(*(file for name, module in sys.modules.items()
        if name.split(".")[0] == "scheduler" and (file := getattr(module, "__file__", None))))
"""


def loaded(daemon):
    """The files of ours that a daemon loads."""
    run = [sys.executable, "-W", "ignore", "-c", LOADED.format(daemon=daemon)]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(file).relative_to(ROOT / "scheduler") for file in printed.split()]


@pytest.mark.slow
def test_a_daemon_loads_nothing_of_what_operators_run():
    packages = {file.parts[0] for file in loaded("scheduler")}
    assert "manager.py" in packages
    assert "operators" not in packages
    assert "router" not in packages


@pytest.mark.slow
def test_a_router_loads_little_more_than_the_bus():
    files = loaded("router")
    assert sum(len((ROOT / "scheduler" / file).read_text().splitlines()) for file in files) <= 10_600
    assert {file.parts[0] for file in files} & {
        "manager.py",
        "workflow",
        "objects",
        "nova_db",
        "placement",
    } == set()


def test_nothing_imports_nova():
    assert [
        f"{name} imports {target}"
        for name in OURS
        for target in imported(name, OURS[name])
        if target.split(".")[0] == "nova"
    ] == []


def test_no_two_modules_import_each_other():
    """Nor do longer rings of modules. A package's ``__init__`` that gathers its modules is no ring."""
    graph = {name: modules_imported(name) for name in OURS}
    for name, targets in graph.items():
        graph[name] = {target for target in targets if not name.startswith(f"{target}.")}
    assert list(rings(graph)) == []


def rings(graph):
    """Each ring found by a depth-first walk, as the list of its members."""
    done, path = set(), []

    def walk(name):
        if name in path:
            yield path[path.index(name) :]
            return
        if name in done:
            return
        path.append(name)
        for target in sorted(graph[name]):
            yield from walk(target)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        yield from walk(name)


def test_no_type_is_decoded_that_msgspec_has_not_looked_at():
    """Two threads that decode a type for the first time at once crash the process; a decoder is made before."""
    lazily = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in nodes("scheduler")
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"msgspec.json.decode", "msgspec.msgpack.decode"}
        and any(keyword.arg == "type" for keyword in node.keywords)
    ]
    assert lazily == []
