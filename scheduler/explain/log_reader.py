"""Reading decisions back from the decision log, the latest first."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
import os
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from scheduler.explain.decision_log import PREFIX, SUFFIX
from scheduler.explain.document import entry_of
from scheduler.explain.explainer import seconds_of

Decision = dict[str, Any]

#: Bytes that are read at once.
BLOCK = 1 << 20


class DecisionLogReader:
    """The decisions in a directory, as ``DecisionLog`` of any worker has written them."""

    def __init__(self, directory: str | Path) -> None:
        """Read nothing yet."""
        self._directory = Path(directory)

    def find(self, name: str) -> tuple[Decision, str] | None:
        """Return the latest decision on a request id or an instance, and the name of its file.

        Raises:
            OSError: The directory or a file cannot be read.
        """
        latest: tuple[Decision, str] | None = None
        for path, written in self._files():
            if latest and seconds_of(latest[0]["time"]) > written:
                break  # what stands in this file and the others began earlier
            found = _latest(path, name)
            if found and (latest is None or found["time"] > latest[0]["time"]):
                latest = found, path.name
        return latest

    def entries(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[Decision]:
        """Return one entry for each decision, the latest first; arguments are those of ``Explainer``.

        Raises:
            OSError: The directory or a file cannot be read.
        """
        found: list[Decision] = []
        for path, _ in self._files(since):
            found += _wanted(path, failed=failed, since=since, project=project, at_most=at_most)
        return sorted(found, key=lambda one: one["time"], reverse=True)[:at_most]

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


def _latest(path: Path, name: str) -> Decision | None:
    """Return the last decision of one file on a request id or an instance."""
    wanted = name.encode()
    for line in _lines_backwards(path):
        if wanted in line:
            decision = _parsed(line)
            if decision and (name == decision["request_id"] or name in decision["instances"]):
                return decision
    return None


def _wanted(
    path: Path, *, failed: bool, since: float, project: str | None, at_most: int
) -> Iterable[Decision]:
    """Yield the entries of one file, the latest first."""
    count = 0
    for line in _lines_backwards(path):
        decision = _parsed(line)
        if decision is None:
            continue
        began = seconds_of(decision["time"])
        if count == at_most or began + decision["milliseconds"].get("total", 0.0) / 1000 < since:
            return  # lines are in the order in which requests ended
        if began < since:
            continue
        if (failed and decision["result"] != "failed") or project not in (None, decision["project_id"]):
            continue
        count += 1
        yield entry_of(decision)


def _parsed(line: bytes) -> Decision | None:
    """Return a decision; None for a line that is none, as the last one of a process that was killed."""
    try:
        decision = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return decision if isinstance(decision, dict) and {"request_id", "instances"} <= decision.keys() else None


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
