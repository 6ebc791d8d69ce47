"""What is done for a load: requests to Placement by kind, records of the decision stream, forwarded calls."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
import re
import threading
from typing import Self

from scheduler.stream.broker import StreamConnection
from scheduler.stream.records import decode
from tools.rig.nova_cloud import NovaCloud

Connect = Callable[[], StreamConnection]
"""Connects to the decision stream of a load."""

#: Prefixes of what is counted.
PLACEMENT, STREAM = "placement: ", "stream: "

#: What the log of a scheduler says of each call that it hands over to another one.
FORWARDED = "Forwarded call "
HANDED_OVER, STATEMENTS = "calls forwarded", "statements of the databases"

#: Seconds that a wait for the next message takes.
_ROUND = 0.2

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)


class Counting:
    """Counts from entry to exit of the context; ``counts`` has the totals then."""

    def __init__(self, rig: NovaCloud, logs: Sequence[Path], stream: Connect | None) -> None:
        """Count for schedulers with these logs, and what they write to their decision stream, if any."""
        self.counts: Mapping[str, int] = {}
        self._rig = rig
        self._files = [rig.placement_requests, *logs]
        self._stream = StreamCounter(stream) if stream else None
        self._begun: list[int] = []
        self._statements = 0

    def __enter__(self) -> Self:
        if self._stream:
            self._stream.start()
        self._begun = [path.stat().st_size for path in self._files]
        self._statements = self._rig.statements()
        return self

    def __exit__(self, *exc_info: object) -> None:
        counts = Counter({STATEMENTS: self._rig.statements() - self._statements})
        requests, *logs = (_read(path, begun) for path, begun in zip(self._files, self._begun, strict=True))
        counts.update(PLACEMENT + kind for kind in map(kind_of, requests.splitlines()))
        counts[HANDED_OVER] = sum(text.count(FORWARDED) for text in logs)
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
