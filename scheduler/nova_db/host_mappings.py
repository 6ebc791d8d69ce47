"""What the API database says about hosts, server groups and instances.

Whether hosts are mapped to cells is read in the background, since it is asked while hosts are chosen. Which
cell a host belongs to (spec: host-state-and-cells 2.4), and the members of a server group as they are now
(spec: host-state-and-cells 6.3), are read when a request needs them.
"""

from collections.abc import Callable, Collection, Iterable
import threading
import time

from cachetools import TTLCache
from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.background import BackgroundLoop
from scheduler.logs import OutageLog, RateLimitedLogger, brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.row_hashes import checksum
from scheduler.nova_db.schema import (
    cell_mappings,
    chunks,
    host_mappings,
    instance_group_member,
    instance_groups,
    instance_mappings,
)

LOG = logging.getLogger(__name__)

# Seconds for which the cell of a host is remembered: hosts rarely move between cells.
HOST_TTL = 600.0
MAX_HOSTS = 100_000


# Seconds between two looks whether mappings have changed, and readings of hosts that were mapped to no cell.
ALL_INTERVAL = 60.0
UNMAPPED_INTERVAL = 5.0

# Seconds after which a host that is still mapped to no cell is reported again.
REPORT_INTERVAL = 86400.0

_MAPPING = host_mappings.c.id, host_mappings.c.host, host_mappings.c.cell_id


class MappedHosts:
    """Which of the known hosts are mapped to a cell: a set in memory that a background loop keeps.

    A host whose mapping was not read yet, or cannot be read, counts as mapped.
    """

    def __init__(self, engines: Engines, clock: Callable[[], float] = time.monotonic) -> None:
        self._engines = engines
        self._clock = clock
        self._hosts: frozenset[str] = frozenset()
        self._mapped: frozenset[str] = frozenset()
        self._unmapped: frozenset[str] = frozenset()
        self._all_due = float("-inf")
        self._checksum: tuple[int, int] | None = None
        self._loop = BackgroundLoop("host-mappings", self.refresh)
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)
        self._outage = OutageLog(
            LOG,
            "Cannot read the host mappings from the API database",
            "Host mappings are read from the API database again",
            clock,
        )

    def start(self) -> None:
        """Start the background loop."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the background loop."""
        self._loop.stop()

    def follow(self, hosts: Iterable[str]) -> None:
        """Keep the mappings of these service hosts, in place of those before."""
        known = frozenset(hosts)
        if known != self._hosts:
            self._hosts = known
            self._loop.wake()

    def clear(self) -> None:
        """Read all mappings again now."""
        self._all_due, self._checksum = float("-inf"), None
        self._loop.wake()

    def __contains__(self, host: str) -> bool:
        """Tell whether a host is mapped. Nothing is read."""
        return host not in self._unmapped

    def refresh(self) -> float:
        """Read the mappings that are due; return the seconds until the next reading."""
        hosts, due = self._hosts, self._clock() >= self._all_due
        try:
            with self._engines.api_connection() as connection:
                total = checksum(connection, *_MAPPING) if due else self._checksum
                everything = total != self._checksum
                found = _mapped_among(connection, hosts if everything else hosts - self._mapped)
        except UNREADABLE as error:
            self._outage.report_failure(error)
            return UNMAPPED_INTERVAL
        self._outage.report_success()
        if due:
            self._all_due = self._clock() + ALL_INTERVAL
        self._checksum = total
        self._mapped = found if everything else (self._mapped | found) & hosts
        self._unmapped = hosts - self._mapped
        for host in self._unmapped:
            self._reports.warning(host, "Host %s has no host mapping and gets no instances", host)
        return UNMAPPED_INTERVAL if self._unmapped else ALL_INTERVAL


def _mapped_among(connection: Connection, hosts: frozenset[str]) -> frozenset[str]:
    """Return which of these hosts are mapped."""
    column = host_mappings.c.host
    pieces = [connection.execute(sa.select(column).where(column.in_(each))) for each in chunks(hosts)]
    found = {host.lower() for piece in pieces for host in piece.scalars()}
    # MySQL finds names without regard to case, for conductors too
    return frozenset(host for host in hosts if host.lower() in found)


class HostCells:
    """Which cell each host is mapped to. A mapping is remembered, its absence is not."""

    def __init__(
        self,
        engines: Engines,
        clock: Callable[[], float] = time.monotonic,
        max_hosts: int = MAX_HOSTS,
    ) -> None:
        self._engines = engines
        self._lock = threading.Lock()
        self._cells: TTLCache[str, str] = TTLCache(max_hosts, HOST_TTL, clock)
        self._outage = OutageLog(
            LOG,
            "Cannot read the cells of hosts from the API database",
            "Cells of hosts are read from the API database again",
        )

    def cell_of(self, host: str, *, fresh: bool = False) -> str | None:
        """Return the uuid of the host's cell; None if the host is mapped to none.

        Args:
            host: The name of the service host.
            fresh: Read the database, even if the cell is remembered.

        Raises:
            DBError: Or another one of ``UNREADABLE``: the database cannot be read.
        """
        with self._lock:
            uuid = None if fresh else self._cells.get(host)
        if uuid is not None:
            return uuid
        try:
            uuid = self._read(host)
        except UNREADABLE as error:
            self._outage.report_failure(error)
            raise
        self._outage.report_success()
        if uuid is not None:
            with self._lock:
                self._cells[host] = uuid
        return uuid

    def clear(self) -> None:
        """Read the mappings of all hosts again."""
        with self._lock:
            self._cells.clear()

    def _read(self, host: str) -> str | None:
        query = (
            sa.select(cell_mappings.c.uuid)
            .join(host_mappings, host_mappings.c.cell_id == cell_mappings.c.id)
            .where(host_mappings.c.host == host)
        )
        with self._engines.api_connection() as connection:
            return connection.execute(query).scalar_one_or_none()


def all_mapped(engines: Engines) -> list[tuple[str, str]]:
    """Return each service host that is mapped to a cell, with the uuid of the cell; none if unreadable."""
    query = sa.select(host_mappings.c.host, cell_mappings.c.uuid).join(
        cell_mappings, host_mappings.c.cell_id == cell_mappings.c.id
    )
    try:
        with engines.api_connection() as connection:
            return [(row.host, row.uuid) for row in connection.execute(query)]
    except UNREADABLE as error:
        LOG.warning("Cannot read the host mappings: %s", brief(error))
        return []


def members_of(engines: Engines, group_uuid: str) -> list[str]:
    """Return the uuids of all instances that were put in a group; deleted ones too.

    None are returned if they cannot be read; this is logged.
    """
    query = (
        sa.select(instance_group_member.c.instance_uuid)
        .join(instance_groups, instance_groups.c.id == instance_group_member.c.group_id)
        .where(instance_groups.c.uuid == group_uuid)
    )
    try:
        with engines.api_connection() as connection:
            return list(connection.execute(query).scalars())
    except UNREADABLE as error:
        LOG.warning("Cannot read the members of server group %s: %s", group_uuid, brief(error))
        return []


def deleted_among(engines: Engines, instance_uuids: Collection[str]) -> set[str]:
    """Return those instances that were deleted; none if that cannot be read.

    They are as soon as their user has asked for that.
    A database without any instance is not nova's: nothing is deleted there.
    """
    columns = instance_mappings.c
    try:
        with engines.api_connection() as connection:
            if connection.execute(sa.select(columns.id).limit(1)).first() is None:
                return set()
            queries = (
                sa.select(columns.instance_uuid).where(
                    columns.instance_uuid.in_(each), columns.queued_for_delete.isnot(True)
                )
                for each in chunks(instance_uuids)
            )
            there = {uuid for query in queries for uuid in connection.execute(query).scalars()}
    except UNREADABLE as error:
        LOG.debug("Cannot read which instances are deleted: %s", brief(error))  # others report the outage
        return set()
    return set(instance_uuids) - there
