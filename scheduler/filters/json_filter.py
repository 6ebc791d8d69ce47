"""A query over what is known of a host, given with the request (spec: filters-and-weighers 2.17)."""

import json
from typing import Any

import numpy as np

from scheduler.filters import json_columns, json_query
from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class JsonFilter(HostFilter):
    """Hint ``query``, a JSON text such as ``["and", [">=", "$free_ram_mb", 1024], ["<", "$num_io_ops", 3]]``.

    The hosts' services are not looked at. Raises ``KeyError`` for an unknown operator, ``TypeError`` where
    values cannot be compared, ``AttributeError`` for keys of what has none, ``ValueError`` for a text that is
    no JSON.
    """

    def applies(self, request: Any) -> bool:
        return bool(request.get_scheduler_hint("query"))

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        query = json.loads(request.get_scheduler_hint("query"))
        try:
            return json_columns.verdicts(query, hosts)
        except json_columns.Uneven:
            verdict = [json_query.holds_on(query, host) for host in hosts.hosts()]
            return np.array(verdict, dtype=bool)

    def reason(self, host: HostState, request: Any) -> str:
        return "query is false"
