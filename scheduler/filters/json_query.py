"""The query language of JsonFilter, one host at a time (spec: filters-and-weighers 2.17).

A query is a list: an operator's name and its arguments, which may be queries. Its oddities are nova's: null
arguments are dropped, and ``not`` gives a list, which inside another operator is true unless it is empty.
"""

from collections.abc import Callable, Iterable
import operator
from typing import Any

from scheduler.filters import columns
from scheduler.hosts.host_state import HostState

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

Resolve = Callable[[str], Any]
Apply = Callable[[str, list], Any]


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[list], bool]:
    def holds(args: list) -> bool:
        # all of them, as what cannot be compared raises, whatever came before it
        verdicts = [compare(args[0], other) for other in args[1:]]
        return bool(verdicts) and all(verdicts)

    return holds


OPERATORS: dict[str, Callable[[list], Any]] = {
    **{name: _comparison(compare) for name, compare in COMPARISONS.items()},
    "in": lambda args: len(args) > 1 and args[0] in args[1:],
    "not": lambda args: [not value for value in args],
    "or": any,
    "and": all,
}


def evaluate(query: Any, resolve: Resolve, apply: Apply) -> Any:
    """What a query gives. ``resolve`` turns texts into values; ``apply`` knows the operators, null apart.

    Raises ``KeyError`` for an unknown operator, ``TypeError`` for what is no query or cannot be compared.
    """
    if not query:
        return True
    name, args = query[0], query[1:]
    if name not in OPERATORS:
        raise KeyError(name)
    values = [_argument(arg, resolve, apply) for arg in args]
    return apply(name, [value for value in values if value is not None])


def _argument(arg: Any, resolve: Resolve, apply: Apply) -> Any:
    if isinstance(arg, list):
        return evaluate(arg, resolve, apply)
    return resolve(arg) if isinstance(arg, str) else arg


def holds_on(query: Any, host: HostState) -> bool:
    """The verdict of a query on one host."""
    result = evaluate(query, lambda text: value_on(host, text), lambda name, args: OPERATORS[name](args))
    return any(result) if isinstance(result, list) else bool(result)


def variable(text: str) -> list[str]:
    """The attribute and the keys that ``$attribute.key.key`` names; empty for any other text."""
    return text[1:].split(".") if text.startswith("$") else []


def value_on(host: HostState, text: str) -> Any:
    """What a text stands for on a host; AttributeError if keys are asked of a value that has none."""
    if not text.startswith("$"):
        return text or None
    name, *keys = variable(text)
    return follow(getattr(host, name, None) if columns.is_attribute(name) else None, keys)


def follow(value: Any, keys: Iterable[str]) -> Any:
    """What a chain of keys leads to; None as soon as there is nothing."""
    for key in keys:
        if value is None:
            break
        value = value.get(key)
    return value
