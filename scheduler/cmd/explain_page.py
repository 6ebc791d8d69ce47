"""The page of a decision: written to a file, or served on loopback."""

from collections.abc import Callable, Iterable
import errno
import os
from pathlib import Path
import tempfile
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

LOOPBACK = "127.0.0.1"

HEADERS = [
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"),
]


def write(path: str, html: str) -> None:
    """Write a page to a new file that only its owner can read: it names hosts and projects.

    It takes the place of a file of that name; links and devices are left alone.

    Raises:
        OSError: It cannot be written.
    """
    file = Path(path)
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise FileExistsError(errno.EEXIST, "It is no regular file", path)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.write(html)
        new.replace(file)
    except BaseException:
        new.unlink()
        raise


def server(port: int, html: str) -> WSGIServer:
    """Return a server of one page on loopback. ``port`` may be 0 for one that is free.

    Raises:
        OSError: The port cannot be used.
    """
    found = make_server(LOOPBACK, port, lambda *_: [], handler_class=_QuietHandler)
    found.set_app(application(found.server_port, html))
    return found


def application(port: int, html: str) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Return the WSGI application. It refuses names of other hosts, which a web page could lead here."""
    own = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("HTTP_HOST") not in own:
            start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"This page is for the loopback address only.\n"]
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"} or environ.get("PATH_INFO") not in {"", "/"}:
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"There is only one page: /\n"]
        start_response("200 OK", HEADERS)
        return [html.encode()]

    return answer


class _QuietHandler(WSGIRequestHandler):
    #: Seconds for a client to send its request.
    timeout = 10

    def log_message(self, *_details: Any) -> None:
        """Log nothing: the page is for one reader."""
