"""The mapping of hosts to cells and their message buses.

spec: host-state-and-cells 1.4, 2.2
"""

from collections.abc import Callable
import dataclasses
from functools import cache

from oslo_log import log as logging
import oslo_messaging as messaging
import sqlalchemy as sa

from conductor_client import journal
from conductor_client.bus import Bus
from scheduler.nova_db.cells import template_fields
from scheduler.nova_db.schema import cell_mappings, host_mappings

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell; ``transport_url`` is that of its own bus, with a password in it."""

    uuid: str
    name: str
    transport_url: str = dataclasses.field(repr=False)


class CellMap:
    """nova's mapping of hosts to cells."""

    def __init__(self, engine: sa.Engine, reference_url: str) -> None:
        """Read the mapping from a database.

        Args:
            reference_url: The URL from which templates in ``cell_mappings.transport_url`` are filled in.
        """
        self._engine = engine
        self._reference_url = reference_url

    def of_host(self, host: str) -> Cell | None:
        """Return the Cell of a service host, or None if it is in no cell."""
        query = (
            sa.select(cell_mappings.c.uuid, cell_mappings.c.name, cell_mappings.c.transport_url)
            .join(host_mappings, host_mappings.c.cell_id == cell_mappings.c.id)
            .where(host_mappings.c.host == host)
        )
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return row and Cell(row.uuid, row.name or row.uuid, expand(row.transport_url, self._reference_url))


def expand(template: str, reference_url: str) -> str:
    """Fill in a URL template as nova does; return it unchanged if that is not possible."""
    try:
        return template.format(**template_fields(reference_url))
    except (ValueError, LookupError, AttributeError):
        LOG.error("A cell's transport_url cannot be filled in from [DEFAULT]/transport_url; used as it is")
        return template


def client_of_each_cell(open_bus: Callable[[Cell], Bus], topic: str) -> Callable[[Cell], messaging.RPCClient]:
    """Return what has the RPC clients of a topic on the cells' own buses, each opened at its first use."""

    @cache
    def client(cell: Cell) -> messaging.RPCClient:
        return open_bus(cell).client(topic, journal.VERSION)

    return client
