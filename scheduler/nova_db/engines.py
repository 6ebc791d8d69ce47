"""Database engines made from nova's options; every wait for a database is bounded.

spec: host-state-and-cells 1.1, 2.3
"""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import functools
from importlib.util import find_spec
import math
import re
import threading
import time
from typing import Any
import zlib

from oslo_config import cfg
from oslo_db.exception import DBConnectionError
from oslo_db.sqlalchemy import engines
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Dialect, Engine, make_url

from scheduler import errors
from scheduler.bounds.circuit_breaker import CircuitBreaker, CircuitOpen
from scheduler.bounds.waits import waiting_for
from scheduler.nova_db.connection_watch import ConnectionWatch

# The drivers of a URL that names none, the usual one first: SQLAlchemy's own choice changes with releases.
DRIVERS = {
    "mysql": (("pymysql", "pymysql"), ("mysqldb", "MySQLdb"), ("mysqlconnector", "mysql.connector")),
    "postgresql": (("psycopg2", "psycopg2"), ("psycopg", "psycopg")),
}

# What SQLAlchemy takes for name and password. What follows the first "@" after the name is a server to it,
# which drivers show in their errors, though it may be the end of the password.
CREDENTIALS = re.compile(r"[^:]+://(?:[^:/]*(?::[^@]*)?@)?")

# What a database that is away raises: a lost connection, or a pool whose connections are all in use.
AWAY = (DBConnectionError, sa.exc.TimeoutError)

# What an error of a connection contains if PostgreSQL itself has answered with it.
ANSWER_OF_POSTGRESQL = "FATAL:"

# The errors of MySQL for a user, a password or a right that is missing: for the server, a database, a table.
MYSQL_REFUSALS = frozenset({1044, 1045, 1142, 1143, 1698})

# The same of PostgreSQL: insufficient privilege, invalid authorization, invalid password. Those of a login
# have a text only.
POSTGRESQL_REFUSALS = frozenset({"42501", "28000", "28P01"})
POSTGRESQL_REFUSES_LOGIN = ("authentication failed", "permission denied", "no pg_hba.conf entry", "role ")

# Seconds between two probes of the API database at most. It is small, and what it has is needed at once.
MAX_API_PROBE_INTERVAL = 5.0

# A reading of a cell goes on in the background, after requests have stopped waiting for it. This many times
# the timeout it may take in all.
LATE_CELL_FACTOR = 3.0

TUNING = (
    "mysql_sql_mode mysql_wsrep_sync_wait connection_recycle_time connection_debug connection_trace "
    "connection_parameters max_pool_size max_overflow sqlite_synchronous"
).split()


class Engines:
    """One engine a database: the API database, the local one, and one for each cell by uuid.

    Engines are made at the first access, and connect at the first use. A cell's engine is tuned by
    [database], as nova's are.

    Attributes:
        api_answers: Whether the API database answered when it was last used; None if it was not used yet.
        api_refusal: Why it refused access then; "" if it did not.
    """

    def __init__(self, conf: cfg.ConfigOpts, clock: Callable[[], float] = time.monotonic) -> None:
        self._conf = conf
        self._clock = clock
        self._engines: dict[tuple[str, str], Engine] = {}
        self._lock = threading.Lock()
        self._watch = ConnectionWatch(lambda: conf.berth.cell_timeout, clock)
        self._api_breaker = self._new_api_breaker()
        self.api_answers: bool | None = None
        self.api_refusal = ""
        self._api_answered_at = -math.inf

    @contextlib.contextmanager
    def api_connection(self) -> Iterator[Connection]:
        """Yield a connection to the API database.

        Raises:
            CircuitOpen: The database is left out, since it did not answer before.
            ConfigError: It has no connection URL, or one that cannot be used.
        """
        begun = self._clock()
        try:
            with (
                waiting_for("the API database"),
                self._api_breaker.guard(*AWAY),
                self.api().connect() as connection,
            ):
                yield connection
        except CircuitOpen:
            raise
        except Exception as error:
            self.api_refusal = refusal_in(error)
            if begun >= self._api_answered_at:  # calls of an outage may end long after it
                self.api_answers = False
            raise
        self.api_refusal, self.api_answers, self._api_answered_at = "", True, self._clock()

    def api(self) -> Engine:
        """Return the engine of [api_database].

        Raises:
            ConfigError: It has no connection, or one that cannot be used.
        """
        return self._of_group("api_database")

    def local(self) -> Engine:
        """Return the engine of [database].

        Raises:
            ConfigError: It has no connection, or one that cannot be used.
        """
        return self._of_group("database")

    def cell(self, uuid: str, url: str) -> Engine:
        """Return the engine of a cell.

        Raises:
            ConfigError: The URL names no known driver.
        """
        return self._get(_of_cell(uuid), url, self._conf.database, LATE_CELL_FACTOR)

    def keep_cells(self, cells: Iterable[tuple[str, str | None]]) -> None:
        """Close the engines of cells that were deleted, or have another URL now.

        Args:
            cells: Uuid and URL of the cells that there are.
        """
        kept = {(_of_cell(uuid), url) for uuid, url in cells}
        with self._lock:
            gone = [key for key in self._engines if key[0].startswith(_of_cell("")) and key not in kept]
            closed = [self._engines.pop(key) for key in gone]
        for engine in closed:
            engine.dispose()

    def check(self) -> None:
        """Make the engines of the two options that are set, without connecting.

        Raises:
            ConfigError: A URL names no known driver.
        """
        for group in ("api_database", "database"):
            if self._conf[group].connection:
                self._of_group(group)

    def dispose(self) -> None:
        """Close all engines. Connections that are in use are closed when they are returned."""
        with self._lock:
            disposed, self._engines = self._engines, {}
            self._api_breaker = self._new_api_breaker()
        for engine in disposed.values():
            engine.dispose()

    def _of_group(self, group: str) -> Engine:
        connection = self._conf[group].connection
        if not connection:
            raise errors.ConfigError(f"[{group}]/connection is not set")
        return self._get(f"[{group}]/connection", connection, self._conf[group])

    def _new_api_breaker(self) -> CircuitBreaker:
        return CircuitBreaker("The API database", self._clock, max_probe_interval=MAX_API_PROBE_INTERVAL)

    def _get(
        self, what: str, url: str, options: cfg.ConfigOpts.GroupAttr, watch_factor: float = 1.0
    ) -> Engine:
        key = what, url
        with self._lock:
            engine = self._engines.get(key)
            if engine is None:
                timeout = self._conf.berth.cell_timeout
                engine = self._engines[key] = make_engine(url, options, timeout, what)
                if engine.dialect.name != "sqlite":
                    self._watch.add(engine, what, watch_factor)
        return engine


def _of_cell(uuid: str) -> str:
    return f"The database connection of cell {uuid}"


def make_engine(
    connection: str, options: cfg.ConfigOpts.GroupAttr, timeout: float, what: str = "The database connection"
) -> Engine:
    """Return an engine that is not connected yet.

    Args:
        connection: The URL of the database.
        options: The options of oslo.db. ``max_retries`` is not used, since callers read periodically.
        timeout: Seconds for each of connecting, reading and writing.
        what: The connection in the text of errors, which never show the URL.

    Raises:
        ConfigError: The URL cannot be used.
    """
    try:
        url = normalised(connection)
        limits = _limits(url.drivername, timeout).items()
        url = url.update_query_dict({key: str(value) for key, value in limits if key not in url.query})
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
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _add_row_hash)
    return engine


def _reason(error: Exception) -> str:
    """Return why a URL cannot be used, without texts of libraries that may show a password in it."""
    if isinstance(error, sa.exc.NoSuchModuleError | ImportError):
        return str(error)
    return "it cannot be read as a URL; special characters in a password have to be percent-encoded"


def _connect(what: str, dialect: Dialect, _record: Any, arguments: Any, parameters: Any) -> Any:
    """Connect. A driver raises errors of several classes for parameters of the URL that it does not know.

    oslo.db recognises a PostgreSQL that is away by the words of old versions of its library.
    """
    try:
        return dialect.connect(*arguments, **parameters)
    except dialect.loaded_dbapi.OperationalError as error:
        if dialect.name == "postgresql" and ANSWER_OF_POSTGRESQL not in str(error):
            raise DBConnectionError(error) from error
        raise
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise errors.ConfigError(f"{what} has a parameter that its driver does not take: {error}") from error


def _add_row_hash(connection: Any, _record: Any) -> None:
    """Give SQLite the function that other databases have (see ``schema.row_hash``)."""
    connection.create_function("row_hash", -1, lambda *values: zlib.crc32(repr(values).encode()))


def refusal_in(error: BaseException) -> str:
    """Return why a database refuses access for good, in its own words; "" if that is not the error."""
    current: BaseException | None = error
    while current is not None:
        first = current.args[0] if current.args else None
        text = str(first) if len(current.args) == 1 else str(current)
        if first in MYSQL_REFUSALS or getattr(current, "pgcode", None) in POSTGRESQL_REFUSALS:
            return text.partition("\n")[0]
        if ANSWER_OF_POSTGRESQL in text and any(words in text for words in POSTGRESQL_REFUSES_LOGIN):
            return text[text.index(ANSWER_OF_POSTGRESQL) :].partition("\n")[0]
        current = getattr(current, "orig", None) or current.__cause__ or current.__context__
    return ""


def normalised(connection: str) -> URL:
    """Return the URL, with a driver that can be imported if it names none.

    spec: host-state-and-cells 1.1

    Raises:
        ValueError: A part of the password would be read as the server.
    """
    url = make_url(connection)
    behind, *_ = CREDENTIALS.sub("", connection, count=1).partition("=")
    if "@" in behind and url.get_backend_name() != "sqlite":
        raise ValueError("an @ in the password is not escaped")
    for driver, module in DRIVERS.get(url.drivername, ()):
        if find_spec(module.partition(".")[0]):
            return url.set(drivername=f"{url.drivername}+{driver}")
    return url


def _limits(drivername: str, timeout: float) -> dict[str, object]:
    """Return the driver's own time limits, for where the operator gives none."""
    seconds = math.ceil(timeout)
    if drivername in ("mysql+pymysql", "mysql+mysqldb"):
        return {"connect_timeout": seconds, "read_timeout": seconds, "write_timeout": seconds}
    if drivername == "mysql+mysqlconnector":
        return {"connection_timeout": seconds}
    if drivername.startswith("postgresql+psycopg"):
        # No statement_timeout: PgBouncer refuses parameters of sessions. The connection watch ends hung ones.
        return {"connect_timeout": max(2, seconds), "tcp_user_timeout": int(timeout * 1000)}
    if drivername.startswith("sqlite") and not drivername.endswith("aiosqlite"):
        return {"timeout": timeout}
    return {}
