"""What the API database says about hosts, server groups and instances.

Which cells the known hosts are mapped to (spec: host-state-and-cells 2.4) is read in the background by
``ApiReader``, since it is needed while hosts are chosen. The members of a server group as they are now
(spec: host-state-and-cells 6.3) are read when a request needs them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import time

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from scheduler.logs import RateLimitedLogger, brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import (
    cell_mappings,
    checksum,
    host_mappings,
    instance_group_member,
    instance_groups,
    instance_mappings,
    rows_with,
)

LOG = logging.getLogger(f"nova.{__name__}")
_REPEATED = RateLimitedLogger(LOG)

# Seconds after which a host that is still mapped to no cell is reported again.
REPORT_INTERVAL = 86400.0

_MAPPING = host_mappings.c.id, host_mappings.c.host, host_mappings.c.cell_id


class HostMappings:
    """The cells that the known hosts are mapped to.

    A host whose mapping was not read yet, or cannot be read, counts as mapped.

    Attributes:
        unmapped: The hosts that are mapped to none.
    """

    def __init__(self, engines: Engines, clock: Callable[[], float] = time.monotonic) -> None:
        self._engines = engines
        self._hosts: frozenset[str] = frozenset()
        self._cells: Mapping[str, str] = {}  # uuid by host
        self.unmapped: frozenset[str] = frozenset()
        self._checksum: tuple[int, int] | None = None
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)

    def follow(self, hosts: Iterable[str]) -> bool:
        """Keep the mappings of these service hosts from the next reading on; return if they are others."""
        before, self._hosts = self._hosts, frozenset(hosts)
        return self._hosts != before

    def __contains__(self, host: str) -> bool:
        """Return whether a host is mapped. Nothing is read."""
        return host not in self.unmapped

    def cell_of(self, host: str, *, fresh: bool = False) -> str | None:
        """Return the uuid of a host's cell; None if the host is mapped to none, or that cannot be read.

        Args:
            host: The name of the service host; one whose mapping is not known is read now.
            fresh: Read it, even if its mapping is known.
        """
        cell = None if fresh else self._cells.get(host)
        if cell is not None:
            return cell
        try:
            with self._engines.api_connection() as connection:
                cell_uuid = _cells_of(connection, [host]).get(host)
        except UNREADABLE as error:
            _REPEATED.warning("mappings", "Cannot read the host mappings: %s", brief(error))
            return None
        if cell_uuid is None and not fresh:
            self._reports.info(("search", host), "Host %s has no host mapping; searching all cells", host)
        return cell_uuid

    def load(self) -> None:
        """Read all mappings if some have changed, else those that are not known; may raise ``UNREADABLE``."""
        hosts = self._hosts
        with self._engines.api_connection() as connection:
            total = checksum(connection, *_MAPPING)
            kept = self._cells if total == self._checksum else {}
            read = _cells_of(connection, hosts.difference(kept))
        self._checksum = total
        self._cells = {host: cell for host, cell in kept.items() if host in hosts} | read
        self.unmapped = hosts.difference(self._cells)
        for host in self.unmapped:
            self._reports.warning(host, "Host %s has no host mapping and gets no instances", host)


_CELLS = sa.select(host_mappings.c.host, cell_mappings.c.uuid).join(
    cell_mappings, host_mappings.c.cell_id == cell_mappings.c.id
)


def _cells_of(connection: Connection, hosts: Collection[str]) -> dict[str, str]:
    """Return the uuid of the cell of each of these hosts that is mapped to one."""
    rows = rows_with(connection, _CELLS, host_mappings.c.host, hosts)
    cells = {row.host.lower(): row.uuid for row in rows}
    # MySQL finds names without regard to case, for conductors too
    return {host: cells[host.lower()] for host in hosts if host.lower() in cells}


def all_mapped(engines: Engines) -> list[tuple[str, str]]:
    """Return each service host that is mapped to a cell, with the uuid of the cell; none if unreadable."""
    try:
        with engines.api_connection() as connection:
            return [(row.host, row.uuid) for row in connection.execute(_CELLS)]
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
        text = "Cannot read the members of server group %s: %s"
        _REPEATED.warning(group_uuid, text, group_uuid, brief(error))
        return []


def deleted_among(engines: Engines, instance_uuids: Collection[str]) -> set[str]:
    """Return those instances that were deleted; none if that cannot be read.

    They are as soon as their user has requested it.
    A database without any instance is not nova's: nothing is deleted there.
    """
    columns = instance_mappings.c
    try:
        with engines.api_connection() as connection:
            if connection.execute(sa.select(columns.id).limit(1)).first() is None:
                return set()
            query = sa.select(columns.instance_uuid).where(columns.queued_for_delete.isnot(True))
            rows = rows_with(connection, query, columns.instance_uuid, instance_uuids)
            there = {row.instance_uuid for row in rows}
    except UNREADABLE as error:
        LOG.debug("Cannot read which instances are deleted: %s", brief(error))  # others report the outage
        return set()
    return set(instance_uuids) - there
