"""The attributes of ``HostState`` as columns: arrays of numbers, or encoded with the values that nova has."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from scheduler.hosts.coded import Coded
from scheduler.hosts.columns import FLOATS, INTEGERS
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

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


def attribute(hosts: HostView, name: str) -> np.ndarray | Coded | None:
    """The column behind an attribute; None if there is none, and each host must be asked."""
    if name in INTEGERS or name in FLOATS:
        return hosts.numbers(name)
    if name in _OF_VALUE:
        column = hosts.coded(name)
        return Coded(column.codes, tuple(map(_OF_VALUE[name], column.values)))
    if name in _OF_ROW:
        return Coded.of_texts(map(attrgetter(_OF_ROW[name]), hosts.rows))
    if name == "cell_uuid":
        return hosts.coded("cell")
    return hosts.coded(name) if name == "hypervisor_type" else None


def stat(hosts: HostView, key: str) -> Coded:
    """What ``stats`` has under a key; ``ABSENT`` for hosts whose stats lack it."""
    column = hosts.coded("stats")
    values = column.values
    found = [values[code].data.get(key, ABSENT) for code in column.codes.tolist()]
    # numbers, lists and maps are told apart by identity: they are rare, and True == 1
    texts = set(map(type, found)) <= {str, type(None), object}
    return Coded.of_texts(found) if texts else Coded.of(found)
