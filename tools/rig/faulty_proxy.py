"""A reverse proxy that misbehaves on demand (spec: placement-and-workflow 8.4).

::

    with FaultyProxy(url) as proxy:
        proxy.on("PUT", "/allocations", drop_after, delayed(0.2))
        ... talk to proxy.url: the first PUT is carried out without an answer, the second takes its time
        proxy.seen  # [("PUT", "/allocations/…"), …]

A fault is a function: it is given ``forward``, which sends the request on and returns the answer, and returns
the answer to give, or None to hang up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
import http.client
import json
import socket
import threading
import time
from typing import Self
from urllib.parse import urlsplit

from tools.rig import loopback


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    headers: dict = field(default_factory=dict)


Fault = Callable[[Callable[[], Answer]], Answer | None]


def drop_before(forward) -> None:
    """The request is lost."""


def drop_after(forward) -> None:
    """The request is carried out, its answer is lost."""
    forward()


def html(status: int, *, after: bool = False) -> Fault:
    """What a load balancer says; with ``after`` the request was carried out nevertheless."""
    answer = Answer(status, b"<html>Sorry</html>", {"Content-Type": "text/html"})
    return lambda forward: (after and forward(), answer)[1]


def error(
    status: int, detail: str = "", code: str = "placement.undefined_code", *, after: bool = False
) -> Fault:
    """An error as Placement words it."""
    body = json.dumps({"errors": [{"status": status, "detail": detail, "code": code}]}).encode()
    answer = Answer(status, body, {"Content-Type": "application/json"})
    return lambda forward: (after and forward(), answer)[1]


concurrent_update = error(409, "Another thread concurrently updated the data", "placement.concurrent_update")


def delayed(seconds: float) -> Fault:
    """The request is carried out at once, its answer takes time."""

    def fault(forward):
        answer = forward()
        time.sleep(seconds)
        return answer

    return fault


def after_doing(action: Callable[[], object]) -> Fault:
    """Something happens between the client's sending and the server's receiving."""
    return lambda forward: (action(), forward())[1]


def late(seconds: float) -> Fault:
    """The client sees the connection break at once; the request is carried out only later."""

    def fault(forward):
        threading.Timer(seconds, forward).start()

    return fault


class FaultyProxy:
    """A context manager. Rules are tried in their order; one whose faults are used up is gone."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._lock = threading.Lock()
        self._rules: list[tuple[str, str, list[Fault]]] = []
        self.seen: list[tuple[str, str]] = []

    def on(self, method: str, path: str, *faults: Fault) -> None:
        """The next requests with this method and beginning of the path meet these faults, one each."""
        with self._lock:
            self._rules.append((method, path, list(faults)))

    def clear_faults(self) -> None:
        """From now on nothing misbehaves."""
        with self._lock:
            self._rules.clear()

    def count(self, method: str, path: str = "") -> int:
        """How many such requests came."""
        return sum(one == method and other.startswith(path) for one, other in self.seen)

    def __enter__(self) -> Self:
        self._server = loopback.Server(_Handler)
        self._server.proxy = self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = self._server.url
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()

    def serve(self, method: str, path: str, forward) -> Answer | None:
        fault = None
        with self._lock:
            self.seen.append((method, path))
            for rule in self._rules:
                if rule[0] == method and path.startswith(rule[1]) and rule[2]:
                    fault = rule[2].pop(0)
                    break
        return fault(forward) if fault else forward()

    def forward(self, method: str, path: str, body: bytes, headers: dict) -> Answer:
        connection = http.client.HTTPConnection(self._upstream.hostname, self._upstream.port, timeout=30)
        try:
            connection.request(method, self._upstream.path + path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.headers))
        finally:
            connection.close()


class _Handler(loopback.Handler):
    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        proxy = self.server.proxy
        answer = proxy.serve(
            self.command, self.path, lambda: proxy.forward(self.command, self.path, body, headers)
        )
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815
