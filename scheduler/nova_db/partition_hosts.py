"""Which hosts belong to the partition that this scheduler serves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oslo_log import log as logging

from scheduler.conf.partitions import Partition
from scheduler.hosts.aggregates import Aggregates
from scheduler.logs import RateLimitedLogger
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.host_mappings import all_mapped

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
        """Find the hosts of a partition.

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
        """All aggregates as last known, also those outside the partition."""
        return self._aggregates()

    def has_cell(self, cell: Cell) -> bool:
        """Return whether hosts of a cell may belong to it."""
        return (
            self._partition is None
            or not self._partition.cells
            or bool({cell.uuid, cell.name}.intersection(self._partition.cells))
        )

    def has_host(self, host: str, cell: Cell | None) -> bool:
        """Return whether a service host of a cell belongs to it; a host of an unknown cell may."""
        names = self.names()
        return (names is None or host in names) and (cell is None or self.has_cell(cell))

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


def hosts_without_partition(
    partitions: Iterable[Partition], engines: Engines, cells: Cells, aggregates: Callable[[], Aggregates]
) -> list[str]:
    """Return the service hosts that belong to none of the partitions, in order; they are read now."""
    members = [PartitionHosts(each, aggregates) for each in partitions]
    by_uuid = {cell.uuid: cell for cell in cells.all}
    return sorted(
        host
        for host, cell_uuid in all_mapped(engines)
        if not any(each.has_host(host, by_uuid.get(cell_uuid)) for each in members)
    )
