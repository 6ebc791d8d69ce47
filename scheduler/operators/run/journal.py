"""The moves of a run with their states, in a file: a line of JSON for each event, before what it announces.

A run that is begun again reads it, looks where each open move ended, and goes on. A run that ended with
nothing left, that was undone, or whose last event is a day old does not count in the next one. A move:

::

    waiting ──▶ requested ──▶ moved
                 │  │  └────▶ confirming ──▶ moved      a cold migration
                 │  └───────▶ refused ──▶ waiting       nova did nothing; it is planned once more
                 └──────────▶ failed                    a surprise: the run stops
    waiting ──▶ gone                                    deleted, or moved by someone else
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
import fcntl
import os
from pathlib import Path
import stat
import time
from typing import Any, Literal, Self

import msgspec

from scheduler.decisions.document import seconds_of
from scheduler.errors import BerthError

#: The version of the format.
VERSION = 1

EventName = Literal["begin", "disable", "step", "end", "undo"]


class Ending(StrEnum):
    """How a run ended: nothing left, something stays, a surprise, as the operator wanted; undone."""

    DONE = "done"
    STAY = "stay"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNDONE = "undo"


#: Seconds after its last event for which a run can be continued: a night's work.
LIFETIME = 86400.0

#: The begin of the file. It distinguishes a first line that a full disk cut from the file of somebody else.
FIRST = b'{"v":1,"at":"'


class MoveState(StrEnum):
    """How far a move has come."""

    WAITING = "waiting"
    REQUESTED = "requested"
    CONFIRMING = "confirming"
    MOVED = "moved"
    GONE = "gone"
    REFUSED = "refused"
    FAILED = "failed"


#: States of a move that nova may be working on.
OPEN = frozenset({MoveState.REQUESTED, MoveState.CONFIRMING})


@dataclass
class RunStep:
    """An instance that goes to another host: one move with its state.

    Attributes:
        vm_state: The state for which the way was chosen.
        way: ``live``, ``cold`` or ``evacuate``.
        reset_state: Whether its state is reset to ``error`` first, so that nova evacuates it.
        source_nodes: The providers of the host that it leaves.
        target_nodes: The providers of the host that it gets.
        after: Instances that have to be moved before, if they are moved.
        name: The name of the server, once it has been read.
        tries: How often nova was asked to move it.
        requested_at: When it was asked, in seconds since the epoch; ``ended_at`` alike.
        why: Why it was not moved.
    """

    instance: str
    source: str
    target: str
    way: str
    vm_state: str = ""
    reset_state: bool = False
    source_nodes: list[str] = field(default_factory=list)
    target_nodes: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    name: str = ""
    project: str = ""
    state: MoveState = MoveState.WAITING
    tries: int = 0
    requested_at: float = 0.0
    ended_at: float = 0.0
    why: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.instance})" if self.name else self.instance


class JournalUnusable(BerthError):
    """The file with the state of a run cannot be used."""


class RunEvent(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A line of the file; which of the values it has depends on the event."""

    v: int
    at: str = ""
    event: EventName = "begin"
    hosts: list[str] = []
    evacuate: bool = False
    host: str = ""
    reason: str = ""
    step: RunStep | None = None
    state: str = ""
    why: str = ""


_event = msgspec.json.Decoder(RunEvent)


@dataclass
class History:
    """What the file says.

    Attributes:
        hosts: Hosts of the run.
        disabled: Hosts that the run disabled, with the reason that it gave.
        steps: The moves that were begun, by instance.
        begun_at: When the run was begun first; "" if there is none.
        ended: How it ended; "" for a run that was interrupted.
        last_at: The time of the last event, in seconds since the epoch.
    """

    hosts: list[str] = field(default_factory=list)
    disabled: dict[str, str] = field(default_factory=dict)
    steps: dict[str, RunStep] = field(default_factory=dict)
    begun_at: str = ""
    ended: str = ""
    last_at: float = 0.0

    @property
    def open(self) -> list[RunStep]:
        """The moves that nova may be working on."""
        return [step for step in self.steps.values() if step.state in OPEN]

    def replay(self, event: RunEvent) -> None:
        at = seconds_of(event.at)
        match event.event:
            case "begin":
                if self.ended == Ending.DONE or at > self.last_at + LIFETIME:
                    self.steps, self.begun_at = {step.instance: step for step in self.open}, ""
                self.hosts, self.ended = event.hosts, ""
                self.begun_at = self.begun_at or event.at
                for step in self.steps.values():
                    step.tries = 0  # what nova refused to an earlier command may be possible by now
            case "disable":
                self.disabled[event.host] = event.reason
            case "step":
                if event.step is None:
                    raise ValueError("an event without its step")
                self.steps[event.step.instance] = event.step
            case "end":
                self.ended = event.state
            case "undo":
                self.hosts, self.disabled, self.steps = [], {}, {}
                self.begun_at = self.ended = ""
        self.last_at = at


def _write_entry(directory: Path) -> None:
    """Have the name of a new file on disk, as its lines will be."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RunJournal:
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
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                os.close(self._file)
                raise JournalUnusable(f"{path} is no regular file")
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
        whole, cut = data[: data.rfind(b"\n") + 1], data[data.rfind(b"\n") + 1 :]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                event = _event.decode(line)
                if event.v != VERSION:
                    raise JournalUnusable(f"{self.path} is of another version of Berth")
                self.history.replay(event)
            except ValueError as error:  # of msgspec too
                raise JournalUnusable(f"{self.path}, line {number}: not the state of a run") from error
        if not whole and not FIRST.startswith(cut[: len(FIRST)]):
            raise JournalUnusable(f"{self.path}, line 1: not the state of a run")
        self._cut(len(whole))

    def _cut(self, end: int) -> None:
        """Drop what is behind a position, and write there next."""
        os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)

    def write(self, event: EventName, **values: Any) -> None:
        """Add an event; it is on disk when this returns.

        Raises:
            JournalUnusable: It cannot be written.
        """
        at = datetime.fromtimestamp(self._wall_clock(), UTC).isoformat(timespec="seconds")
        line = {"v": VERSION, "at": at, "event": event, **values}
        data = msgspec.json.encode(line) + b"\n"
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        try:
            if os.write(self._file, data) != len(data):
                # the next line must not be added to this part of one
                self._cut(end)
                raise JournalUnusable(f"Cannot write {self.path}: the disk is full")
            os.fsync(self._file)
        except OSError as error:
            raise JournalUnusable(f"Cannot write {self.path}: {error.strerror}") from error
        # an event has the values as they are now; a step goes on to change
        self.history.replay(_event.decode(data))

    def write_step(self, step: RunStep) -> None:
        """Add the state of a move; raises as ``write``."""
        self.write("step", step=step)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
