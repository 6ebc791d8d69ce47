"""The cells: which there are, and the URLs of their databases.

A URL may be a template of the URL of the local database (spec: host-state-and-cells 2.1, 2.2).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from oslo_config import cfg
from oslo_db import exception as db
from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from scheduler.bounds.circuit_breaker import CircuitOpen
from scheduler.errors import ConfigError
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import cell_mappings, rows_with

LOG = logging.getLogger(f"nova.{__name__}")

CELL0 = "00000000-0000-0000-0000-000000000000"

# The errors of a database that is away or left out; ConfigError if its URL cannot be used.
UNREADABLE = (db.DBError, sa.exc.SQLAlchemyError, CircuitOpen, ConfigError, OSError)


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of ``cell_mappings``.

    Attributes:
        id: Its id in the API database.
        uuid: The uuid of the cell.
        name: The name of the cell.
        url: The URL of its database, expanded if it was a template; None without one.
        enabled: Whether the cell takes part in searches that name no cell.
    """

    id: int
    uuid: str
    name: str | None
    url: str | None
    enabled: bool

    def __str__(self) -> str:
        return f"{self.name or 'unnamed'} ({self.uuid})"


class Cells:
    """The cells of the deployment as last read.

    Attributes:
        all: Those that can have computes, in order of id: all but cell0, disabled ones too.
    """

    def __init__(self, engines: Engines, conf: cfg.ConfigOpts) -> None:
        self._engines = engines
        self._conf = conf
        self._loaded = False
        self.all: tuple[Cell, ...] = ()

    @property
    def disabled(self) -> frozenset[str]:
        """The uuids of the cells that take no part in searches that name no cell."""
        return frozenset(cell.uuid for cell in self.all if not cell.enabled)

    def knows(self, uuid: str) -> bool:
        """Return whether the last list has this cell."""
        return any(cell.uuid == uuid for cell in self.all)

    def engine(self, cell: Cell) -> Engine:
        """Return the engine of a cell.

        Raises:
            ConfigError: The cell's URL cannot be used.
        """
        if cell.url is None:
            raise ConfigError(f"Cell {cell} has no database connection")
        return self._engines.cell(cell.uuid, cell.url)

    def rows_with(
        self, cell: Cell, query: sa.Select, column: sa.ColumnElement, values: Iterable[Any]
    ) -> list[sa.Row]:
        """Return the rows of a cell in which a column has one of many values."""
        with self.engine(cell).connect() as connection:
            return rows_with(connection, query, column, values)

    def load(self) -> None:
        """Read the list again.

        Raises:
            UNREADABLE: It cannot be read; the last one stays in use.
        """
        with self._engines.api_connection() as connection:
            cells = read_cells(connection, self._conf.database.connection)
        with_computes = tuple(cell for cell in cells if cell.uuid != CELL0)
        log_changes(self.all, with_computes, first=not self._loaded)
        self.all = with_computes
        self._loaded = True
        self._engines.keep_cells((cell.uuid, cell.url) for cell in with_computes)


def log_changes(before: Iterable[Cell], now: Iterable[Cell], *, first: bool) -> None:
    """Log which cells are disabled, were enabled again, added or deleted; and if none has computes.

    Args:
        before: The cells as last read.
        first: Whether no list was read before, so that no cell counts as added.
    """
    old = {cell.uuid: cell for cell in before}
    new = {cell.uuid: cell for cell in now}
    for uuid, cell in new.items():
        was = old.get(uuid)
        if not first and was is None:
            LOG.info("Cell %s was added", cell)
        if not cell.enabled and (was is None or was.enabled):
            LOG.warning("Cell %s is disabled: only requests that name it get its hosts", cell)
        elif cell.enabled and was is not None and not was.enabled:
            LOG.info("Cell %s is enabled again", cell)
    for uuid in old.keys() - new.keys():
        LOG.warning("Cell %s was deleted: its hosts are no longer used", old[uuid])
    if not new and (old or first):
        LOG.warning("No cells except cell0: no host can be found")


def read_cells(connection: Connection, reference: str | None) -> tuple[Cell, ...]:
    """Return all cells in order of id, with cell0."""
    columns = cell_mappings.c
    query = sa.select(
        columns.id, columns.uuid, columns.name, columns.database_connection, columns.disabled
    ).order_by(columns.id)
    cells = []
    for row in connection.execute(query):
        url = row.database_connection
        if url is not None:
            url = expand_template(url, reference, row.name or row.uuid)
        cells.append(Cell(row.id, row.uuid, row.name, url, not row.disabled))
    return tuple(cells)


def expand_template(text: str, reference: str | None, where: str) -> str:
    """Expand the URL of a cell's database.

    Args:
        text: A URL, or a template of one.
        reference: The URL of the local database, whose parts the template names.
        where: The cell, for log lines. They never show the URL, which may have a password.

    Returns:
        ``text`` itself if it cannot be expanded.
    """
    if not reference:
        if "{" in text:
            LOG.error(
                "The database URL of cell %s is a template, but [database]/connection is not set", where
            )
        return text
    try:
        return text.format(**template_fields(reference))
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        reason = (
            f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else type(error).__name__
        )
        LOG.error("The database URL of cell %s cannot be formatted and is used as it is: %s", where, reason)
        return text


_OF_SERVER = ("username", "password", "hostname", "port")


def template_fields(reference: str) -> dict[str, object]:
    """Return the fields that a template may name.

    Raises:
        ValueError: The URL cannot be split.
    """
    url = urlsplit(reference)
    fields: dict[str, object] = {name: getattr(url, name) for name in ("scheme", *_OF_SERVER)}
    fields |= {"path": url.path.lstrip("/"), "query": url.query, "fragment": url.fragment}
    servers = url.netloc.split(",") if "," in url.netloc else ()
    for number, server in enumerate(servers, 1):
        url = urlsplit(f"//{server}")
        fields |= {f"{name}{number}": getattr(url, name) for name in _OF_SERVER}
        fields[f"username{number}"] = url.username or ""
    return fields
