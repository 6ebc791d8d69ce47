"""The state of a host as of now, by the databases and Placement, and what of it keeps requests away."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
import time

import msgspec
import numpy as np

from scheduler.explain.document import time_text
from scheduler.explain.failure_cause import REMEDIES, CauseCode
from scheduler.explain.hosts_now import MOST_NODES
from scheduler.explain.providers import PlacementQuestions, Provider
from scheduler.explain.trace import Names
from scheduler.filters.compute_filter import OutOfUse, ServiceUp, out_of_use
from scheduler.hosts.coordinates import TableRow, TableRows
from scheduler.hosts.table import HostTable
from scheduler.placement.errors import PlacementError

#: Classes without which a host takes no instance.
NEEDED = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")

#: The trait by which a compute tells Placement that its service is disabled.
DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"

REMEDIES_OF_USE = {
    OutOfUse.DISABLED: REMEDIES[CauseCode.DISABLED],
    OutOfUse.DOWN: REMEDIES[CauseCode.COMPUTE_DOWN],
    OutOfUse.CELL_DISABLED: "Enable the cell: nova-manage cell_v2 update_cell --enable.",
}


class Problem(msgspec.Struct):
    """What keeps requests from a host whatever they ask for, and what ends it."""

    text: str
    remedy: str


class NodeStatus(msgspec.Struct):
    """One compute node.

    Attributes:
        host: Its service host.
        node: Its name.
        uuid: Its UUID, which is that of its resource provider.
        cell: The name of its cell.
        zone: Its availability zone.
        aggregates: The names of its aggregates.
        seen: When its service was last seen up, or None.
        updated: When the compute last wrote its row, or None.
        provider: What Placement has of it, or None.
        problems: What keeps requests away.
    """

    host: str
    node: str
    uuid: str
    cell: str
    zone: str
    aggregates: list[str]
    seen: str | None
    updated: str | None
    provider: Provider | None
    problems: list[Problem]


class HostStatus(msgspec.Struct):
    """All nodes of a host at a time."""

    time: str
    nodes: list[NodeStatus]


@dataclass(frozen=True)
class HostStatusReader:
    """Tells the state of single hosts.

    Attributes:
        table: Returns the hosts.
        is_mapped: Whether conductors find a host.
        names: Returns what cells are called.
        down_time: Returns the seconds after which a service that was not seen is down.
        clock: Seconds since the epoch.
    """

    table: Callable[[], HostTable]
    is_mapped: Callable[[str], bool]
    questions: PlacementQuestions
    names: Callable[[], Names]
    down_time: Callable[[], float]
    clock: Callable[[], float] = time.time

    def state(self, name: str) -> HostStatus:
        """Return the state of a host; there may be no node of it.

        Args:
            name: A service host, a node name or the UUID of a node.
        """
        table = self.table()
        rows = table.rows_called(name)[:MOST_NODES]
        return HostStatus(time_text(self.clock()), [self._node(table, row) for row in rows])

    def _node(self, table: HostTable, row: TableRow) -> NodeStatus:
        host, service, names = table.rows[row], table.services[row], self.names()
        aggregates = table.coded["aggregates"][row]
        problems = list(self._problems_of_service(table, row))
        provider = None
        try:
            provider = self.questions.provider(host.uuid)
            problems += _problems_of_provider(provider, aggregates.uuids, disabled=service.disabled)
        except PlacementError as error:
            problems.append(Problem(f"Placement does not tell of it: {error}", "See why Placement is away."))
        return NodeStatus(
            host.host,
            host.nodename,
            host.uuid,
            names.cells.get(host.cell_uuid) or host.cell_uuid,
            aggregates.availability_zone(names.default_zone),
            [each.name for each in aggregates],
            _text(service.last_seen_up),
            _text(host.updated),
            provider,
            problems,
        )

    def _problems_of_service(self, table: HostTable, row: TableRow) -> Iterator[Problem]:
        judge = ServiceUp(self.down_time(), self.clock())
        for _, why, words in out_of_use(table, TableRows(np.array([row])), judge):
            yield Problem(words, REMEDIES_OF_USE[why])
        if not self.is_mapped(table.rows[row].host):
            yield Problem("it is mapped to no cell", REMEDIES[CauseCode.UNCLAIMABLE])


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.replace(tzinfo=UTC).isoformat(timespec="seconds")


def _problems_of_provider(
    provider: Provider | None, aggregates: frozenset[str], *, disabled: bool
) -> Iterator[Problem]:
    if provider is None:
        yield Problem("it has no resource provider in Placement", "See why nova-compute reports none.")
        return
    if DISABLED_TRAIT in provider.traits and not disabled:
        remedy = "Restart nova-compute, which takes the trait away."
        yield Problem(f"it has trait {DISABLED_TRAIT}, though its service is enabled", remedy)
    if missing := aggregates.difference(provider.aggregates):
        remedy = "Run nova-manage placement sync_aggregates."
        yield Problem(f"{len(missing)} of its aggregates are not in Placement", remedy)
    for name in NEEDED:
        if name in provider.inventories:
            inventory, used = provider.inventories[name], provider.used(name)
            if used >= inventory.capacity:
                yield Problem(
                    f"no {name} is free: {used} of {inventory.capacity} are used (total {inventory.total}, "
                    f"reserved {inventory.reserved}, allocation_ratio {inventory.allocation_ratio:g})",
                    "Move instances away, or raise the allocation ratio.",
                )
