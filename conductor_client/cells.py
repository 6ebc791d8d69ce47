"""The mapping of hosts to cells and their message buses.

spec: host-state-and-cells 1.4, 2.2
"""

import dataclasses
from urllib import parse

from oslo_log import log as logging
import sqlalchemy as sa

LOG = logging.getLogger(__name__)

_metadata = sa.MetaData()
_cell_mappings = sa.Table(
    "cell_mappings",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uuid", sa.String(36)),
    sa.Column("name", sa.String(255)),
    sa.Column("transport_url", sa.Text),
)
_host_mappings = sa.Table(
    "host_mappings",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("cell_id", sa.Integer),
    sa.Column("host", sa.String(255)),
)


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
            sa.select(_cell_mappings.c.uuid, _cell_mappings.c.name, _cell_mappings.c.transport_url)
            .join(_host_mappings, _host_mappings.c.cell_id == _cell_mappings.c.id)
            .where(_host_mappings.c.host == host)
        )
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return row and Cell(row.uuid, row.name or row.uuid, expand(row.transport_url, self._reference_url))


def expand(template: str, reference_url: str) -> str:
    """Fill in a URL template as nova does; return it unchanged if that is not possible."""
    try:
        return template.format(**_parts(reference_url))
    except (ValueError, LookupError, AttributeError):
        LOG.error("A cell's transport_url cannot be filled in from [DEFAULT]/transport_url; used as it is")
        return template


def _parts(url: str) -> dict[str, str | int | None]:
    split = parse.urlsplit(url)
    return {
        "scheme": split.scheme,
        "username": split.username,
        "password": split.password,
        "hostname": split.hostname,
        "port": split.port,
        "path": split.path.lstrip("/"),
        "query": split.query,
        "fragment": split.fragment,
    }
