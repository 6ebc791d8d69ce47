"""Columns that rules derive from those of the table.

The attributes of ``HostState`` as columns, with the values that nova has, for rules in which a request names
attributes; and two ways to make a dictionary-encoded column from others.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from scheduler.hosts.columns import FLOATS, INTEGERS
from scheduler.hosts.coordinates import Codes
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

ABSENT = object()
"""Stands for a value that a host does not have; None is a value."""

_OF_VALUE: dict[str, Callable[[Any], Any]] = {
    "cpu_info": attrgetter("text"),
    "stats": attrgetter("value"),
    "metrics": attrgetter("value"),
}
_OF_ROW = {"host": "host", "nodename": "nodename", "uuid": "uuid", "hypervisor_hostname": "nodename"}


def is_attribute(name: str) -> bool:
    """Return whether hosts have an attribute of that name, methods included."""
    return not name.startswith("_") and hasattr(HostState, name)


def attribute(hosts: HostView, name: str) -> np.ndarray | EncodedColumn | None:
    """Return the column behind an attribute; None if there is none, so each host has to be checked."""
    if name in INTEGERS or name in FLOATS:
        return hosts.numbers(name)
    if name in _OF_VALUE:
        column = hosts.coded(name)
        return EncodedColumn(column.codes, tuple(map(_OF_VALUE[name], column.values)))
    if name in _OF_ROW:
        return EncodedColumn.of_texts(map(attrgetter(_OF_ROW[name]), hosts.rows))
    if name == "cell_uuid":
        return hosts.coded("cell")
    return hosts.coded(name) if name == "hypervisor_type" else None


def stat(hosts: HostView, key: str) -> EncodedColumn:
    """Return what ``stats`` has under a key; ``ABSENT`` for hosts whose stats lack it."""
    column = hosts.coded("stats")
    values = column.values
    stored = [values[code].value.get(key, ABSENT) for code in column.codes.tolist()]
    # numbers, lists and maps are distinguished by identity: they are rare, and True == 1
    texts = set(map(type, stored)) <= {str, type(None), object}
    return EncodedColumn.of_texts(stored) if texts else EncodedColumn.of(stored)


def of_numbers(column: np.ndarray) -> EncodedColumn:
    """Return a numeric column, shape (hosts,), encoded as the plain Python values that occur in it."""
    values, codes = np.unique(column, return_inverse=True)
    return EncodedColumn(Codes(codes.astype(np.int32)), tuple(values.tolist()))


def together(*columns: EncodedColumn) -> EncodedColumn:
    """Return several columns as one of tuples; only combinations that occur are among its values."""
    numbers = columns[0].codes.astype(np.int64)
    for column in columns[1:]:
        _, numbers = np.unique(numbers * len(column.values) + column.codes, return_inverse=True)
    _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
    return EncodedColumn(
        Codes(codes.astype(np.int32)), tuple(tuple(column[index] for column in columns) for index in first)
    )
