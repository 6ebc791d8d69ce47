"""Queries of JsonFilter for all hosts at once (spec: filters-and-weighers 5.2).

Numbers are compared as arrays, other columns once per distinct combination. ``Uneven`` is raised where
neither can give what one host after the other would; the caller then takes that way.
"""

from functools import reduce
from typing import Any

import numpy as np

from scheduler.filters import columns
from scheduler.filters.grouping import of_numbers, together
from scheduler.filters.json_query import COMPARISONS, OPERATORS, evaluate, variable
from scheduler.hosts.coded import Coded
from scheduler.hosts.view import HostView

_SERVICE = {"disabled": "service_disabled", "forced_down": "service_forced_down"}


class Uneven(Exception):
    """The query needs a look at each host."""


class Negations(list):
    """What ``not`` gives where it varies by host; in another operator it counts as true."""


def verdicts(query: Any, hosts: HostView) -> np.ndarray:
    """The verdict of a query on each host, shape (hosts,). Raises ``Uneven``, and as ``evaluate``."""
    result = evaluate(query, lambda text: _value(hosts, text), _apply)
    parts = result if isinstance(result, list) else [result]
    verdict = np.zeros(len(hosts), dtype=bool)
    for part in parts:
        verdict |= np.asarray(_truth(part, of_null=False), dtype=bool)
    return verdict


def _value(hosts: HostView, text: str) -> Any:
    """A constant, an array of numbers, or an encoded column; None if there is nothing on any host."""
    if not text.startswith("$"):
        return text or None
    name, *keys = variable(text)
    if not columns.is_attribute(name):
        return None
    if not keys:
        column = columns.attribute(hosts, name)
    elif len(keys) > 1:
        column = None
    elif name == "service" and keys[0] in _SERVICE:
        column = hosts.numbers(_SERVICE[keys[0]])
    else:
        column = _stat(hosts, keys[0]) if name == "stats" else None
    if column is None:
        raise Uneven(text)
    return column


def _stat(hosts: HostView, key: str) -> Coded:
    column = columns.stat(hosts, key)
    values = (None if value is columns.ABSENT else value for value in column.values)
    return Coded(column.codes, tuple(values))


def _apply(name: str, args: list) -> Any:
    if not any(_varies(arg) for arg in args):
        return OPERATORS[name](args)
    if name == "and":
        return reduce(np.logical_and, [_truth(arg, of_null=True) for arg in args])
    if name == "or":
        return reduce(np.logical_or, [_truth(arg, of_null=False) for arg in args])
    if name == "not":
        return Negations(np.logical_not(_truth(_never_null(arg), of_null=False)) for arg in args)
    if any(isinstance(arg, Negations) for arg in args):
        raise Uneven(name)
    if all(isinstance(arg, np.ndarray | int | float) for arg in args):
        return _compare_numbers(name, args)
    return _compare_values(name, args)


def _varies(arg: Any) -> bool:
    return isinstance(arg, np.ndarray | Coded | Negations)


def _truth(value: Any, *, of_null: bool) -> Any:
    """Whether a value is true: one bool, or one a host; ``of_null`` stands for what would be dropped."""
    if isinstance(value, np.ndarray):
        return value.astype(bool)
    if isinstance(value, Coded):
        return value.spread(lambda item: of_null if item is None else bool(item))
    return bool(value)


def _never_null(arg: Any) -> Any:
    if isinstance(arg, Coded) and any(value is None for value in arg.values):
        raise Uneven("not")
    return arg


def _compare_numbers(name: str, args: list) -> Any:
    first, *others = args
    if not others:
        return False
    if name == "in":
        return reduce(np.logical_or, [first == other for other in others])
    return reduce(np.logical_and, [COMPARISONS[name](first, other) for other in others])


def _compare_values(name: str, args: list) -> np.ndarray:
    varying = [arg if isinstance(arg, Coded) else of_numbers(arg) for arg in args if _varies(arg)]

    def compare(values: tuple) -> bool:
        left = iter(values)
        present = [next(left) if _varies(arg) else arg for arg in args]
        return OPERATORS[name]([value for value in present if value is not None])

    return together(*varying).spread(compare)
