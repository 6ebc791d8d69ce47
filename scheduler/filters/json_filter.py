"""A query over what is known of a host, given with the request (spec: filters-and-weighers 2.17).

A query is a list: an operator's name and its arguments, which may be queries. Its oddities are nova's: null
arguments are dropped, and ``not`` gives a list, which inside another operator is true unless it is empty.

The same evaluation runs in two ways. ``verdicts`` evaluates a query for all hosts at once (spec:
filters-and-weighers 5.2): numbers are compared as arrays, other columns once per distinct combination. Where
that cannot give what one host after the other would give, it raises ``Uneven``, and ``holds_on`` evaluates
the query for each host.
"""

from collections.abc import Callable, Iterable
from functools import reduce
import json
import operator
from typing import Any

import numpy as np

from scheduler.errors import NoValidHost, faults_of_request
from scheduler.filters import columns
from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.columns import of_numbers, together
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest

#: Bounds of one query, in which each operator, argument and list is a term. nova's API admits about 5,000.
MOST_TERMS = 500
MOST_LEVELS = 50

#: Terms times hosts of a query that has to be evaluated for each host; a million take about two seconds.
MOST_EVALUATIONS = 1_000_000


class JsonFilter(HostFilter):
    """Hint ``query``, a JSON text such as ``["and", [">=", "$free_ram_mb", 1024], ["<", "$num_io_ops", 3]]``.

    The services of hosts are ignored. Raises ``KeyError`` for an unknown operator, ``TypeError`` where
    values cannot be compared, ``AttributeError`` for keys of what has none, ``ValueError`` for a text that is
    no JSON. Unlike nova's, a query has bounds, since any user can send one: beyond them, and for
    ``$instances``, the request is refused with a reason.
    """

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        text = request.hint("query")
        if not text:
            return None
        with faults_of_request():
            query = _parsed(text)
            terms = _checked_size(query)

        def passes(hosts: HostView) -> np.ndarray:
            with faults_of_request():
                try:
                    return verdicts(query, hosts)
                except Uneven:
                    if terms * len(hosts) > MOST_EVALUATIONS:
                        raise _refused(f"{terms} terms are too many to check {len(hosts)} hosts") from None
                    return np.array([holds_on(query, host) for host in hosts.hosts()], dtype=bool)

        return Judge(passes, lambda _host: "query is false")


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise _refused("it is nested too deeply") from None


def _checked_size(query: Any) -> int:
    """Return the number of terms of a query.

    Raises:
        NoValidHost: The query is beyond a bound, or reads ``$instances``.
    """
    terms, level = 0, [query]
    for _ in range(MOST_LEVELS):
        level = [item for each in level if isinstance(each, list) for item in each]
        terms += len(level)
        if any(isinstance(item, str) and variable(item)[:1] == ["instances"] for item in level):
            raise _refused("$instances cannot be used: it would be built for each host")
        if terms > MOST_TERMS:
            raise _refused(f"it has more than {MOST_TERMS} terms")
        if not level:
            return terms
    raise _refused(f"it has more than {MOST_LEVELS} levels")


def _refused(why: str) -> NoValidHost:
    return NoValidHost(f"The scheduler hint 'query' is refused: {why}.")


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
    """Return what a query gives.

    Args:
        resolve: Turns a text of the query into a value.
        apply: Applies an operator, by name, to arguments that are not null.

    Raises:
        KeyError: An operator is unknown.
        TypeError: The query is none, or values cannot be compared.
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
    """Return the verdict of a query on one host."""
    result = evaluate(query, lambda text: value_on(host, text), lambda name, args: OPERATORS[name](args))
    return any(result) if isinstance(result, list) else bool(result)


def variable(text: str) -> list[str]:
    """Return the attribute and the keys that ``$attribute.key.key`` names; empty for any other text."""
    return text[1:].split(".") if text.startswith("$") else []


def value_on(host: HostState, text: str) -> Any:
    """Return what a text stands for on a host.

    Raises:
        AttributeError: A key is looked up in a value that has no keys.
    """
    if not text.startswith("$"):
        return text or None
    name, *keys = variable(text)
    return follow(getattr(host, name, None) if columns.is_attribute(name) else None, keys)


def follow(value: Any, keys: Iterable[str]) -> Any:
    """Return what a chain of keys leads to; None as soon as there is nothing."""
    for key in keys:
        if value is None:
            break
        value = value.get(key)
    return value


_SERVICE = {"disabled": "service_disabled", "forced_down": "service_forced_down"}


class Uneven(Exception):
    """The query must be evaluated for each host."""


class Negations(list):
    """What ``not`` gives where it varies by host; in another operator it counts as true."""


def verdicts(query: Any, hosts: HostView) -> np.ndarray:
    """Return the verdict of a query on each host: bool, shape (hosts,).

    Raises:
        Uneven: The query must be evaluated for each host.
        KeyError: An operator is unknown.
        TypeError: The query is none, or values cannot be compared.
    """
    result = evaluate(query, lambda text: _value(hosts, text), _apply)
    parts = result if isinstance(result, list) else [result]
    verdict = np.zeros(len(hosts), dtype=bool)
    for part in parts:
        verdict |= np.asarray(_truth(part, of_null=False), dtype=bool)
    return verdict


def _value(hosts: HostView, text: str) -> Any:
    """Return a constant, an array of numbers, or an encoded column; None if no host has a value."""
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


def _stat(hosts: HostView, key: str) -> EncodedColumn:
    column = columns.stat(hosts, key)
    values = (None if value is columns.ABSENT else value for value in column.values)
    return EncodedColumn(column.codes, tuple(values))


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
    return isinstance(arg, np.ndarray | EncodedColumn | Negations)


def _truth(value: Any, *, of_null: bool) -> Any:
    """Return whether a value is true: one bool, or one a host; ``of_null`` is the truth of null."""
    if isinstance(value, np.ndarray):
        return value.astype(bool)
    if isinstance(value, EncodedColumn):
        return value.spread(lambda item: of_null if item is None else bool(item))
    return bool(value)


def _never_null(arg: Any) -> Any:
    if isinstance(arg, EncodedColumn) and any(value is None for value in arg.values):
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
    varying = [arg if isinstance(arg, EncodedColumn) else of_numbers(arg) for arg in args if _varies(arg)]

    def compare(values: tuple) -> bool:
        left = iter(values)
        present = [next(left) if _varies(arg) else arg for arg in args]
        return OPERATORS[name]([value for value in present if value is not None])

    return together(*varying).spread(compare)
