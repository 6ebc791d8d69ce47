"""What workers report to the master once per second, and the channel for it.

A report is one datagram on a pair of sockets that the master makes before it forks: it arrives as a whole or
not at all, and a worker that is killed leaves nothing half written. Sending never blocks.
"""

from collections.abc import Iterator
import errno
import os
from pathlib import Path
import select
import socket

import msgspec
from oslo_log import log as logging

from scheduler.decisions.open_requests import OpenRequest
from scheduler.health.counters import Counts

LOG = logging.getLogger(f"nova.{__name__}")

#: Cells that a report has at most; a datagram has room for about a thousand.
MOST_CELLS = 500

#: Bytes of the largest datagram.
LARGEST = 1 << 18

#: Reports that are read in one round.
MOST_AT_ONCE = 1000


class CellState(msgspec.Struct, frozen=True):
    """What a worker knows of a cell.

    Attributes:
        name: The name of the cell, or its uuid if it has none.
        enabled: Whether it takes part in searches that name no cell.
        usable: Whether its hosts are used.
        age: Seconds since its rows were read; None if they never were.
    """

    name: str
    enabled: bool
    usable: bool
    age: float | None


class WorkerState(msgspec.Struct, frozen=True):
    """What health checks and metrics show of a worker.

    Attributes:
        cells: The cells.
        broker: Whether messages are read from the broker; None if that is not known. So for the next two.
        api_database: Whether the API database answered when it was last used.
        placement: Whether Placement answered these credentials when it was last used.
        placement_problem: Why it did not.
        decision_stream: Whether decisions of other schedulers arrive; None if they are not shared.
        stalled: Seconds for which the worker made no progress although there is work.
        requests: The oldest requests in progress.
        gauges: Name of a metric -> its value. The metric has the number of the worker as its only label.
    """

    cells: tuple[CellState, ...] = ()
    broker: bool | None = None
    api_database: bool | None = None
    placement: bool | None = None
    placement_problem: str = ""
    decision_stream: bool | None = None
    stalled: float = 0.0
    requests: tuple[OpenRequest, ...] = ()
    gauges: dict[str, float] = {}


class Report(msgspec.Struct, frozen=True):
    """One report of a worker.

    Attributes:
        worker: The number of the worker.
        pid: Its process.
        phase: ``starting``, ``serving`` or ``stopping``.
        reloads: How many changes of the configuration it has taken over.
        state: What it knows and does.
        counts: What it has counted since its last report.
    """

    worker: int
    pid: int
    phase: str
    reloads: int
    state: WorkerState
    counts: Counts


_decoder = msgspec.msgpack.Decoder(Report)


class ReportChannel:
    """The pair of sockets; made before workers are forked."""

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._sender.setsockopt(socket.SOL_SOCKET, option, LARGEST)

    def send(self, report: Report) -> bool:
        """Send a report.

        Returns:
            Whether it was sent. It is not while the master reads nothing. Of one that is too large, only what
            shows that the worker lives is sent.
        """
        try:
            self._sender.send(msgspec.msgpack.encode(report))
        except OSError as error:
            LOG.debug("Report of worker %d was not sent: %s", report.worker, error)
            if error.errno == errno.EMSGSIZE:
                state = msgspec.structs.replace(report.state, cells=(), requests=())
                self.send(msgspec.structs.replace(report, state=state, counts={}))
            return False
        return True

    def wait(self, timeout: float) -> None:
        """Return when a report has arrived, after ``timeout`` seconds at the latest.

        Reports have to be read at once: by default a kernel keeps no more than ten datagrams.
        """
        select.select([self._receiver], [], [], timeout)

    def received(self) -> Iterator[Report]:
        """Yield the reports that have arrived."""
        for _ in range(MOST_AT_ONCE):
            try:
                data = self._receiver.recv(LARGEST)
            except BlockingIOError:
                return
            try:
                yield _decoder.decode(data)
            except msgspec.DecodeError as error:
                LOG.warning("Skipped an unreadable report of a worker: %s", error)

    def close(self) -> None:
        """Close both ends."""
        self._receiver.close()
        self._sender.close()


def resident_memory(status: str = "/proc/self/statm") -> int:
    """Return the bytes of resident memory of this process; 0 if unknown."""
    try:
        return int(Path(status).read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
