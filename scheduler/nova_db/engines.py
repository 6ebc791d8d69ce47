"""Database engines, made of nova's options, in which nothing waits without a bound.

spec: host-state-and-cells 1.1, 2.3
"""

import contextlib
import functools
from importlib.util import find_spec
import math
import threading
from typing import Any

from oslo_config import cfg
from oslo_db.sqlalchemy import engines
import sqlalchemy as sa
from sqlalchemy.engine import URL, Dialect, Engine, make_url

from scheduler import errors

# What a URL without a driver may mean, the usual one first: SQLAlchemy's own choice changes with releases.
DRIVERS = {
    "mysql": (("pymysql", "pymysql"), ("mysqldb", "MySQLdb"), ("mysqlconnector", "mysql.connector")),
    "postgresql": (("psycopg2", "psycopg2"), ("psycopg", "psycopg")),
}

LONGEST_TEXT = 1024 * 1024

TUNING = (
    "mysql_sql_mode",
    "mysql_wsrep_sync_wait",
    "connection_recycle_time",
    "connection_debug",
    "connection_trace",
    "connection_parameters",
    "max_pool_size",
    "max_overflow",
    "sqlite_synchronous",
)


class Engines:
    """One engine a database: the API database, the local one, and one for each cell by uuid.

    Engines are made when first asked for, connect when first used, and are forgotten by ``drop``. A cell's
    engine is tuned by [database], as nova's are.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._engines: dict[tuple[str, str], Engine] = {}
        self._lock = threading.Lock()

    def api(self) -> Engine:
        """The engine of [api_database]; raises ``ConfigError`` without a connection."""
        return self._of_group("api_database")

    def local(self) -> Engine:
        """The engine of [database]; raises ``ConfigError`` without a connection."""
        return self._of_group("database")

    def cell(self, uuid: str, url: str) -> Engine:
        """The engine of a cell. Raises ``ConfigError`` for a URL that leads to no driver."""
        return self._get(f"The database connection of cell {uuid}", url, self._conf.database)

    def check(self) -> None:
        """Make the engines of the two options, as far as they are set; nothing is connected to.

        Raises ``ConfigError`` for a URL that leads to no driver.
        """
        for group in ("api_database", "database"):
            if self._conf[group].connection:
                self._of_group(group)

    def drop(self) -> None:
        """Forget all engines; connections in use live until they are given back."""
        with self._lock:
            dropped, self._engines = self._engines, {}
        for engine in dropped.values():
            engine.dispose()

    def _of_group(self, group: str) -> Engine:
        connection = self._conf[group].connection
        if not connection:
            raise errors.ConfigError(f"[{group}]/connection is not set")
        return self._get(f"[{group}]/connection", connection, self._conf[group])

    def _get(self, what: str, url: str, options: cfg.ConfigOpts.GroupAttr) -> Engine:
        key = what, url
        with self._lock:
            engine = self._engines.get(key)
            if engine is None:
                timeout = self._conf.berth.cell_timeout
                engine = self._engines[key] = make_engine(url, options, timeout, what)
        return engine


def make_engine(
    connection: str, options: cfg.ConfigOpts.GroupAttr, timeout: float, what: str = "The database connection"
) -> Engine:
    """An engine that is not connected yet. ``timeout``: seconds for each of connecting, reading and writing.

    ``options`` are oslo.db's. Whoever reads periodically tries again, so max_retries is not used here.
    Raises ``ConfigError``, which names the connection as ``what`` and never by its URL.
    """
    try:
        url = _bounded(normalised(connection), timeout)
        pooled = url.get_backend_name() != "sqlite"  # which oslo.db gives no pool that could be waited for
        engine = engines.create_engine(
            url,
            pool_timeout=(options.pool_timeout or timeout) if pooled else None,
            max_retries=0,
            thread_checkin=False,
            **{name: options[name] for name in TUNING},
        )
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError, ValueError) as error:
        raise errors.ConfigError(f"{what} cannot be used: {_reason(error)}") from None
    sa.event.listen(engine, "do_connect", functools.partial(_connect, what))
    if engine.dialect.name in ("mysql", "mariadb"):
        sa.event.listen(engine, "connect", _allow_long_texts)
    return engine


def _reason(error: Exception) -> str:
    """Why a URL cannot be used. Some texts of those who take it apart show parts of it, say a password."""
    if isinstance(error, sa.exc.NoSuchModuleError | ImportError):
        return str(error)
    return "it cannot be read as a URL; special characters in a password have to be percent-encoded"


def _connect(what: str, dialect: Dialect, _record: Any, arguments: Any, parameters: Any) -> Any:
    """Parameters of a URL go to the driver unseen; for those that it does not know it raises anything."""
    try:
        return dialect.connect(*arguments, **parameters)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise errors.ConfigError(f"{what} has a parameter that its driver does not take: {error}") from error


def _allow_long_texts(connection: Any, _record: Any) -> None:
    """MySQL cuts aggregated texts at 1024 bytes unless told otherwise (see ``hosts.fingerprints``)."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(f"SET SESSION group_concat_max_len = {LONGEST_TEXT}")


def normalised(connection: str) -> URL:
    """The URL with a driver that can be imported, if it names none (spec: host-state-and-cells 1.1)."""
    url = make_url(connection)
    for driver, module in DRIVERS.get(url.drivername, ()):
        if find_spec(module.partition(".")[0]):
            return url.set(drivername=f"{url.drivername}+{driver}")
    return url


def _bounded(url: URL, timeout: float) -> URL:
    """The URL with the driver's own time limits, where the operator gave none."""
    wanted = {
        key: str(value) for key, value in _limits(url.drivername, timeout).items() if key not in url.query
    }
    return url.update_query_dict(wanted)


def _limits(drivername: str, timeout: float) -> dict[str, object]:
    seconds = math.ceil(timeout)
    if drivername in ("mysql+pymysql", "mysql+mysqldb"):
        return {"connect_timeout": seconds, "read_timeout": seconds, "write_timeout": seconds}
    if drivername == "mysql+mysqlconnector":
        return {"connection_timeout": seconds}
    if drivername.startswith("postgresql+psycopg"):
        milliseconds = int(timeout * 1000)
        return {
            "connect_timeout": max(2, seconds),
            "options": f"-c statement_timeout={milliseconds}",
            "tcp_user_timeout": milliseconds,
        }
    if drivername.startswith("sqlite") and not drivername.endswith("aiosqlite"):
        return {"timeout": timeout}
    return {}
