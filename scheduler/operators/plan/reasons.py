"""Why Placement does not offer hosts to a request of a plan."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from scheduler.hosts.table import HostTable
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import PlainQuery, plain_query
from scheduler.request.scheduling_request import SchedulingRequest

#: Causes that are named.
MOST_CAUSES = 4


def placement_causes(
    table: HostTable, mirror: CandidateMirror, request: SchedulingRequest, closed: np.ndarray
) -> Iterator[str]:
    """Yield causes with numbers of hosts, that of most hosts first; none if the mirror cannot answer.

    Args:
        closed: Hosts that the plan leaves out; bool, shape (hosts,).
    """
    plain = plain_query(request.queries[0]) if len(request.queries) == 1 else None
    answer = None if plain is None else mirror.find(request.queries)
    if plain is not None and answer is not None:
        wanted = {row.uuid for row in table.rows if request.cell_uuid in (None, row.cell_uuid)}
        nodes = [
            row for row, uuid in enumerate(answer.uuids) if uuid in wanted and not answer.nodes.gone[row]
        ]
        causes = Counter(refusals(answer.nodes, np.array(nodes, np.int64), plain))
        yield from (f"{cause}: {count}" for cause, count in causes.most_common(MOST_CAUSES))
        if others := len(table) - len(wanted):
            yield f"in another cell: {others}"
    if left_out := int(np.count_nonzero(closed)):
        yield f"hosts to empty, or failed hosts: {left_out}"


def refusals(nodes: Any, rows: np.ndarray, query: PlainQuery) -> Iterator[str]:
    """Yield the first reason of each node that does not meet a query.

    Args:
        nodes: ``mirror.Nodes``.
        rows: The nodes to look at.
    """
    for row in rows.tolist():
        traits = nodes.traits[row]
        if missing := query.required - traits:
            yield f"without trait {min(missing)}"
        elif unwanted := query.forbidden & traits:
            yield f"with trait {min(unwanted)}"
        elif query.aggregates and not query.aggregates_suit(nodes.aggregates[row]):
            yield "not in the zone or aggregates"
        else:
            state = nodes.state(row)
            for name, amount in query.amounts.items():
                inventory = state.inventories.get(name)
                if inventory is None or not inventory.admits(amount):
                    yield f"never {amount} {name}"
                    break
                if state.used.get(name, 0) + amount > inventory.capacity:
                    yield f"less than {amount} {name} free"
                    break
