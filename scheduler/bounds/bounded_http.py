"""HTTP responses that are bounded as a whole.

The timeout of the HTTP library is for each read from the socket: a server that sends a byte now and then
keeps its client waiting without a bound. Here the read timeout is for the whole response, from its first byte
to its last, and the number of bytes has a bound too. Connecting and sending are bounded by the library.
"""

from collections.abc import Callable
from functools import partial
from http.client import HTTPResponse
import io
import socket
import time
from typing import Any, cast

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import PoolManager, ProxyManager

# Bytes of a response; the allocation candidates of 10,000 hosts are a tenth of that.
MAX_BYTES = 512 * 1024 * 1024


class ResponseTooLong(OSError):
    """A response has more bytes than any that is expected."""


class BoundedReader(io.RawIOBase):
    """Reads one response from a socket."""

    def __init__(
        self,
        sock: socket.socket,
        clock: Callable[[], float] = time.monotonic,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Begin a response.

        Args:
            sock: The socket; its timeout is the time for the whole response.
            max_bytes: The largest response.
        """
        self._socket = sock
        self._raw = cast(io.RawIOBase, sock.makefile("rb", buffering=0))
        self._clock = clock
        timeout = sock.gettimeout()
        self._end = None if timeout is None else clock() + timeout
        self._left = max_bytes

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, at most as much as the buffer holds.

        Raises:
            TimeoutError: The time for the response is over.
            ResponseTooLong: The response is too long.
        """
        if self._end is not None:
            remaining = self._end - self._clock()
            if remaining <= 0:
                raise TimeoutError("the response did not end in time")
            self._socket.settimeout(remaining)
        count = self._raw.readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise ResponseTooLong("the response is too long")
        return count

    def close(self) -> None:
        """Let go of the socket, which the connection may use for its next response."""
        self._raw.close()
        super().close()


class BoundedResponse(HTTPResponse):
    """A response of the standard library that is read through a ``BoundedReader``."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        """Read from ``sock``."""
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self.fp = io.BufferedReader(BoundedReader(sock))


class _PlainConnection(HTTPConnection):
    response_class = BoundedResponse


class _SecureConnection(HTTPSConnection):
    response_class = BoundedResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def bound_responses(session: requests.Session) -> None:
    """Bound the responses of all connections that a session opens from now on, those to HTTP proxies too."""
    for transport in session.adapters.values():
        if isinstance(transport, HTTPAdapter):
            _bound(transport.poolmanager)
            transport.proxy_manager_for = partial(_proxy_manager_for, transport)  # type: ignore[method-assign]


def _proxy_manager_for(transport: HTTPAdapter, proxy: str, **options: Any) -> Any:
    manager = type(transport).proxy_manager_for(transport, proxy, **options)
    if isinstance(manager, ProxyManager):
        _bound(manager)
    return manager


def _bound(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
