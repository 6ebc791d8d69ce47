"""The builds that conductors have given up: their instances are in the database of cell0.

The time in their rows is that of the user's request (spec: host-state-and-cells 2.1), so the order in which
they were given up is that of their ids.
"""

from collections.abc import Callable, Collection
from datetime import timedelta

from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import OutageLog
from scheduler.nova_db.cells import CELL0, UNREADABLE, read_cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import instances, utcnow

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two readings.
INTERVAL = 60.0

#: Instances that are read at once.
MOST = 1000

#: Seconds since the user's request for which a build counts that was given up before the first reading. A
#: conductor waits for half an hour, and another scheduler may have been the first until now.
LOOKBACK = 3600.0


class BuriedBuilds:
    """Reads them, each once. Of the schedulers that share a [database] only the first one does so."""

    def __init__(self, conf: cfg.ConfigOpts, engines: Engines, leads: Callable[[], bool]) -> None:
        """Set up; nothing is read yet.

        Args:
            leads: Returns whether this scheduler is the first one; see ``OwnService``.
        """
        self._conf = conf
        self._engines = engines
        self._leads = leads
        self._read: dict[str, int] = {}
        self._after = self._last = 0
        self._outage = OutageLog(LOG, "Cannot read the builds in cell0", "Builds in cell0 are read again")

    def read_new(self) -> Collection[str]:
        """Return the UUIDs of the builds that were given up since the last call.

        There are none for a scheduler that is not the first. Databases that cannot be read are logged.
        """
        try:
            if not self._leads():
                self._read, self._after, self._last = {}, 0, 0
                return ()
            rows = self._rows()
        except UNREADABLE as error:
            self._outage.report_failure(error)
            return ()
        self._outage.report_success()
        new = rows.keys() - self._read.keys()
        # What is new here is read once more: a row may be committed after others with higher ids.
        self._after, self._last = self._last, max(rows.values(), default=self._last)
        self._read = rows
        return new

    def _rows(self) -> dict[str, int]:
        """Return the ids of the latest builds, by UUID."""
        with self._engines.api_connection() as connection:
            found = read_cells(connection, self._conf.database.connection)
        cell0 = next((cell for cell in found if cell.uuid == CELL0), None)
        if cell0 is None or cell0.url is None:
            return {}
        columns = instances.c
        query = sa.select(columns.uuid, columns.id).where(columns.deleted == 0, columns.host.is_(None))
        if self._after:
            query = query.where(columns.id > self._after)
        else:
            query = query.where(columns.created_at > utcnow() - timedelta(seconds=LOOKBACK))
        with self._engines.cell(cell0.uuid, cell0.url).connect() as connection:
            return {row.uuid: row.id for row in connection.execute(query.order_by(columns.id).limit(MOST))}
