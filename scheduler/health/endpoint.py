"""The HTTP server of health checks and metrics, in threads of its own.

No client may hurt the daemon: connections are limited in number, in bytes and in time as a whole, and a page
is made once a second at most. GET and HEAD are answered, and each connection is closed after one answer.
"""

from collections.abc import Callable, Mapping
import contextlib
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
import socket
import socketserver
import ssl
import sys
import threading
import time
from typing import cast

from cachetools import TTLCache
from oslo_log import log as logging

from scheduler.errors import ConfigError
from scheduler.health.access import ANYBODY, Access
from scheduler.health.address import MOST_CONNECTIONS, Address
from scheduler.logs import OutageLog, RateLimitedLogger

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds that a connection may last, from its begin to its end, and its TLS handshake among them.
LONGEST, LONGEST_HANDSHAKE = 5.0, 1.0

#: Bytes of a request.
LARGEST_REQUEST = 8192

#: Seconds for which a page is used again.
KEPT = 1.0

#: Seconds between attempts to listen where another process does.
RETRY = 10.0


@dataclass(frozen=True)
class Page:
    """What is answered.

    Attributes:
        status: Status code and reason, as in ``200 OK``.
        content_type: The type of the body.
        body: The body.
    """

    status: str
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
"""Path -> what makes its page. A query is ignored."""


def _error(status: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", f"{status}\n".encode())


NOT_AUTHORIZED = _error("401 Unauthorized")
NOT_FOUND = _error("404 Not Found")
NOT_ALLOWED = _error("405 Method Not Allowed")
MALFORMED = _error("400 Bad Request")
BROKEN = _error("500 Internal Server Error")


class MonitoringEndpoint:
    """Answers GET on some paths."""

    def __init__(
        self,
        address: Address,
        pages: Pages,
        clock: Callable[[], float] = time.monotonic,
        longest: float = LONGEST,
        retry: float = RETRY,
        access: Access = ANYBODY,
    ) -> None:
        """Listen nowhere yet.

        Args:
            pages: Path -> what makes its page.
            longest: Seconds that a connection may last.
            retry: Seconds between attempts to listen.
        """
        self._address = address
        self._pages = pages
        self._retry = retry
        self.longest, self.access = longest, access
        self._kept: TTLCache[str, Page] = TTLCache(len(pages), KEPT, clock)
        self._making = threading.Lock()
        self._server: _PageServer | None = None
        self._outage = OutageLog(
            LOG,
            f"Health checks and metrics cannot be served on {address}",
            f"Health checks and metrics are served on {address} again",
        )

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return 0 if self._server is None else len(self._server.open)

    @property
    def port(self) -> int:
        """The port that it listens on; 0 if it does not."""
        return 0 if self._server is None else self._server.socket.getsockname()[1]

    def start(self) -> None:
        """Begin to listen, in a thread of its own. While that is not possible it is tried again."""
        self._try_to_listen()
        threading.Thread(target=self._run, name="monitoring", daemon=True).start()

    def remove(self) -> None:
        """Remove the unix socket, at the end of the daemon."""
        if self._address.path and self._server is not None:
            Path(self._address.path).unlink(missing_ok=True)

    def _try_to_listen(self) -> None:
        try:
            listener = self._address.listen()
        except OSError as error:
            self._outage.report_failure(error)
        else:
            self._server = _PageServer(listener, self)
            self._outage.report_success()
            LOG.info("Health checks and metrics are served on %s", self._address)

    def _run(self) -> None:
        try:
            while self._server is None:
                time.sleep(self._retry)
                self._try_to_listen()
            self._server.serve_forever(poll_interval=min(0.5, self.longest / 4))
        except Exception:
            LOG.exception("Health checks and metrics are no longer served")

    def page(self, path: str) -> Page:
        """Return a page, which is made again if it is old."""
        with self._making:
            if path in self._kept or path not in self._pages:
                return self._kept.get(path, NOT_FOUND)
            try:
                page = self._pages[path]()
            except Exception:
                LOG.exception("Cannot make page %s", path)
                page = BROKEN
            self._kept[path] = page
            return page


#: What socketserver calls the socket of a connection.
Request = socket.socket | tuple[bytes, socket.socket]


@dataclass
class _State:
    """When a connection was accepted, whether its handshake has ended, and whether its client may read."""

    begun_at: float
    encrypted: bool
    admitted: bool = False


class _PageServer(ThreadingHTTPServer):
    """Serves each connection in a thread, and ends those that take too long or make room for others.

    Attributes:
        open: The open connections, the oldest first.
    """

    daemon_threads = True

    def __init__(self, listener: socket.socket, endpoint: MonitoringEndpoint) -> None:
        # not that of HTTPServer, which would bind a socket and look its own name up
        socketserver.BaseServer.__init__(self, listener.getsockname(), _PageHandler)
        self.socket = listener
        self.endpoint = endpoint
        self.open: dict[Request, _State] = {}
        self._lock = threading.Lock()
        # threads of connections that made room for others end soon, but not at once
        self._slots = threading.BoundedSemaphore(2 * MOST_CONNECTIONS)
        self._reports = RateLimitedLogger(LOG)

    def get_request(self) -> tuple[socket.socket, object]:
        request, client = self.socket.accept()
        if tls := self.endpoint.access.tls:  # the thread of the connection makes the handshake
            request = tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        return request, client

    def process_request(self, request: Request, client_address: object) -> None:
        if not self._slots.acquire(timeout=self.endpoint.longest):
            super().shutdown_request(request)
            return
        with self._lock:
            if len(self.open) >= MOST_CONNECTIONS:
                strangers = (one for one, state in self.open.items() if not state.admitted)
                self._end(next(strangers, next(iter(self.open))))
            self.open[request] = _State(time.monotonic(), self.endpoint.access.tls is None)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Request) -> None:
        with self._lock:
            self.open.pop(request, None)
        super().shutdown_request(request)
        self._slots.release()

    def service_actions(self) -> None:
        """End the connections that take too long."""
        now, longest = time.monotonic(), self.endpoint.longest
        shorter = min(longest, LONGEST_HANDSHAKE)
        with self._lock:
            for request, state in list(self.open.items()):
                if now - state.begun_at > (longest if state.encrypted else shorter):
                    self._end(request)

    def _end(self, request: Request) -> None:
        """End a connection: what its thread waits for ends with an error."""
        self.open.pop(request, None)
        with contextlib.suppress(OSError):
            # that of SSLSocket would take away what the thread works with
            socket.socket.shutdown(cast(socket.socket, request), socket.SHUT_RDWR)

    def handle_error(self, _request: Request, _client_address: object) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # those are of clients that are slow or have gone
            self._reports.warning("broken", "Cannot serve a client of the monitoring port: %r", error)


class _PageHandler(BaseHTTPRequestHandler):
    """Serves one connection."""

    server: _PageServer
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
            self._note(encrypted=True)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.request.recv(LARGEST_REQUEST)
            head += piece
            if not piece or len(head) > LARGEST_REQUEST:
                return
        self.rfile = BytesIO(head)
        self.handle_one_request()

    def do_GET(self) -> None:
        if self.request_version == "HTTP/0.9":
            self._reply(MALFORMED)
            return
        headers = {name.lower(): value.strip() for name, value in self.headers.items()}
        try:
            allowed = self.server.endpoint.access.allows(headers)
        except ConfigError as error:
            LOG.error("Request for health checks or metrics refused: %s", error)
            self._reply(BROKEN)
            return
        self._note(admitted=allowed)
        self._reply(self.server.endpoint.page(self.path.partition("?")[0]) if allowed else NOT_AUTHORIZED)

    do_HEAD = do_GET  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._reply(NOT_ALLOWED if code == 501 else MALFORMED)

    def _reply(self, page: Page) -> None:
        self.request_version = self.protocol_version  # a request without one gets the headers too
        code, _, reason = page.status.partition(" ")
        self.send_response_only(int(code), reason)
        for name, value in (
            ("Content-Type", page.content_type),
            ("Content-Length", str(len(page.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def _note(self, **state: bool) -> None:
        if (known := self.server.open.get(self.request)) is not None:
            vars(known).update(state)

    def log_message(self, *_details: object) -> None:
        pass
