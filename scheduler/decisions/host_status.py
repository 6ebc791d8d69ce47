"""The status of a host as of now in the databases and Placement, and its problems."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
import time

import msgspec
import numpy as np

from scheduler.decisions.constraints import DISABLED_TRAIT
from scheduler.decisions.document import time_text
from scheduler.decisions.failure_cause import CauseCode
from scheduler.decisions.host_verdicts import Names
from scheduler.decisions.hosts_now import MOST_NODES
from scheduler.decisions.providers import PlacementQuestions
from scheduler.decisions.remedies import remedy_of_amount
from scheduler.decisions.why_not import Limit, refusal_of
from scheduler.filters.compute_filter import OutOfUse, ServiceUp, out_of_use
from scheduler.hosts.coordinates import TableRow, TableRows
from scheduler.hosts.rows import HostRow
from scheduler.hosts.table import HostTable
from scheduler.placement.errors import PlacementError
from scheduler.placement.providers import Inventory, ProviderState

#: Classes without which a host takes no instance.
NEEDED = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")

REMEDIES_OF_USE = {
    OutOfUse.DISABLED: CauseCode.DISABLED.remedy,
    OutOfUse.DOWN: CauseCode.COMPUTE_DOWN.remedy,
    OutOfUse.CELL_DISABLED: "Enable the cell: nova-manage cell_v2 update_cell --enable.",
}


class Problem(msgspec.Struct):
    """What keeps every request from a host, and the remedy."""

    text: str
    remedy: str


class Provider(msgspec.Struct):
    """The provider of a compute node: inventories and usages by class, traits, UUIDs of aggregates."""

    inventories: Mapping[str, Inventory]
    usages: Mapping[str, int]
    traits: list[str]
    aggregates: list[str]

    def used(self, resource_class: str) -> int:
        return self.usages.get(resource_class, 0)


class NodeStatus(msgspec.Struct):
    """One compute node.

    Attributes:
        uuid: Its UUID, which is that of its resource provider.
        seen: When its service was last seen up, or None.
        updated: When the compute last wrote its row, or None.
        provider: Its resource provider in Placement, or None.
        problems: What keeps every request away.
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
    """Reads the status of single hosts.

    Attributes:
        is_mapped: Whether a host has a host mapping.
        down_time: Seconds without a heartbeat after which a service is down.
        clock: Seconds since the epoch.
    """

    table: Callable[[], HostTable]
    is_mapped: Callable[[str], bool]
    questions: PlacementQuestions
    names: Callable[[], Names]
    down_time: Callable[[], float]
    clock: Callable[[], float] = time.time

    def status(self, name: str) -> HostStatus:
        """Return the status of a service host, a node name or the UUID of a node; it may have no node."""
        table = self.table()
        nodes = [self._node(table, row) for row in table.rows_called(name)[:MOST_NODES]]
        lost = (row for row in table.without_service.values() if name in (row.host, row.nodename, row.uuid))
        nodes += map(self._without_service, islice(lost, MOST_NODES))
        return HostStatus(time_text(self.clock()), nodes)

    def _without_service(self, host: HostRow) -> NodeStatus:
        names = self.names()
        cell, zone = names.cells.get(host.cell_uuid) or host.cell_uuid, names.default_zone
        problem = Problem("it has no compute service record", "Restart nova-compute, which makes it again.")
        place = host.host, host.nodename, host.uuid, cell, zone
        return NodeStatus(*place, [], None, _text(host.updated), None, [problem])

    def _node(self, table: HostTable, row: TableRow) -> NodeStatus:
        host, service, names = table.rows[row], table.services[row], self.names()
        aggregates = table.coded["aggregates"][row]
        problems = list(self._problems_of_service(table, row))
        provider = None
        try:
            if found := self.questions.provider(host.uuid):
                traits, members = sorted(found.traits), sorted(found.aggregates)
                provider = Provider(found.inventories, found.used, traits, members)
            problems += _problems_of_provider(found, aggregates.uuids, disabled=service.disabled)
        except PlacementError as error:
            problems.append(
                Problem(f"Placement gives no answer: {error}", "Find out why Placement is unavailable.")
            )
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
            yield Problem("it is mapped to no cell", CauseCode.UNCLAIMABLE.remedy)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.replace(tzinfo=UTC).isoformat(timespec="seconds")


def _problems_of_provider(
    found: ProviderState | None, aggregates: frozenset[str], *, disabled: bool
) -> Iterator[Problem]:
    if found is None:
        yield Problem(
            "it has no resource provider in Placement", "Find out why nova-compute does not report it."
        )
        return
    if DISABLED_TRAIT in found.traits and not disabled:
        remedy = "Restart nova-compute, which removes the trait."
        yield Problem(f"it has trait {DISABLED_TRAIT}, though its service is enabled", remedy)
    if missing := aggregates.difference(found.aggregates):
        remedy = "Run nova-manage placement sync_aggregates."
        yield Problem(f"{len(missing)} of its aggregates missing in Placement", remedy)
    for name in NEEDED:
        if inventory := found.inventories.get(name):
            reason = refusal_of(found, name, max(1, inventory.min_unit, inventory.step_size))
            if reason and reason.limit in {Limit.FREE, Limit.CAPACITY}:
                amounts = (
                    f"{found.used.get(name, 0)} of {inventory.capacity} are used (total {inventory.total}, "
                    f"reserved {inventory.reserved}, allocation_ratio {inventory.allocation_ratio:g})"
                )
                yield Problem(f"{reason.text}: {amounts}", remedy_of_amount(name, reason))
