"""What is done for a load: requests to Placement by kind, records of the decision stream."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
import re
import threading
from typing import Self

from scheduler.stream.broker import StreamConnection
from scheduler.stream.records import decode
from tools.side_by_side.rig import Rig

Connect = Callable[[], StreamConnection]
"""Connects to the decision stream of a load."""

#: Prefixes of what is counted.
PLACEMENT, STREAM = "placement: ", "stream: "

STATEMENTS = "statements of the databases"

#: Seconds that a wait for the next message takes.
_ROUND = 0.2

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)


class Counting:
    """Counts from entry to exit of the context; ``counts`` has the totals then."""

    def __init__(self, rig: Rig, stream: Connect | None) -> None:
        """Count for schedulers, and what they write to their decision stream, if any."""
        self.counts: Mapping[str, int] = {}
        self._rig = rig
        self._stream = StreamCounter(stream) if stream else None
        self._begun = 0
        self._statements = 0

    def __enter__(self) -> Self:
        if self._stream:
            self._stream.start()
        self._begun = self._rig.placement_requests.stat().st_size
        self._statements = self._rig.statements()
        return self

    def __exit__(self, *exc_info: object) -> None:
        counts = Counter({STATEMENTS: self._rig.statements() - self._statements})
        requests = _read(self._rig.placement_requests, self._begun)
        counts.update(PLACEMENT + kind for kind in map(kind_of, requests.splitlines()))
        if self._stream:
            counts += self._stream.stop()
        self.counts = dict(counts)


def kind_of(line: str) -> str:
    """Return the kind of a request to Placement by a line of its log: method, path and status."""
    method, path, status = line.split()
    kind = f"{method} {_UUID.sub('UUID', path)}"
    return kind if status.startswith("2") else f"{kind} {status}"


def _read(path: Path, begun: int) -> str:
    with path.open("rb") as file:
        file.seek(begun)
        return file.read().decode()


class StreamCounter:
    """Counts messages and records of a decision stream, in a thread."""

    def __init__(self, connect: Connect) -> None:
        """Count what is written after ``start``."""
        self._connect = connect
        self._counts: Counter[str] = Counter()
        self._ended = threading.Event()
        self._subscribed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to count."""
        self._thread.start()
        self._subscribed.wait(10)

    def stop(self) -> Counter[str]:
        """Return how many messages and records of each kind were written."""
        self._ended.set()
        self._thread.join()
        return self._counts

    def _run(self) -> None:
        with closing(self._connect()) as connection:
            connection.subscribe("next")
            self._subscribed.set()
            while not self._ended.is_set():
                body = connection.receive(_ROUND)
                if body is not None:
                    self._counts[f"{STREAM}messages"] += 1
                    self._counts.update(STREAM + record.kind for record in decode(body).records)
                connection.send_heartbeat()
