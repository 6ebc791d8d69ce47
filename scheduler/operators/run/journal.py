"""The state of a run: the document that ``-f json`` prints, in a file that is written before each action.

A run that is begun again reads it, looks where each open move ended, and goes on. A run does not count in the
next one if nothing was left, if a balance came to its end, if it was undone, or after a day. A move:

::

    waiting ──▶ requested ──▶ moved
       │           └────────▶ failed      nova did not move the instance, or it is broken or lost
       ├────────────────────▶ refused     nova does not accept it, or the instance is not as planned
       └────────────────────▶ gone        nova does not have it, or on another host

What becomes of a requested move is read in nova: the task, host and actions of the instance.
"""

from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from enum import StrEnum
import fcntl
import os
from pathlib import Path
import socket

import msgspec

from scheduler.decisions.document import seconds_of
from scheduler.errors import BerthError
from scheduler.operators.shown import files


class Ending(StrEnum):
    """How a run ended: nothing left, something stays, a surprise, as the operator wanted; undone."""

    DONE = "done"
    STAY = "stay"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    UNDONE = "undone"


#: Seconds after its last move for which a run can be continued: a night's work.
LIFETIME = 86400.0


class MoveState(StrEnum):
    """How far a move has come."""

    WAITING = "waiting"
    REQUESTED = "requested"
    MOVED = "moved"
    GONE = "gone"
    REFUSED = "refused"
    FAILED = "failed"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


class RunMove(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An instance that goes to another host.

    Attributes:
        name: The name of the server, once it has been read; ``project`` alike.
        way: ``live``, ``cold`` or ``evacuate``.
        tries: How often it was to be moved by this command.
        why: Why it was not moved, or is still open.
    """

    instance: str
    name: str | None = None
    project: str | None = None
    source: str = msgspec.field(name="from")
    to: str
    way: str
    state: MoveState = MoveState.WAITING
    tries: int = 0
    requested_at: str | None = None
    ended_at: str | None = None
    seconds: float | None = None
    why: str | None = None

    @property
    def label(self) -> str:
        return f"{self.name} ({self.instance})" if self.name else self.instance

    @property
    def is_open(self) -> bool:
        """Whether nova may be working on it."""
        return self.state == MoveState.REQUESTED

    @property
    def requested(self) -> float:
        """When nova was asked, in seconds since the epoch; 0 if it was not."""
        return seconds_of(self.requested_at) if self.requested_at else 0.0

    def end(self, state: MoveState, why: str, now: float) -> None:
        self.state, self.why, self.ended_at = state, why or None, moment(now)
        if self.requested_at:
            self.seconds = seconds_of(self.ended_at) - self.requested


class Stay(msgspec.Struct, forbid_unknown_fields=True):
    """An instance for which a plan has no move."""

    instance: str
    host: str
    vm_state: str
    why: str


class Enabled(msgspec.Struct, forbid_unknown_fields=True):
    """Whether a host that the run disabled is enabled again, and why."""

    host: str
    enabled: bool
    why: str | None = None


class RunState(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole run.

    Attributes:
        run: The kind of its plan.
        state: How it ended; a run that was killed was interrupted.
        why: The surprise; None for none.
        disabled: Hosts that the run disabled, with the reason that it gave.
        begun_at: When the run was begun first.
        moves: All moves of this run and of those that it continues.
        left: Moves of the last plan that were not begun.
        stays: Instances for which there is no move, with the reason.
        held_in_placement: Consumers that still hold something of a host, by host.
        services: What was done with the hosts, if the run was undone.
    """

    run: str = ""
    state: Ending = Ending.INTERRUPTED
    why: str | None = None
    hosts: list[str] = []
    disabled: dict[str, str] = {}
    begun_at: str = ""
    moves: list[RunMove] = []
    left: list[RunMove] = []
    stays: list[Stay] = []
    held_in_placement: dict[str, list[str]] = {}
    state_file: str = ""
    services: list[Enabled] | msgspec.UnsetType = msgspec.UNSET

    @property
    def open(self) -> list[RunMove]:
        return [move for move in self.moves if move.is_open]

    @property
    def moved(self) -> int:
        return sum(move.state == MoveState.MOVED for move in self.moves)

    @property
    def refused(self) -> dict[str, str]:
        """The hosts to which instances were not moved, by instance."""
        states = {MoveState.REFUSED, MoveState.FAILED}
        return {move.instance: move.to for move in self.moves if move.state in states}

    def begin(self, kind: str, hosts: list[str], now: float) -> None:
        """Begin a run, which continues the last one if that is not over."""
        moments = [each for move in self.moves for each in (move.requested_at, move.ended_at)]
        last = max((seconds_of(each) for each in (self.begun_at, *moments) if each), default=now)
        over = self.state in {Ending.DONE, Ending.UNDONE} or (self.state == Ending.STAY and not self.hosts)
        if over or now > last + LIFETIME:
            self.moves, self.begun_at = self.open, ""
        for move in self.moves:
            move.tries = 0  # what nova refused to an earlier command may be possible by now
        self.run, self.hosts, self.begun_at = kind, hosts, self.begun_at or moment(now)
        self.state, self.why = Ending.INTERRUPTED, None
        self.left, self.stays, self.held_in_placement = [], [], {}


#: A run that was not begun.
NOTHING = RunState()

_state = msgspec.json.Decoder(RunState)


class JournalUnusable(BerthError):
    """The file with the state of a run cannot be used."""


class RunJournal(AbstractContextManager["RunJournal"]):
    """The file, whose lock one process at a time has.

    Attributes:
        state: What the file says, and then what ``save`` writes next.
    """

    def __init__(self, path: Path) -> None:
        """Read the file, if there is one.

        Raises:
            JournalUnusable: It cannot be read, or another process has its lock.
        """
        self.path = path
        try:
            if path.exists() and not path.is_file():
                raise JournalUnusable(f"{path} is no regular file")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(f"{path}.lock", flags, 0o600)
        except OSError as error:
            raise JournalUnusable(f"Cannot open {path}: {error.strerror}") from error
        try:
            self._take_lock()
            self._saved = path.read_bytes() if path.exists() else b""
            self._load()
        except OSError as error:
            os.close(self._lock)
            raise JournalUnusable(f"Cannot read {path}: {error.strerror}") from error
        except BaseException:
            os.close(self._lock)
            raise

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._lock, 200, 0).decode(errors="replace") or "another process"
            raise JournalUnusable(f"{self.path} is held by {holder}, which carries the plan out") from error
        with suppress(OSError):  # the disk is full: the name of the holder is only a hint
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, this_process().encode(), 0)

    def _load(self) -> None:
        try:
            self.state = _state.decode(self._saved) if self._saved else RunState()
        except ValueError as error:  # also of msgspec
            raise JournalUnusable(f"{self.path} is not the state of a run") from error
        self.state.state_file = str(self.path)

    def save(self) -> None:
        """Write the state; it is on disk when this returns.

        Raises:
            JournalUnusable: It cannot be written. The state is then what the file has.
        """
        data = msgspec.json.encode(self.state)
        try:
            files.write(self.path, data.decode(), durable=True)
        except OSError as error:
            self._load()
            raise JournalUnusable(f"Cannot write {self.path}: {error.strerror}") from error
        self._saved = data

    def save_move(self, move: RunMove) -> None:
        """Write the state with a move in place of the last one of its instance; raises as ``save``."""
        moves = self.state.moves
        found = [at for at, each in enumerate(moves) if each.instance == move.instance] or [len(moves)]
        moves[found[0] : found[0] + 1] = [move]
        self.save()

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)


def this_process() -> str:
    """Return the name of this process for operators of other hosts."""
    return f"process {os.getpid()} on {socket.gethostname()}"
