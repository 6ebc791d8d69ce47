"""The HTTP server of health checks and metrics, in a thread of the master.

No client may hurt the daemon: connections are limited in number, in bytes and in time as a whole, one thread
serves them all, and a page is made once a second at most. GET and HEAD are answered, and each connection is
closed after one answer.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
import socket
import threading
import time

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


@dataclass(eq=False)
class _Connection:
    """An open connection.

    Attributes:
        task: What serves it.
        client: The address of the other end; "" for a unix socket.
        admitted: Whether it has sent a request with what a client has to show.
        evicted: Whether it makes room for another one.
    """

    task: asyncio.Task[None] | None
    client: str
    admitted: bool = False
    evicted: bool = False


Pages = Mapping[str, Callable[[], Page]]
"""Path -> what makes its page. A query is ignored."""


def _error(status: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", f"{status}\n".encode())


NOT_AUTHORIZED = _error("401 Unauthorized")
NOT_FOUND = _error("404 Not Found")
NOT_ALLOWED = _error("405 Method Not Allowed")
MALFORMED = _error("400 Bad Request")
BROKEN = _error("500 Internal Server Error")

#: What is answered to those that have shown nothing.
REFUSALS = (NOT_AUTHORIZED, MALFORMED)


class Endpoint:
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
        self._clock = clock
        self._longest = longest
        self._retry = retry
        self._access = access
        self._kept: dict[str, tuple[float, Page]] = {}
        self._open: dict[_Connection, None] = {}  # the oldest first
        self._reports = RateLimitedLogger(LOG)
        self._listener: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
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

    def close_in_child(self) -> None:
        """Close what a forked process inherited: otherwise the address stays in use when the master ends."""
        if self._listener is not None:
            self._listener.close()

    def remove(self) -> None:
        """Remove the unix socket, at the end of the daemon."""
        if self._address.path and self._listener is not None:
            Path(self._address.path).unlink(missing_ok=True)

    def _try_to_listen(self) -> None:
        try:
            self._listener = self._address.listen()
        except OSError as error:
            self._outage.report_failure(error)
        else:
            self._outage.report_success()
            LOG.info("Health checks and metrics are served on %s", self._address)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            LOG.exception("Health checks and metrics are no longer served")

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()  # forked processes must not finalize it: they share its epoll
        while self._listener is None:
            await asyncio.sleep(self._retry)
            self._try_to_listen()
        server = await asyncio.start_server(self._accept, sock=self._listener, limit=LARGEST_REQUEST)
        await server.serve_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            self._evict(self._least_wanted())
        connection = _Connection(asyncio.current_task(), _client_of(writer))
        self._open[connection] = None
        try:
            async with asyncio.timeout(self._longest):
                await self._encrypt(writer)
                await self._answer(reader, writer, connection)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # a client that is slow or has gone
        except asyncio.CancelledError:
            if not connection.evicted:
                raise
        except Exception as error:  # noqa: BLE001 - one line, whatever a client can cause
            self._reports.warning("broken", "Cannot serve a client of the monitoring port: %r", error)
        finally:
            self._open.pop(connection, None)
            writer.transport.abort()

    def _least_wanted(self) -> _Connection:
        """Return the connection that makes room for a new one.

        That is the oldest one of the client that has most, among those that have shown nothing. So a client
        with many connections takes the place of its own ones, and not of others.
        """
        strangers = [one for one in self._open if not one.admitted] or list(self._open)
        counts = Counter(one.client for one in strangers)
        return max(strangers, key=lambda one: counts[one.client])  # the first of equal ones

    def _evict(self, connection: _Connection) -> None:
        """End a connection. To abort its transport in a handshake would leave its writer without one."""
        self._open.pop(connection)
        connection.evicted = True
        if connection.task is not None:
            connection.task.cancel()

    async def _encrypt(self, writer: asyncio.StreamWriter) -> None:
        if self._access.tls is not None:
            async with asyncio.timeout(min(self._longest, LONGEST_HANDSHAKE)):
                await writer.start_tls(self._access.tls)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            head = b""
        method, page = self._find(head)
        connection.admitted = page not in REFUSALS
        writer.transport.set_write_buffer_limits(0)  # drain() waits until all is sent
        writer.write(_headers(page) + (b"" if method == "HEAD" else page.body))
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()  # reaches the client although forked processes have the socket too
        else:
            writer.close()  # TLS says so itself
        await reader.read(1)  # until the client has closed, or the time is over

    def _find(self, head: bytes) -> tuple[str, Page]:
        """Return method and page of a request."""
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", MALFORMED
        method, target, _ = words
        named = (line.partition(":") for line in lines)
        try:
            allowed = self._access.allows({name.lower(): value.strip() for name, _, value in named})
        except ConfigError as error:
            LOG.error("Request for health checks or metrics refused: %s", error)
            return method, BROKEN
        if not allowed:
            return method, NOT_AUTHORIZED
        if method not in {"GET", "HEAD"}:
            return method, NOT_ALLOWED
        return method, self._page(target.partition("?")[0])

    def _page(self, path: str) -> Page:
        make = self._pages.get(path)
        if make is None:
            return NOT_FOUND
        made_at, page = self._kept.get(path, (float("-inf"), BROKEN))
        if self._clock() - made_at < KEPT:
            return page
        try:
            page = make()
        except Exception:
            LOG.exception("Cannot make page %s", path)
            page = BROKEN
        self._kept[path] = self._clock(), page
        return page


def _client_of(writer: asyncio.StreamWriter) -> str:
    """Return the address at the other end of a connection, without the port."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def _headers(page: Page) -> bytes:
    return (
        f"HTTP/1.1 {page.status}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n"
        "\r\n"
    ).encode("latin-1")
