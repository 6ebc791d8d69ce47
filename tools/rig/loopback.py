"""The HTTP server of the tests' faulty proxy and of the benchmarks' prepared answer.

It has one thread for each connection and writes no log. Tests break its connections at defined points of a
request, which a WSGI server does not support.
"""

import contextlib
import http.server
import socket


class Server(http.server.ThreadingHTTPServer):
    """``handler`` is a ``Handler`` class; ``port`` 0 selects a free port."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler, port: int = 0, address: str = "127.0.0.1") -> None:
        self.connections = set()
        super().__init__((address, port), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def hang_up(self) -> None:
        """Close the connections that clients keep open, which ends their threads."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address) -> None:
        """Ignore the error: clients may close their connections at any time."""


class Handler(http.server.BaseHTTPRequestHandler):
    """A handler that keeps connections open and sends each answer at once."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, *args: object) -> None:
        """Log nothing."""
