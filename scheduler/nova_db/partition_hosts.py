"""Which hosts belong to the partition that this scheduler serves."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from oslo_log import log as logging

from scheduler.conf.partitions import Partition
from scheduler.hosts.aggregates import Aggregates
from scheduler.logs import RateLimitedLogger
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.host_mappings import all_mapped

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds after which an aggregate that is still missing is reported again.
REPORT_INTERVAL = 3600.0


class PartitionHosts:
    """The hosts of one partition, as aggregates and cells are now. Any thread may use it."""

    def __init__(self, partition: Partition | None, aggregates: Callable[[], Aggregates]) -> None:
        """Find the hosts of a partition.

        Args:
            partition: The partition; None: all hosts.
            aggregates: Returns all aggregates as last known.
        """
        self._partition = partition
        self._names = partition.aggregates if partition else ()
        self._aggregates = aggregates
        self._last_members = lru_cache(maxsize=1)(self._members_of)
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
        """Return the names of its service hosts; None: all hosts of its cells."""
        return self._members()[0]

    def aggregates(self) -> frozenset[str] | None:
        """Return the uuids of its aggregates, the same as in Placement; None: it is not by aggregates."""
        return self._members()[1]

    def _members(self) -> tuple[frozenset[str] | None, frozenset[str] | None]:
        return self._last_members(self._aggregates()) if self._names else (None, None)

    def _members_of(self, source: Aggregates) -> tuple[frozenset[str], frozenset[str]]:
        for name in self._names:
            if source.by_id and not source.named([name]):
                self._reports.warning(name, "Aggregate %s of partition %s does not exist", name, self.name)
        aggregates = source.named(self._names)
        hosts = frozenset(host for aggregate in aggregates for host in aggregate.hosts)
        return hosts, frozenset(aggregate.uuid or "" for aggregate in aggregates)


def hosts_without_partition(
    partitions: Iterable[Partition], engines: Engines, cells: Cells, aggregates: Callable[[], Aggregates]
) -> list[str]:
    """Return the service hosts that belong to none of the partitions, in order; they are read now."""
    members = [PartitionHosts(partition, aggregates) for partition in partitions]
    by_uuid = {cell.uuid: cell for cell in cells.all}
    return sorted(
        host
        for host, cell_uuid in all_mapped(engines)
        if not any(partition.has_host(host, by_uuid.get(cell_uuid)) for partition in members)
    )
