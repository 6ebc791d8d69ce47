"""Which cell a host belongs to (spec: host-state-and-cells 2.4).

Server groups as they are in the API database now (spec: host-state-and-cells 6.3).
"""

import time

from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import OutageLog, brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import cell_mappings, host_mappings, instance_group_member, instance_groups

LOG = logging.getLogger(__name__)

# How long the cell of a host is believed: hosts do move between cells, though rarely.
HOST_TTL = 600.0


class HostCells:
    """Which cell each host is mapped to, remembered for a while once it is known to be mapped."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._known: dict[str, tuple[str, float]] = {}
        self._outage = OutageLog(
            LOG,
            "The cells of hosts cannot be read from the API database",
            "The cells of hosts can be read from the API database again",
        )

    def cell_of(self, host: str, *, fresh: bool = False) -> str | None:
        """The uuid of the host's cell, None if it is in none; ``fresh``: as the database has it now.

        Raises one of ``UNREADABLE`` if that cannot be found out.
        """
        uuid, until = self._known.get(host, (None, 0.0))
        if time.monotonic() < until and not fresh:
            return uuid
        try:
            uuid = self._read(host)
        except UNREADABLE as error:
            self._outage.report_failure(error)
            raise
        self._outage.report_success()
        if uuid is not None:
            self._known[host] = uuid, time.monotonic() + HOST_TTL
        return uuid

    def mapped(self, host: str) -> bool:
        """Whether conductors will find the host; yes if the database cannot be asked."""
        try:
            return self.cell_of(host) is not None
        except UNREADABLE:
            return True

    def forget(self) -> None:
        self._known = {}

    def _read(self, host: str) -> str | None:
        query = (
            sa.select(cell_mappings.c.uuid)
            .join(host_mappings, host_mappings.c.cell_id == cell_mappings.c.id)
            .where(host_mappings.c.host == host)
        )
        with self._engines.api().connect() as connection:
            return connection.execute(query).scalar_one_or_none()


def members_of(engines: Engines, group_uuid: str) -> list[str]:
    """Uuids of all instances that were put in a group, dead ones too; none if that cannot be read."""
    query = (
        sa.select(instance_group_member.c.instance_uuid)
        .join(instance_groups, instance_groups.c.id == instance_group_member.c.group_id)
        .where(instance_groups.c.uuid == group_uuid)
    )
    try:
        with engines.api().connect() as connection:
            return list(connection.execute(query).scalars())
    except UNREADABLE as error:
        LOG.warning("The members of server group %s cannot be read: %s", group_uuid, brief(error))
        return []
