"""Reports what nova's databases should not have: duplicates, and compute nodes without a service."""

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.hosts.table import HostTable
from scheduler.logs import RateLimitedLogger

#: Seconds after which duplicate names that are still there are reported again.
DUPLICATES_INTERVAL = 86400.0


def report_duplicates(table: HostTable, log: RateLimitedLogger) -> None:
    """Log what should be unique over all cells and is not (spec: host-state-and-cells 2.4, 8 (6)).

    These are hosts that are in several cells, and node names and uuids that several nodes have.
    """
    for host, cells in _several((row.host, row.cell_uuid) for row in table.rows).items():
        log.warning(("host", host), "Compute service %s is in several cells: %s", host, ", ".join(cells))
    for node, uuids in _several((row.nodename, row.uuid) for row in table.rows).items():
        log.warning(("node", node), "Several compute nodes are called %s: %s", node, ", ".join(uuids))
    for uuid, cells in _several((row.uuid, row.cell_uuid) for row in table.rows).items():
        log.warning(("uuid", uuid), "Compute node %s is in several cells: %s", uuid, ", ".join(cells))


def report_without_service(table: HostTable, log: RateLimitedLogger) -> None:
    """Log the hosts that have compute nodes and no compute service."""
    for host, uuid in {row.host: uuid for uuid, row in table.without_service.items()}.items():
        text = "Host %s has no compute service record and gets no instances (compute node %s)"
        log.warning(("service", host), text, host, uuid)


def _several(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[Any]]:
    """Return the keys that go with more than one distinct value."""
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: sorted(values) for key, values in found.items() if len(values) > 1}
