"""The page of a decision, served on loopback."""

from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from scheduler.operators.shown import page

LOOPBACK = "127.0.0.1"


def server(port: int, html: str) -> WSGIServer:
    """Return a server of one page on loopback. ``port`` may be 0 for one that is free.

    Raises:
        OSError: The port cannot be used.
    """
    found = make_server(LOOPBACK, port, lambda *_: [], handler_class=_QuietHandler)
    found.set_app(application(found.server_port, html))
    return found


def application(port: int, html: str) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Return the WSGI application. It refuses other names of this host, as web pages may use one."""
    own = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("HTTP_HOST") not in own:
            start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"This page is for the loopback address only.\n"]
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"} or environ.get("PATH_INFO") not in {"", "/"}:
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"There is only one page: /\n"]
        headers = {"Cache-Control": "no-store", "Content-Security-Policy": page.policy()}
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), *headers.items()])
        return [html.encode()]

    return answer


class _QuietHandler(WSGIRequestHandler):
    #: Seconds for a client to send its request.
    timeout = 10

    def log_message(self, *_details: Any) -> None:
        """Log nothing."""
