"""A real OpenStack Placement in this process or in one of its own, on a loopback HTTP address.

::

    with EmbeddedPlacement() as url: ...              # in memory, gone afterwards
    with EmbeddedPlacement("/tmp/placement.db") as url: ...
    with PlacementProcess("/tmp/placement.db") as url: ...
    python -m tools.embedded_placement --db FILE --port 8778

Any client may use it: the token is ``admin`` (Placement's ``noauth2``). SQLite allows one writer, so
writes go one at a time (spec: placement-and-workflow 8.2). Placement's database layer is global to a
process: one ``EmbeddedPlacement`` at a time; ``PlacementProcess`` knows no such limit.
"""

import argparse
import contextlib
import io
import logging
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import threading
from urllib.parse import unquote
import warnings

from tools import loopback

CONFIGURATION = """\
[api]
auth_strategy = noauth2
[placement_database]
connection = {connection}
sync_on_startup = True
sqlite_synchronous = False
"""


class EmbeddedPlacement:
    """Placement in this process; a context manager that gives its URL.

    ``path`` is an SQLite file (made if missing, with all its parents' contents left alone); without one
    the database lives in memory. ``port`` 0 takes any free one.
    """

    def __init__(self, path: str | Path | None = None, port: int = 0) -> None:
        self._connection = f"sqlite:///{path}" if path else "sqlite://"
        self._read_lock = contextlib.nullcontext() if path else None
        self._port = port
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> str:
        with contextlib.ExitStack() as undo:
            application = undo.enter_context(_application(self._connection))
            writes = threading.Lock()
            server = _Server(self._port, application, writes, self._read_lock or writes)
            undo.callback(server.server_close)
            undo.callback(server.hang_up)
            thread = threading.Thread(
                target=server.serve_forever, args=(0.05,), name="placement", daemon=True
            )
            thread.start()
            undo.callback(thread.join, 5)
            undo.callback(server.shutdown)
            self._undo = undo.pop_all()
        return server.url

    def __exit__(self, *exc_info: object) -> None:
        self._undo.close()


class PlacementProcess:
    """The same in a process of its own; a context manager that gives its URL."""

    def __init__(self, path: str | Path, port: int = 0) -> None:
        self._command = [sys.executable, "-m", "tools.embedded_placement", "--db", path, "--port", str(port)]
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> str:
        root = Path(__file__).resolve().parent.parent
        self._process = subprocess.Popen(self._command, cwd=root, stdout=subprocess.PIPE, text=True)
        url = self._process.stdout.readline().strip()
        if not url:
            self.__exit__()
            raise RuntimeError(f"Placement did not start: exit status {self._process.returncode}")
        return url

    def __exit__(self, *exc_info: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process.stdout.close()


@contextlib.contextmanager
def _application(connection: str):
    """Placement's WSGI application on ``connection``, with its process-wide state put back afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # WebOb's, of a module that Python 3.13 dropped
        from oslo_config import cfg
        from oslo_db.sqlalchemy import enginefacade
        from placement import conf as placement_conf
        from placement import db_api, deploy, policy

    conf = cfg.ConfigOpts()
    placement_conf.register_opts(conf)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(CONFIGURATION.format(connection=connection))
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
    # Placement remembers per process, not per database, that traits and classes were inserted.
    from placement.objects import resource_class, trait

    trait._TRAITS_SYNCED = False  # noqa: SLF001
    resource_class._RESOURCE_CLASSES_SYNCED = False  # noqa: SLF001


def _quieten() -> None:
    for name in ("placement", "alembic", "oslo_policy"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


class _Server(loopback.Server):
    def __init__(self, port, application, write_lock, read_lock) -> None:
        super().__init__(_Handler, port)
        self.application = application
        self.write_lock = write_lock
        self.read_lock = read_lock


class _Handler(loopback.Handler):
    def _serve(self) -> None:
        reading = self.command in {"GET", "HEAD"}
        environ = self._environ()
        with self.server.read_lock if reading else self.server.write_lock:
            status, headers, body = self._call(environ)
        code, _, phrase = status.partition(" ")
        self.send_response_only(int(code), phrase)
        for name, value in headers:
            if name.lower() not in {"content-length", "connection"}:
                self.send_header(name, value)
        if int(code) != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = do_HEAD = _serve  # noqa: N815

    def _call(self, environ) -> tuple[str, list, bytes]:
        answer = []

        def start_response(status, headers, _exc_info=None):
            answer[:] = [status, headers]

        chunks = self.server.application(environ, start_response)
        try:
            body = b"".join(chunks)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        return answer[0], answer[1], body

    def _environ(self) -> dict:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environ = {
            "REQUEST_METHOD": self.command,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote(path, "latin-1"),
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(body)),
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": str(self.server.server_port),
            "SERVER_PROTOCOL": self.request_version,
            "REMOTE_ADDR": self.client_address[0],
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        if self.headers.get("Content-Type"):
            environ["CONTENT_TYPE"] = self.headers["Content-Type"]
        for name, value in self.headers.items():
            key = name.upper().replace("-", "_")
            if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
                environ["HTTP_" + key] = value
        return environ


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; the first line on standard output is the URL."""
    parser = argparse.ArgumentParser(description="OpenStack Placement on a loopback address, over SQLite")
    parser.add_argument("--db", required=True, help="SQLite file, made if missing")
    parser.add_argument("--port", type=int, default=0, help="TCP port; 0 for any free one")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with EmbeddedPlacement(options.db, options.port) as url:
        print(url, flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
