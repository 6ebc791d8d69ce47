"""Names that should be unique over all cells and are not (spec: host-state-and-cells 2.4, 8.6)."""

from collections.abc import Iterable, Mapping
from typing import Any

from oslo_log import log as logging

from scheduler.hosts.table import HostTable

LOG = logging.getLogger(__name__)


def complain(table: HostTable) -> None:
    """Log hosts that are in several cells, and node names and uuids that several nodes have."""
    for host, cells in _several((row.host, row.cell_uuid) for row in table.rows).items():
        LOG.warning("Compute service %s is in several cells: %s", host, ", ".join(cells))
    for node, uuids in _several((row.nodename, row.uuid) for row in table.rows).items():
        LOG.warning("Several compute nodes are called %s: %s", node, ", ".join(uuids))
    for uuid, cells in _several((row.uuid, row.cell_uuid) for row in table.rows).items():
        LOG.warning("Compute node %s is in several cells: %s", uuid, ", ".join(cells))


def _several(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[Any]]:
    """The keys that go with more than one distinct value."""
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: sorted(values) for key, values in found.items() if len(values) > 1}
