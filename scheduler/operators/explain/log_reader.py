"""Reading decisions back from the decision log, the latest first."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from scheduler.decisions.decision_log import PREFIX, SUFFIX
from scheduler.decisions.document import VERSION, Decision, DecisionEntry, decode, decode_entry, seconds_of

#: Up to this number of names are searched in each line before it is parsed; for more, parsing costs less.
FEW = 8


class DecisionLogReader:
    """The decisions in a directory, as ``DecisionLog`` of any process has written them.

    Methods raise OSError if the directory or a file cannot be read.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def find(self, names: Iterable[str]) -> dict[str, tuple[bytes, str]]:
        """Return the latest document of each request id or instance, and the name of its file."""
        names = frozenset(names)
        words = [name.encode() for name in names]
        latest: dict[str, tuple[str, bytes, str]] = {}
        for path, written in self._files():
            if len(latest) == len(names) and all(seconds_of(each[0]) > written for each in latest.values()):
                break  # the decisions in this file and the others began earlier
            for line in _lines_backwards(path):
                is_likely = len(words) > FEW or any(word in line for word in words)
                if is_likely and (entry := _parsed(line)):
                    for name in names.intersection((entry.request_id, *entry.instances)):
                        if name not in latest or entry.time > latest[name][0]:
                            latest[name] = entry.time, line, path.name
        return {name: each[1:] for name, each in latest.items()}

    def entries(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[dict[str, Any]]:
        """Return one entry for each decision, the latest first; arguments are those of ``DecisionMemory``."""
        found: list[dict[str, Any]] = []
        for path, _ in self._files(since):
            wanted = (
                entry.values()
                for entry, _ in _entries(path)
                if entry.is_wanted(failed=failed, since=since, project=project)
            )
            found += islice(wanted, at_most)
        return sorted(found, key=lambda one: one["time"], reverse=True)[:at_most]

    def decisions(self, since: float = 0.0) -> Iterator[Decision]:
        """Yield the documents of requests since a time, in no order."""
        for path, _ in self._files(since):
            for entry, line in _entries(path):
                if seconds_of(entry.time) >= since:
                    yield decode(line)

    def _files(self, since: float = 0.0) -> list[tuple[Path, float]]:
        """Return the files written to since then and the times of the last writes, the latest first.

        Schedulers may remove old files at the same time.
        """
        if not self._directory.is_dir():
            raise FileNotFoundError(f"{self._directory} is not a directory")
        written: dict[Path, float] = {}
        for path in self._directory.glob(f"{PREFIX}*{SUFFIX}"):
            with suppress(FileNotFoundError):
                written[path] = path.stat().st_mtime
        return sorted(
            ((path, at) for path, at in written.items() if at >= since), key=itemgetter(1), reverse=True
        )


def _entries(path: Path) -> Iterator[tuple[DecisionEntry, bytes]]:
    """Yield the requests of a file with their lines, the last line first; late explanations are last."""
    for line in _lines_backwards(path):
        if entry := _parsed(line):
            yield entry, line


def _parsed(line: bytes) -> DecisionEntry | None:
    """Return an entry; None for a line of another release, or a partial one of a killed process."""
    try:
        entry = decode_entry(line)
    except msgspec.DecodeError:
        return None
    return entry if entry.version == VERSION else None


def _lines_backwards(path: Path) -> Iterator[bytes]:
    try:
        text = path.read_bytes()  # not mapped: reading a map ends the process if the file is truncated
    except FileNotFoundError:
        return
    end = len(text)
    while end >= 0:
        begin = text.rfind(b"\n", 0, end) + 1
        if line := text[begin:end]:
            yield line
        end = begin - 1
