"""The state of a run in a file: one line of JSON an event, on disk before the action that it announces.

A run that is begun again reads it, looks where each open move ended, and goes on. A run that ended with
nothing left, or that was undone, does not count in the next one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
import fcntl
import os
from pathlib import Path
import time
from typing import Any, Self

import orjson

from scheduler.errors import BerthError
from scheduler.operators.run.step import OPEN, Step

#: The version of the format.
VERSION = 1

BEGIN, DISABLE, STEP, END, UNDO = "begin", "disable", "step", "end", "undo"

#: How a run ended with nothing left to do.
DONE = "done"


class JournalUnusable(BerthError):
    """The file with the state of a run cannot be used."""


@dataclass
class History:
    """What the file says.

    Attributes:
        hosts: Hosts of the run.
        disabled: Hosts that the run disabled, with the reason that it gave.
        steps: The moves that were begun, by instance.
        begun_at: When the run was begun first; "" if there is none.
        ended: How it ended; "" for a run that was interrupted.
    """

    hosts: list[str] = field(default_factory=list)
    disabled: dict[str, str] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    begun_at: str = ""
    ended: str = ""

    @property
    def open(self) -> list[Step]:
        """The moves that nova may be working on."""
        return [step for step in self.steps.values() if step.state in OPEN]

    def replay(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "begin":
                if self.ended == DONE:
                    self.steps, self.begun_at = {}, ""
                self.hosts, self.ended = event["hosts"], ""
                self.begun_at = self.begun_at or event["at"]
                for step in self.steps.values():
                    step.tries = 0  # what nova refused to an earlier command may be possible by now
            case "disable":
                self.disabled[event["host"]] = event["reason"]
            case "step":
                step = Step(**event["step"])
                self.steps[step.instance] = step
            case "end":
                self.ended = event["state"]
            case "undo":
                self.hosts, self.disabled, self.steps = [], {}, {}
                self.begun_at = self.ended = ""


def _write_entry(directory: Path) -> None:
    """Have the name of a new file on disk, as its lines will be."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Journal:
    """The file, held by one process at a time."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        """Read the file, or make an empty one that only its owner can read.

        Raises:
            JournalUnusable: It cannot be read or written, or another process holds it.
        """
        self.path = path
        self._wall_clock = wall_clock
        self.history = History()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            _write_entry(path.parent)
        except OSError as error:
            raise JournalUnusable(f"Cannot open {path}: {error.strerror}") from error
        try:
            self._lock()
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalUnusable(f"Another process carries out the plan of {self.path}") from error

    def _read(self) -> None:
        with os.fdopen(os.dup(self._file), "rb") as opened:
            data = opened.read()
        # what a crash cut off was never acted upon
        whole = data.rpartition(b"\n")[0]
        end = len(whole) + 1 if whole else 0
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                event = orjson.loads(line)
                if event["v"] != VERSION:
                    raise JournalUnusable(f"{self.path} is of another version of Berth")
                self.history.replay(event)
            except (ValueError, KeyError, TypeError) as error:
                raise JournalUnusable(f"{self.path}, line {number}: not the state of a run") from error
        os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)

    def write(self, event: str, **values: Any) -> None:
        """Add an event; it is on disk when this returns.

        Raises:
            JournalUnusable: It cannot be written.
        """
        at = datetime.fromtimestamp(self._wall_clock(), UTC).isoformat(timespec="seconds")
        line = {"v": VERSION, "at": at, "event": event, **values}
        data = orjson.dumps(line) + b"\n"
        try:
            if os.write(self._file, data) != len(data):
                raise JournalUnusable(f"Cannot write {self.path}: the disk is full")
            os.fsync(self._file)
        except OSError as error:
            raise JournalUnusable(f"Cannot write {self.path}: {error.strerror}") from error
        # an event has the values as they are now; a step goes on to change
        self.history.replay(orjson.loads(data))

    def write_step(self, step: Step) -> None:
        """Add the state of a move; raises as ``write``."""
        self.write(STEP, step=step.document())

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
