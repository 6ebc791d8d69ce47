"""The scheduler's own row among nova's services (spec: host-state-and-cells 4.4, 4.5)."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from oslo_config import cfg
from oslo_db import api as db_api
from oslo_db.exception import DBDuplicateEntry
from oslo_log import log as logging
from oslo_utils import uuidutils
import sqlalchemy as sa

from scheduler import conf as options
from scheduler.logs import OutageLog
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import OLDEST_SUPPORTED, services, utcnow

LOG = logging.getLogger(f"nova.{__name__}")

BINARY = "nova-scheduler"
TOPIC = "scheduler"

# Seconds from start to the first heartbeat.
FIRST_BEAT = 5.0

_live = (services.c.deleted == 0) & (services.c.binary == BINARY)
_retry = db_api.wrap_db_retry(max_retries=5, retry_interval=0.1, retry_on_deadlock=True)


class OwnService:
    """Registers [DEFAULT]/host as a nova-scheduler and writes its heartbeats. A daemon has one."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        engines: Engines,
        created: Callable[[Mapping[str, Any]], None] = lambda _row: None,
    ) -> None:
        """Set up the record; nothing is written yet.

        Args:
            engines: The engines of all databases; the local one has the record.
            created: Called with the columns of a row that had to be created.
        """
        self._created = created
        self._host, self._down_time = conf.host, options.service_down_time(conf)
        self._engines = engines
        self._id: int | None = None
        self._deleted = False
        self._outage = OutageLog(
            LOG, "Cannot write the heartbeat of this service", "Heartbeat of this service is written again"
        )

    def beat(self) -> None:
        """Register at the first call, write a heartbeat at each later one.

        An unavailable database is logged; the next call tries again.
        """
        try:
            if self._id is None:
                self._id = self._register()
            elif not self._deleted:
                self._deleted = not self._beat()
        except UNREADABLE as error:
            self._outage.report_failure(error)
        else:
            self._outage.report_success()

    def leads(self) -> bool:
        """Return whether this host's name is the first among the schedulers that are enabled and up.

        Raises:
            UNREADABLE: The database cannot be read.
        """
        usable = (services.c.disabled.is_not(True), services.c.forced_down.is_not(True))
        return live_schedulers(self._engines, self._down_time, *usable)[:1] == [self._host]

    def _register(self) -> int | None:
        """Reuse the row of this host, or create one; return its id."""
        found = self._find()
        if found is not None:
            LOG.info("Service record of %s on %s found with id %d", BINARY, self._host, found)
            return found
        try:
            row = self._insert()
        except DBDuplicateEntry:
            return self._find()
        self._created(row)
        return row["id"]

    def _find(self) -> int | None:
        with self._engines.local().connect() as connection:
            query = sa.select(services.c.id).where(_live, services.c.host == self._host)
            return connection.execute(query).scalar()

    @_retry
    def _insert(self) -> dict[str, Any]:
        row = {
            "uuid": uuidutils.generate_uuid(),
            "host": self._host,
            "binary": BINARY,
            "topic": TOPIC,
            "report_count": 0,
            "disabled": False,
            "forced_down": False,
            "deleted": 0,
            "created_at": utcnow(),
        }
        with self._engines.local().begin() as connection:
            row["version"] = _version(connection)
            key = connection.execute(sa.insert(services).values(row)).inserted_primary_key
        return row | {"id": key[0] if key else None}

    @_retry
    def _beat(self) -> bool:
        """Write a heartbeat.

        Returns:
            False if an operator has deleted the row. It is not created again before the next start.
        """
        now = utcnow()
        beat = (
            sa.update(services)
            .where(services.c.id == self._id, services.c.deleted == 0)
            .values(report_count=services.c.report_count + 1, last_seen_up=now, updated_at=now)
        )
        with self._engines.local().begin() as connection:
            written = connection.execute(beat).rowcount > 0
        if not written:
            LOG.error(
                "Service record of %s on %s was deleted; no more heartbeats until a restart creates it again",
                BINARY,
                self._host,
            )
        return written


def live_schedulers(engines: Engines, down_time: float, *conditions: sa.ColumnElement[bool]) -> list[str]:
    """Return the hosts of the schedulers that have written a heartbeat lately, or were created lately.

    Args:
        down_time: Seconds by which the last heartbeat may differ from now, in either direction.
        conditions: What else their rows have to meet.

    Raises:
        UNREADABLE: The database cannot be read.
    """
    now, limit = utcnow(), timedelta(seconds=down_time)
    seen = sa.func.coalesce(services.c.last_seen_up, services.c.created_at)
    query = sa.select(services.c.host).where(_live, seen.between(now - limit, now + limit), *conditions)
    with engines.local().connect() as connection:
        return sorted(connection.execute(query).scalars())


def _version(connection: sa.Connection) -> int:
    """Return the lowest version of all schedulers and conductors: nova refuses to run with newer ones.

    If there is none it is the lowest that is supported, so that any nova-scheduler can be started later.
    """
    columns = services.c
    query = sa.select(sa.func.min(columns.version)).where(
        columns.deleted == 0, columns.binary.in_((BINARY, "nova-conductor")), columns.version > 0
    )
    return connection.execute(query).scalar() or OLDEST_SUPPORTED
