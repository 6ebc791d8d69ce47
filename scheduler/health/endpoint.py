"""The HTTP server of health checks and metrics, in a thread of its own.

No client may hurt the daemon: connections are limited in number, in bytes and in time as a whole, and a page
is made once a second at most. GET and HEAD are answered, and each connection is closed after one answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, parse_headers
from io import BytesIO
from pathlib import Path
import re
import socket
import threading
import time

from cachetools import TTLCache
from oslo_log import log as logging

from scheduler.errors import ConfigError
from scheduler.health.access import ANYBODY, MOST_CONNECTIONS, Access, Address
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

#: Seconds after a connection that could not be accepted, as the process has no file descriptor left.
PAUSE = 1.0

_REQUEST = re.compile(r"(\S+) (\S+) HTTP/1\.\d")


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

    def answer(self, *, with_body: bool = True) -> bytes:
        """Return the response of HTTP."""
        head = (
            f"HTTP/1.1 {self.status}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nCache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (self.body if with_body else b"")


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
        self._retry, self._longest, self._access = retry, longest, access
        self._kept: TTLCache[str, Page] = TTLCache(len(pages), KEPT, clock)
        self._listener: socket.socket | None = None
        # the oldest first, and whether its client has shown that it may read
        self._open: dict[asyncio.Task[None], bool] = {}
        self._reports = RateLimitedLogger(LOG)
        self._outage = OutageLog(
            LOG,
            f"Health checks and metrics cannot be served on {address}",
            f"Health checks and metrics are served on {address} again",
        )

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    @property
    def port(self) -> int:
        """The port that it listens on; 0 if it does not."""
        return 0 if self._listener is None else self._listener.getsockname()[1]

    def start(self) -> None:
        """Begin to listen, in a thread of its own. While that is not possible it is tried again."""
        self._try_to_listen()
        threading.Thread(target=self._run, name="monitoring", daemon=True).start()

    def remove(self) -> None:
        """Remove the unix socket, at the end of the daemon."""
        if self._address.path and self._listener is not None:
            Path(self._address.path).unlink(missing_ok=True)

    def _try_to_listen(self) -> None:
        try:
            listener = self._address.listen()
        except OSError as error:
            self._outage.report_failure(error)
        else:
            listener.setblocking(False)
            self._listener = listener
            self._outage.report_success()
            LOG.info("Health checks and metrics are served on %s", self._address)

    def _run(self) -> None:
        try:
            while self._listener is None:
                time.sleep(self._retry)
                self._try_to_listen()
            asyncio.run(self._accept(self._listener))
        except Exception:
            LOG.exception("Health checks and metrics are no longer served")

    # -- in the thread that serves ---------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                self._report(error)
                await asyncio.sleep(PAUSE)
                continue
            if len(self._open) >= MOST_CONNECTIONS:
                strangers = (task for task, admitted in self._open.items() if not admitted)
                oldest = next(strangers, next(iter(self._open)))
                oldest.cancel()
                del self._open[oldest]
            task = loop.create_task(self._serve(client))
            self._open[task] = False
            task.add_done_callback(lambda done: self._open.pop(done, None))
            await asyncio.sleep(0)  # the others go on, however many connections wait to be accepted

    async def _serve(self, client: socket.socket) -> None:
        reader = asyncio.StreamReader(LARGEST_REQUEST)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport: asyncio.Transport | None = None
        tls, loop = self._access.tls, asyncio.get_running_loop()
        handshake = LONGEST_HANDSHAKE if tls else None
        try:
            async with asyncio.timeout(self._longest):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, client, ssl=tls, ssl_handshake_timeout=handshake
                )
                head = await reader.readuntil(b"\r\n\r\n")
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                writer.write(self._answer(head))
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the client is slow, or has gone
        except Exception as error:  # noqa: BLE001 - one client must not end the others
            self._report(error)
        finally:
            if transport is None:
                client.close()
            else:
                transport.abort()

    def _answer(self, head: bytes) -> bytes:
        """Return the response to the head of a request; nothing for an empty one."""
        line, _, headers = head.partition(b"\r\n")
        if not line:
            return b""
        request = _REQUEST.fullmatch(line.decode("latin-1"))
        if request is None:
            return MALFORMED.answer()
        method, path = request.groups()
        if method not in {"GET", "HEAD"}:
            return NOT_ALLOWED.answer()
        return self._page(path.partition("?")[0], headers).answer(with_body=method == "GET")

    def _page(self, path: str, headers: bytes) -> Page:
        """Return a page, if the client may have it; a page that is old is made again."""
        try:
            found = parse_headers(BytesIO(headers))
            allowed = self._access.allows({name.lower(): value.strip() for name, value in found.items()})
        except HTTPException:
            return MALFORMED
        except ConfigError as error:
            LOG.error("Request for health checks or metrics refused: %s", error)
            return BROKEN
        if not allowed:
            return NOT_AUTHORIZED
        if (task := asyncio.current_task()) in self._open:
            self._open[task] = True
        if path not in self._pages:
            return NOT_FOUND
        with suppress(KeyError):  # it may grow old between two looks
            return self._kept[path]
        try:
            page = self._pages[path]()
        except Exception:
            LOG.exception("Cannot make page %s", path)
            page = BROKEN
        self._kept[path] = page
        return page

    def _report(self, error: Exception) -> None:
        self._reports.warning("broken", "Cannot serve a client of the monitoring port: %r", error)
