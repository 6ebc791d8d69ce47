"""The attributes of ``HostState`` as columns: arrays of numbers, or encoded with the values that nova has.

Columns of few distinct values, made for one rule: of numbers, and of several columns together.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from scheduler.hosts.columns import FLOATS, INTEGERS
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


def of_numbers(column: np.ndarray) -> EncodedColumn:
    """A numeric column, shape (hosts,), as the plain Python values that occur in it."""
    values, codes = np.unique(column, return_inverse=True)
    return EncodedColumn(codes, tuple(values.tolist()))


def together(*columns: EncodedColumn) -> EncodedColumn:
    """One column of tuples; only combinations that occur are among its values."""
    codes = columns[0].codes
    for column in columns[1:]:
        _, codes = np.unique(codes.astype(np.int64) * len(column.values) + column.codes, return_inverse=True)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return EncodedColumn(codes, tuple(tuple(column[index] for column in columns) for index in first))


ABSENT = object()

_OF_VALUE: dict[str, Callable[[Any], Any]] = {
    "cpu_info": attrgetter("text"),
    "stats": attrgetter("data"),
    "metrics": attrgetter("items"),
}
_OF_ROW = {"host": "host", "nodename": "nodename", "uuid": "uuid", "hypervisor_hostname": "nodename"}


def is_attribute(name: str) -> bool:
    """Whether hosts have an attribute of that name, methods included."""
    return not name.startswith("_") and hasattr(HostState, name)


def attribute(hosts: HostView, name: str) -> np.ndarray | EncodedColumn | None:
    """The column behind an attribute; None if there is none, and each host must be asked."""
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
    """What ``stats`` has under a key; ``ABSENT`` for hosts whose stats lack it."""
    column = hosts.coded("stats")
    values = column.values
    found = [values[code].data.get(key, ABSENT) for code in column.codes.tolist()]
    # numbers, lists and maps are told apart by identity: they are rare, and True == 1
    texts = set(map(type, found)) <= {str, type(None), object}
    return EncodedColumn.of_texts(found) if texts else EncodedColumn.of(found)
