"""Reading decisions back from the decision log, the latest first."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
import os
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from scheduler.explain.decision_log import PREFIX, SUFFIX
from scheduler.explain.document import VERSION, Decision, Entry, decode, decode_entry, seconds_of

#: Bytes that are read at once.
BLOCK = 1 << 20


class DecisionLogReader:
    """The decisions in a directory, as ``DecisionLog`` of any worker has written them."""

    def __init__(self, directory: str | Path) -> None:
        """Read nothing yet."""
        self._directory = Path(directory)

    def find(self, name: str) -> tuple[bytes, str] | None:
        """Return the latest document of a request id or an instance, and the name of its file.

        Raises:
            OSError: The directory or a file cannot be read.
        """
        latest: tuple[str, bytes, str] | None = None
        for path, written in self._files():
            if latest and seconds_of(latest[0]) > written:
                break  # what stands in this file and the others began earlier
            found = _latest(path, name)
            if found and (latest is None or found[0] > latest[0]):
                latest = *found, path.name
        return latest and latest[1:]

    def entries(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[dict[str, Any]]:
        """Return one entry for each decision, the latest first; arguments are those of ``Explainer``.

        Raises:
            OSError: The directory or a file cannot be read.
        """
        found: list[dict[str, Any]] = []
        for path, _ in self._files(since):
            found += _wanted(path, failed=failed, since=since, project=project, at_most=at_most)
        return sorted(found, key=lambda one: one["time"], reverse=True)[:at_most]

    def decisions(self, since: float = 0.0) -> Iterator[Decision]:
        """Yield the documents of requests since a time, in no order.

        Raises:
            OSError: The directory or a file cannot be read.
        """
        for path, _ in self._files(since):
            for entry, line in _since(path, since):
                if seconds_of(entry.time) >= since:
                    yield decode(line)

    def _files(self, since: float = 0.0) -> list[tuple[Path, float]]:
        """Return the files written to since then, and when they were written to last, the latest first.

        Workers remove old ones meanwhile.
        """
        if not self._directory.is_dir():
            raise FileNotFoundError(f"{self._directory} is no directory")
        written: dict[Path, float] = {}
        for path in self._directory.glob(f"{PREFIX}*{SUFFIX}"):
            with suppress(FileNotFoundError):
                written[path] = path.stat().st_mtime
        return sorted(
            ((path, at) for path, at in written.items() if at >= since), key=itemgetter(1), reverse=True
        )


def _latest(path: Path, name: str) -> tuple[str, bytes] | None:
    """Return the last document of a request id or an instance in one file, after its time."""
    wanted = name.encode()
    for line in _lines_backwards(path):
        if wanted in line and (entry := _parsed(line)) and name in (entry.request_id, *entry.instances):
            return entry.time, line
    return None


def _wanted(
    path: Path, *, failed: bool, since: float, project: str | None, at_most: int
) -> Iterable[dict[str, Any]]:
    """Yield the entries of one file, the latest first."""
    count = 0
    for entry, _ in _since(path, since):
        if count == at_most:
            return
        if entry.is_wanted(failed=failed, since=since, project=project):
            count += 1
            yield entry.values()


def _since(path: Path, since: float) -> Iterator[tuple[Entry, bytes]]:
    """Yield the requests of one file that ended since a time with their lines, the latest first."""
    for line in _lines_backwards(path):
        entry = _parsed(line)
        if entry is None:
            continue
        if seconds_of(entry.time) + entry.milliseconds.get("total", 0.0) / 1000 < since:
            return  # lines are in the order in which requests ended
        yield entry, line


def _parsed(line: bytes) -> Entry | None:
    """Return an entry; None for a line of another release, or the last one of a process that was killed."""
    try:
        entry = decode_entry(line)
    except msgspec.DecodeError:
        return None
    return entry if entry.version == VERSION else None


def _lines_backwards(path: Path) -> Iterator[bytes]:
    with suppress(FileNotFoundError), path.open("rb") as file:
        yield from _backwards(file)


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    left = file.seek(0, os.SEEK_END)
    rest = b""
    while left:
        size = min(BLOCK, left)
        left -= size
        file.seek(left)
        first, *lines = (file.read(size) + rest).split(b"\n")
        yield from (line for line in reversed(lines) if line)
        rest = first
    if rest:
        yield rest
