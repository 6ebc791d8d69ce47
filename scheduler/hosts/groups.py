"""Server groups as they are in the API database now (spec: host-state-and-cells 6.3)."""

from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts.cells import UNREADABLE
from scheduler.hosts.engines import Engines
from scheduler.hosts.tables import instance_group_member, instance_groups
from scheduler.outages import brief

LOG = logging.getLogger(__name__)


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
