"""A TCP proxy that holds, loses or trickles what one side sends, and heals again."""

import asyncio
from collections.abc import Callable
import contextlib
from dataclasses import dataclass
from enum import Enum
import socket
import struct
import threading
from typing import Self

CHUNK = 65536  # bytes that are read at a time
TRICKLE_BYTES = 1  # bytes that a trickling direction passes at a time
TRICKLE_INTERVAL = 0.02  # seconds between them


class Passage(Enum):
    """What happens to the bytes of one direction."""

    PASS = "pass"  # noqa: S105 - no password
    HOLD = "hold"  # they arrive after healing, as after a short partition
    LOSE = "lose"  # they never arrive, and neither does the end of the connection
    TRICKLE = "trickle"  # they arrive one by one


class Direction(Enum):
    """Where bytes go."""

    TO_SERVER = 0
    TO_CLIENT = 1


@dataclass(eq=False)
class _Link:
    """One connection: both of its ends, and whether bytes of it were lost."""

    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    has_hole: bool = False

    def reset(self) -> None:
        for writer in self.writers:
            _reset(writer)


class TcpProxy:
    """A context manager that passes connections on to a port on loopback.

    Its methods may be called from any thread.

    Attributes:
        port: Where it listens.
    """

    port: int

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._passages = dict.fromkeys(Direction, Passage.PASS)
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop
        self._changed: asyncio.Event
        self._stopped: asyncio.Event

    def __enter__(self) -> Self:
        listening = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(listening.set),), daemon=True)
        self._thread.start()
        listening.wait()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def disturb(self, passage: Passage, *directions: Direction) -> None:
        """Let this happen to all bytes of these directions from now on."""
        self._call(lambda: self._set(dict.fromkeys(directions, passage)))

    def heal(self) -> None:
        """Pass everything again; connections that lost bytes are reset."""
        self._call(self._heal)

    def redirect(self, port: int) -> None:
        """Pass connections on to another port from now on, and reset those that there are."""
        self._call(lambda: self._redirect(port))

    def _redirect(self, port: int) -> None:
        self._upstream_port = port
        for link in list(self._links):
            link.reset()

    def _heal(self) -> None:
        self._set(dict.fromkeys(Direction, Passage.PASS))
        for link in [link for link in self._links if link.has_hole]:
            link.reset()

    def _set(self, passages: dict[Direction, Passage]) -> None:
        self._passages.update(passages)
        self._changed.set()
        self._changed = asyncio.Event()

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(), done.set()))
        done.wait()

    async def _serve(self, listening: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed, self._stopped = asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        listening()
        await self._stopped.wait()
        server.close()
        self._set(dict.fromkeys(Direction, Passage.PASS))  # nothing waits for healing any more
        for link in list(self._links):
            link.reset()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            _reset(writer)
            return
        link = _Link((server_writer, writer))
        if self._stopped.is_set():
            link.reset()
            return
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pump(link, reader, Direction.TO_SERVER),
                self._pump(link, server_reader, Direction.TO_CLIENT),
            )
        finally:
            link.reset()
            await asyncio.sleep(0)  # the transports close in the next iteration
            self._links.discard(link)

    async def _pump(self, link: _Link, reader: asyncio.StreamReader, direction: Direction) -> None:
        writer = link.writers[direction.value]
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                while data:
                    data = await self._pass_on(link, writer, data, direction)
        while self._passages[direction] in {Passage.HOLD, Passage.LOSE}:
            await self._changed.wait()
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()

    async def _pass_on(
        self, link: _Link, writer: asyncio.StreamWriter, data: bytes, direction: Direction
    ) -> bytes:
        """Do with bytes what happens to them now, and return those that are left."""
        passage = self._passages[direction]
        if passage is Passage.HOLD:
            await self._changed.wait()
            return data
        if passage is Passage.LOSE:
            link.has_hole = True
            return b""
        count = TRICKLE_BYTES if passage is Passage.TRICKLE else len(data)
        writer.write(data[:count])
        await writer.drain()
        if passage is Passage.TRICKLE:
            await asyncio.sleep(TRICKLE_INTERVAL)
        return data[count:]


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection as a host does that does not know it: by a reset, not by an orderly end."""
    with contextlib.suppress(OSError):  # it is closed already
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
