"""OpenStack Placement in a process of its own, on a loopback HTTP address.

::

    with PlacementProcess("/tmp/placement.db") as url: ...
    with PlacementProcess("mysql+pymysql://...") as url: ...
    python -m tools.rig.placement --db FILE --port 8778

Clients send the token ``admin`` (Placement's ``noauth2``). SQLite allows one writer, so with it
writes go one at a time (spec: placement-and-workflow 8.2).
"""

import argparse
from collections.abc import Iterator
import contextlib
import io
from pathlib import Path
import sys
import tempfile
import threading
import warnings

from cheroot import wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter

from tools.rig.providers import database_url
from tools.rig.service import ServiceProcess

IDLE_TIMEOUT = 300  # seconds after which a connection without a request is closed

CONFIGURATION = """\
[api]
auth_strategy = {strategy}
[placement_database]
connection = {connection}
sync_on_startup = True
sqlite_synchronous = False
{more}
"""

LOOPBACK = "127.0.0.1"


class PlacementProcess(ServiceProcess):
    """Placement in a process of its own; a context manager that gives its URL."""

    def __init__(
        self,
        database: str | Path,
        port: int = 0,
        certificate: str | Path | None = None,
        log: Path | None = None,
        keystone: str = "",
        address: str = LOOPBACK,
    ) -> None:
        """Describe a Placement; it is started on entry.

        Args:
            database: An SQLite file, which is created if it does not exist, or the URL of a database.
            port: The TCP port; 0 selects a free port.
            certificate: A file with a certificate and its key, to serve HTTPS.
            log: Where its output is appended; by default beside the SQLite file.
            keystone: Options by which it logs in to a Keystone, which then knows its clients. By default the
                token ``admin`` is enough.
            address: Where it listens.
        """
        arguments = {"--db": database, "--port": port}
        if certificate:
            arguments["--certificate"] = certificate
        if keystone:
            arguments["--keystone"] = keystone
        if address != LOOPBACK:
            arguments["--address"] = address
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
        text = self.text() if self.log.exists() else ""
        return [line for line in text.splitlines() if line.startswith("http")]


def _application(connection: str, keystone: str = ""):
    """Return Placement's WSGI application."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # WebOb imports a module that Python 3.13 removed
        from oslo_config import cfg
        from placement import conf as placement_conf
        from placement import db_api, deploy

    conf = cfg.ConfigOpts()
    placement_conf.register_opts(conf)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        text = CONFIGURATION.format(
            connection=connection,
            strategy="keystone" if keystone else "noauth2",
            more=f"[keystone_authtoken]\n{keystone}" if keystone else "",
        )
        file.write(text)
        file.flush()
        conf([], project="placement", default_config_files=[file.name], default_config_dirs=[])
    db_api.configure(conf)
    return deploy.loadapp(conf)


class _OneWriter:
    """A WSGI application that lets another application handle one write at a time.

    The request is received before, and the answer is sent after: a slow client does not hold the lock.
    """

    def __init__(self, application) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ, start_response) -> list[bytes]:
        if environ["REQUEST_METHOD"] in {"GET", "HEAD"}:
            return self._application(environ, start_response)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read())
        with self._lock:
            chunks = self._application(environ, start_response)
            try:
                return [b"".join(chunks)]
            finally:
                if hasattr(chunks, "close"):
                    chunks.close()


def main(arguments: list[str] | None = None) -> None:
    """Serve until it is killed; the first line on standard output is the URL."""
    parser = argparse.ArgumentParser(description="OpenStack Placement on a loopback address")
    parser.add_argument(
        "--db", required=True, help="SQLite file, created if it does not exist; or URL of a database"
    )
    parser.add_argument("--port", type=int, default=0, help="TCP port; 0 selects a free port")
    parser.add_argument("--address", default=LOOPBACK, help="where it listens (default: %(default)s)")
    parser.add_argument("--keystone", default="", help="options of keystone_authtoken, as lines")
    parser.add_argument("--certificate", help="file with a certificate and its key, to serve HTTPS")
    options = parser.parse_args(arguments)
    connection = database_url(options.db)
    application = _application(connection, options.keystone)
    if connection.startswith("sqlite"):
        application = _OneWriter(application)
    server = wsgi.Server(
        (options.address, options.port), application, request_queue_size=256, timeout=IDLE_TIMEOUT
    )
    server.keep_alive_conn_limit = None
    # a certificate is for a name
    host = f"http://{options.address}"
    if options.certificate:
        server.ssl_adapter = BuiltinSSLAdapter(options.certificate, options.certificate)
        host = "https://localhost"
    server.prepare()
    print(f"{host}:{server.bind_addr[1]}", flush=True)
    server.serve()


if __name__ == "__main__":
    main()


@contextlib.contextmanager
def placement_of(directory: Path) -> Iterator[tuple[str, Path]]:
    """Start the Placement of a run; gives its URL and its database."""
    path = directory / "placement.sqlite"
    with PlacementProcess(path) as url:
        yield url, path
