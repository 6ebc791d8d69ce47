"""What the API database says about hosts and server groups.

Which cell a host belongs to (spec: host-state-and-cells 2.4), and the members of a server group as they are
now (spec: host-state-and-cells 6.3).
"""

from collections.abc import Callable
import threading
import time

from cachetools import TTLCache
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import OutageLog, brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import cell_mappings, host_mappings, instance_group_member, instance_groups

LOG = logging.getLogger(__name__)

# Seconds for which the cell of a host is remembered: hosts rarely move between cells.
HOST_TTL = 600.0
MAX_HOSTS = 100_000


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
            "The cells of hosts cannot be read from the API database",
            "The cells of hosts can be read from the API database again",
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

    def mapped(self, host: str) -> bool:
        """Tell whether conductors will find the host; yes if the database cannot be read."""
        try:
            return self.cell_of(host) is not None
        except UNREADABLE:
            return True

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
        LOG.warning("The members of server group %s cannot be read: %s", group_uuid, brief(error))
        return []
