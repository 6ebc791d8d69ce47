"""Which hosts belong to the partition that this scheduler serves."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from oslo_log import log as logging

from scheduler.conf.partitions import Partition
from scheduler.hosts.aggregates import Aggregates
from scheduler.logs import RateLimitedLogger
from scheduler.nova_db.cells import Cell

LOG = logging.getLogger(__name__)

# Seconds after which an aggregate that is still missing is reported again.
REPORT_INTERVAL = 3600.0


@dataclass(frozen=True, slots=True)
class _Members:
    """What the aggregates of a partition contain.

    Attributes:
        source: The aggregates that this was worked out from.
        hosts: Names of service hosts.
        uuids: The uuids of the aggregates.
    """

    source: Aggregates
    hosts: frozenset[str]
    uuids: frozenset[str]


class PartitionHosts:
    """The hosts of one partition, as aggregates and cells are now. Any thread may use it."""

    def __init__(self, partition: Partition | None, aggregates: Callable[[], Aggregates]) -> None:
        """Tell the hosts of a partition.

        Args:
            partition: The partition; None: all hosts.
            aggregates: Returns all aggregates as last known.
        """
        self._partition = partition
        self._aggregates = aggregates
        self._members: _Members | None = None
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL)

    @property
    def name(self) -> str:
        """The name of the partition; "" for all hosts."""
        return self._partition.name if self._partition else ""

    @property
    def all_aggregates(self) -> Aggregates:
        """All aggregates as last known, be they of the partition or not."""
        return self._aggregates()

    def has_cell(self, cell: Cell) -> bool:
        """Return whether hosts of a cell may belong to it."""
        return self._partition is None or in_cells(self._partition, cell.uuid, cell.name)

    def names(self) -> frozenset[str] | None:
        """Return the names of its service hosts; None: all hosts of its cells.

        It is the same object until one comes or goes.
        """
        members = self._current()
        return None if members is None else members.hosts

    def aggregates(self) -> frozenset[str] | None:
        """Return the uuids of its aggregates, the same as in Placement; None: it is not by aggregates."""
        members = self._current()
        return None if members is None else members.uuids

    def _current(self) -> _Members | None:
        partition = self._partition
        if partition is None or not partition.aggregates:
            return None
        source, known = self._aggregates(), self._members
        if known is None or known.source is not source:
            found = source.named(partition.aggregates)
            hosts = frozenset().union(*(aggregate.hosts for aggregate in found))
            if known is not None and known.hosts == hosts:
                hosts = known.hosts
            known = self._members = _Members(source, hosts, frozenset(each.uuid or "" for each in found))
            self._report_missing(partition, source)
        return known

    def _report_missing(self, partition: Partition, source: Aggregates) -> None:
        for name in partition.aggregates:
            if source.by_id and not source.named([name]):
                self._reports.warning(
                    name, "Aggregate %s of partition %s does not exist", name, partition.name
                )


class PartitionMap:
    """Which partitions have a host or a cell, as far as is known. Any thread may use it."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        aggregates: Callable[[], Aggregates],
        cell_of: Callable[[str], str | None],
        cell_names: Callable[[], Mapping[str, str | None]],
    ) -> None:
        """Look hosts up.

        Args:
            partitions: All partitions.
            aggregates: Returns all aggregates as last known.
            cell_of: Returns the uuid of the cell that a host is mapped to; None if that is not known.
            cell_names: Returns the names of all cells by uuid.
        """
        self._partitions = {each.name: (each, PartitionHosts(each, aggregates)) for each in partitions}
        self._cell_of = cell_of
        self._cell_names = cell_names

    def has_host(self, partition: str, host: str) -> bool | None:
        """Return whether a partition has a service host; None if that is not known."""
        described, hosts = self._partitions[partition]
        names = hosts.names()
        if names is not None and host not in names:
            return False
        if not described.cells:
            return True
        cell_uuid = self._cell_of(host)
        return None if cell_uuid is None else self.has_cell(partition, cell_uuid)

    def without(self, hosts: Iterable[tuple[str, str]]) -> list[str]:
        """Return those of some hosts that belong to no partition.

        Args:
            hosts: The name of each, and the uuid of its cell.
        """
        members = {name: known.names() for name, (_, known) in self._partitions.items()}
        return [
            host
            for host, cell_uuid in hosts
            if not any(
                (names is None or host in names) and self.has_cell(name, cell_uuid) is not False
                for name, names in members.items()
            )
        ]

    def has_cell(self, partition: str, cell_uuid: str) -> bool | None:
        """Return whether a partition may have hosts of a cell; None if that is not known."""
        described, _ = self._partitions[partition]
        if not described.cells:
            return None
        return in_cells(described, cell_uuid, self._cell_names().get(cell_uuid))


def in_cells(partition: Partition, uuid: str, name: str | None) -> bool:
    """Return whether a partition may have hosts of a cell."""
    return not partition.cells or uuid in partition.cells or name in partition.cells
