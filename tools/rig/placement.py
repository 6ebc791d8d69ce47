"""Run OpenStack Placement in this process, or in a process of its own, on a loopback HTTP address.

::

    with EmbeddedPlacement() as url: ...              # in memory, deleted at the end
    with EmbeddedPlacement("/tmp/placement.db") as url: ...
    with PlacementProcess("/tmp/placement.db") as url: ...
    with PlacementProcess("mysql+pymysql://...") as url: ...
    python -m tools.rig.placement --db FILE --port 8778

Clients send the token ``admin`` (Placement's ``noauth2``). SQLite allows one writer, so with it
writes go one at a time (spec: placement-and-workflow 8.2). Placement's database layer is global to a process:
a process can run one ``EmbeddedPlacement`` at a time, and any number of ``PlacementProcess``.
"""

import argparse
import contextlib
import io
import logging
from pathlib import Path
import signal
import sys
import tempfile
import threading
import warnings

from cheroot import wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter

from tools.rig.providers import database_url
from tools.rig.service import ServiceProcess

LOG = logging.getLogger(__name__)

IDLE_TIMEOUT = 300  # seconds after which a connection without a request is closed
STOP_TIMEOUT = 2  # seconds that a stop waits for requests that are being received

CONFIGURATION = """\
[api]
auth_strategy = noauth2
[placement]
allocation_conflict_retry_count = {conflict_retries}
[placement_database]
connection = {connection}
sync_on_startup = True
sqlite_synchronous = False
"""


#: Placement's default of the option.
CONFLICT_RETRIES = 10


class EmbeddedPlacement:
    """Placement in this process; a context manager that gives its URL."""

    def __init__(
        self,
        database: str | Path | None = None,
        port: int = 0,
        conflict_retries: int = CONFLICT_RETRIES,
        certificate: str | Path | None = None,
    ) -> None:
        """Describe a Placement; it is started on entry.

        Args:
            database: An SQLite file, which is created if it does not exist, or the URL of a database; None
                for a database in memory.
            port: The TCP port; 0 selects a free port.
            conflict_retries: Its ``allocation_conflict_retry_count``. With 1 a claim that meets another one
                on the same provider is refused. With more, Placement tries again in the transaction of the
                failed try, whose rows it counts as the previous usage: concurrent claims can over-commit.
            certificate: A file with a certificate and its key, to serve HTTPS.
        """
        self._connection = database_url(database) if database else "sqlite://"
        self._in_memory = not database
        self._conflict_retries = conflict_retries
        self._port = port
        self._certificate = certificate
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> str:
        with contextlib.ExitStack() as undo:
            application = undo.enter_context(_application(self._connection, self._conflict_retries))
            if self._connection.startswith("sqlite"):
                writes = threading.Lock()
                application = _Locking(
                    application, writes if self._in_memory else contextlib.nullcontext(), writes
                )
            url = undo.enter_context(_serving(application, self._port, self._certificate))
            self._undo = undo.pop_all()
        return url

    def __exit__(self, *exc_info: object) -> None:
        self._undo.close()


class PlacementProcess(ServiceProcess):
    """Placement in a process of its own; a context manager that gives its URL."""

    def __init__(
        self,
        database: str | Path,
        port: int = 0,
        conflict_retries: int = CONFLICT_RETRIES,
        certificate: str | Path | None = None,
        log: Path | None = None,
    ) -> None:
        """Describe a Placement; the arguments are those of ``EmbeddedPlacement``.

        By default ``log`` is beside the SQLite file.
        """
        arguments = {"--db": database, "--port": port, "--conflict-retries": conflict_retries}
        if certificate:
            arguments["--certificate"] = certificate
        words = [str(word) for pair in arguments.items() for word in pair]
        command = [sys.executable, "-m", "tools.rig.placement", *words]
        super().__init__(command, log or Path(f"{database}.log"))

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.kill()  # a stop in order takes seconds, and what is written is written

    def start(self) -> str:
        """Start it, also again, and return its URL.

        Raises:
            RuntimeError: It did not start.
        """
        known = len(self._urls())
        super().start()
        try:
            self.wait_until(lambda: len(self._urls()) > known, "Placement did not start")
        except BaseException:
            self.kill()
            raise
        return self._urls()[-1]

    def _urls(self) -> list[str]:
        """Return the first line of each of its lives."""
        text = self.log.read_text() if self.log.exists() else ""
        return [line for line in text.splitlines() if line.startswith("http")]


@contextlib.contextmanager
def _application(connection: str, conflict_retries: int):
    """Give Placement's WSGI application on ``connection``; restore its process-wide state at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # WebOb imports a module that Python 3.13 removed
        from oslo_config import cfg
        from oslo_db.sqlalchemy import enginefacade
        from placement import conf as placement_conf
        from placement import db_api, deploy, policy

    conf = cfg.ConfigOpts()
    placement_conf.register_opts(conf)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(CONFIGURATION.format(connection=connection, conflict_retries=conflict_retries))
        file.flush()
        conf([], project="placement", default_config_files=[file.name], default_config_dirs=[])
    _quieten()
    context_manager = enginefacade.transaction_context()
    context_manager.configure(**_database_options(conf))
    unpatch = db_api.placement_context_manager.patch_factory(context_manager)
    try:
        _forget_synchronised()
        yield deploy.loadapp(conf)
    finally:
        policy.reset()
        context_manager.writer.get_engine().dispose()
        unpatch()


def _database_options(conf) -> dict:
    return {name: value for name, value in conf.placement_database.items() if name != "sync_on_startup"}


def _forget_synchronised() -> None:
    # Placement notes for the process, not for the database, that traits and classes were inserted.
    from placement.objects import resource_class, trait

    trait._TRAITS_SYNCED = False  # noqa: SLF001
    resource_class._RESOURCE_CLASSES_SYNCED = False  # noqa: SLF001


def _quieten() -> None:
    # A refused claim is a warning of Placement's, and what many tests and tools are about.
    levels = {"placement": logging.ERROR, "alembic": logging.WARNING, "oslo_policy": logging.WARNING}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)


class _Server(wsgi.Server):
    """A server on a loopback address that stops fast and reports to the log."""

    expiration_interval = 0.05  # seconds between looks at the request to stop
    keep_alive_conn_limit = None

    def __init__(self, port: int, application, certificate: str | Path | None) -> None:
        super().__init__(
            ("127.0.0.1", port),
            application,
            request_queue_size=256,
            timeout=IDLE_TIMEOUT,
            shutdown_timeout=STOP_TIMEOUT,
        )
        if certificate:
            self.ssl_adapter = BuiltinSSLAdapter(str(certificate), str(certificate))

    @property
    def url(self) -> str:
        # a certificate is for a name
        return f"https://localhost:{self.port}" if self.ssl_adapter else f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return self.bind_addr[1]

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        LOG.log(level, "%s", msg, exc_info=traceback)


@contextlib.contextmanager
def _serving(application, port: int, certificate: str | Path | None):
    """Serve ``application`` and give its URL; at the end, close all connections and stop all threads."""
    server = _Server(port, application, certificate)
    server.prepare()
    thread = threading.Thread(target=server.serve, name="placement", daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        thread.join(STOP_TIMEOUT)


class _Locking:
    """A WSGI application that holds a lock while another application works: one for reads, one for writes.

    The request is received before, and the answer is sent after: a slow client does not hold a lock.
    """

    def __init__(self, application, read_lock, write_lock) -> None:
        self._application = application
        self._read_lock = read_lock
        self._write_lock = write_lock

    def __call__(self, environ, start_response) -> list[bytes]:
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read())
        reading = environ["REQUEST_METHOD"] in {"GET", "HEAD"}
        with self._read_lock if reading else self._write_lock:
            chunks = self._application(environ, start_response)
            try:
                return [b"".join(chunks)]
            finally:
                if hasattr(chunks, "close"):
                    chunks.close()


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; the first line on standard output is the URL."""
    parser = argparse.ArgumentParser(description="OpenStack Placement on a loopback address")
    parser.add_argument(
        "--db", required=True, help="SQLite file, created if it does not exist; or URL of a database"
    )
    parser.add_argument("--port", type=int, default=0, help="TCP port; 0 selects a free port")
    parser.add_argument(
        "--conflict-retries",
        type=int,
        default=CONFLICT_RETRIES,
        help="allocation_conflict_retry_count (default: %(default)s)",
    )
    parser.add_argument("--certificate", help="file with a certificate and its key, to serve HTTPS")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with EmbeddedPlacement(options.db, options.port, options.conflict_retries, options.certificate) as url:
        print(url, flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
