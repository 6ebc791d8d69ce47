"""The file in which a process keeps what it could not settle: lines of JSON, read by its successor.

Each process that has something to keep makes a file of its own and holds a lock on it, which ends with the
process. The files of ended processes are taken over by any other one, in parts if they are large. Without
anything to keep there is no file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
import fcntl
import os
from pathlib import Path
import re
import stat
import threading
from typing import IO, Any

import msgspec
import orjson
from oslo_config import cfg
from oslo_log import log

from scheduler.bounds.temporary_directories import make_temporary_directory
from scheduler.bounds.waits import waiting_for
from scheduler.logs import OutageLog

LOG = log.getLogger(f"nova.{__name__}")

#: How the names of all directories of spools begin, and of temporary ones; no host is named so.
DIRECTORY_PREFIX = "berth-spool-"
TEMPORARY_PREFIX = f"{DIRECTORY_PREFIX}+"

SUFFIX = ".jsonl"

#: The version of the format, in each line.
VERSION = 2

#: Lines that are taken over together.
PART = 1000

Amounts = dict[str, dict[str, dict[str, int]]]
"""provider uuid → ``{"resources": {class: amount}}``"""


class Line(msgspec.Struct, kw_only=True):
    """One line: what is known of a consumer, or that it is settled."""

    v: int
    consumer: str
    settled: bool = False
    lost: bool = False
    answered: tuple[str, Amounts] = ("", {})
    generation: int | None = None
    owner: tuple[str | None, str | None] = (None, None)
    kept: tuple[list[str], list[str]] = ([], [])


_decode = msgspec.json.Decoder(Line).decode


def spool_directory(conf: cfg.ConfigOpts) -> Path | None:
    """Return where spool files outlive the daemon; None if no state_path is set.

    The default of ``state_path`` is the directory of the installed code, which is no place for data.
    """
    location = conf.get_location("state_path")
    if location is None or not location.location.is_user_controlled:
        return None
    name = re.sub(r"[^\w.-]", "_", conf.host)
    return Path(conf.state_path) / f"{DIRECTORY_PREFIX}{name}"


def state_path_problem(conf: cfg.ConfigOpts) -> str:
    """Return why nothing can be kept in ``state_path``; "" if all is well."""
    directory = spool_directory(conf)
    if directory is None:
        return "[DEFAULT]/state_path is not set: claims that could not be released are forgotten at a restart"
    if os.access(directory.parent, os.W_OK | os.X_OK):
        return ""
    return (
        f"[DEFAULT]/state_path {conf.state_path} is no directory that this user can write: claims that could "
        "not be released are forgotten at a restart"
    )


def make_spool_directory(conf: cfg.ConfigOpts) -> Path | None:
    """Return the directory of spool files; to be called before workers are forked.

    Without a ``state_path`` it is a temporary one, which outlives workers. None: there can be none.
    """
    if problem := state_path_problem(conf):
        LOG.warning("%s", problem)
    directory = spool_directory(conf)
    if directory is not None:
        return directory
    try:
        return make_temporary_directory(TEMPORARY_PREFIX, conf.tempdir)
    except OSError as error:
        LOG.error("Cannot make a temporary directory; the spool is in memory only: %s", error)
        return None


class SpoolFile:
    """The file of this process. Any thread may use it.

    Attributes:
        problem: Why something cannot be kept or read; "" if all is well.
    """

    def __init__(self, directory: Path | None) -> None:
        """Make no file yet.

        Args:
            directory: Where it is; None: nothing is kept.
        """
        self.problem = ""
        self._directory = directory
        self._path: Path | None = None
        self._file = -1
        self._lock = threading.Lock()
        self._reported: set[Path] = set()
        self._outage = OutageLog(LOG, "Cannot write the spool", "Spool is written again")

    def append(self, lines: Iterable[Mapping[str, Any]]) -> bool:
        """Add lines; return False if that is not possible. Never raises."""
        with waiting_for("the disk of [DEFAULT]/state_path"), self._lock:
            return self._write(lines)

    def replace(self, lines: Iterable[Mapping[str, Any]]) -> bool:
        """Let the file have these lines alone, or be removed if there are none; as ``append``."""
        with waiting_for("the disk of [DEFAULT]/state_path"), self._lock:
            old, old_file = self._path, self._file
            self._path, self._file = None, -1
            kept = list(lines)
            if kept and not self._write(kept):
                self._remove(self._path, self._file)
                self._path, self._file = old, old_file
                return False
            self._remove(old, old_file)
            return True

    def take_over(self, room: Callable[[], int]) -> Iterator[list[Line]]:
        """Yield the unsettled lines of ended processes, in parts, and remove them from their files.

        Args:
            room: Returns how many lines there is still room for. The rest stays in its file.
        """
        if self._directory is None:
            return
        self.problem = ""
        try:
            paths = sorted(self._directory.glob(f"*{SUFFIX}")) if self._directory.exists() else []
        except OSError as error:
            self._report(self._directory, error)
            return
        for path in paths:
            if path != self._path and room() > 0:
                yield from self._take_over(path, room)

    def _take_over(self, path: Path, room: Callable[[], int]) -> Iterator[list[Line]]:
        try:
            with open_regular(path, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(file.fileno()).st_nlink:  # another process may have taken it over since
                    yield from _parts_of(path, file, room)
        except (FileNotFoundError, BlockingIOError):
            pass
        except (OSError, ValueError) as error:
            self._report(path, error)

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> bool:
        if self._directory is None:
            return True
        try:
            if self._file < 0:
                self._open(self._directory)
            data = b"".join(orjson.dumps({"v": VERSION, **line}) + b"\n" for line in lines)
            before = os.fstat(self._file).st_size
            if os.write(self._file, data) != len(data):
                os.ftruncate(self._file, before)
                raise OSError("the disk is full")
        except OSError as error:
            self.problem = f"cannot write the spool: {error}"
            self._outage.report_failure(error)
            return False
        self._outage.report_success()
        return True

    def _open(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        for number in range(1 << 16):
            path = directory / f"{os.getpid()}-{number}{SUFFIX}"
            with suppress(FileExistsError):
                self._file = os.open(
                    path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
                )
                self._path = path
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
        raise OSError("all names are in use")

    def _remove(self, path: Path | None, file: int) -> None:
        if path is not None:
            with suppress(OSError):
                path.unlink()
        if file >= 0:
            os.close(file)

    def _report(self, path: Path, error: Exception) -> None:
        self.problem = f"cannot read {path}: {error}"
        if path not in self._reported:
            self._reported.add(path)
            LOG.error("Cannot read spool file %s; continuing without it: %s", path, error)


def open_regular(path: Path, mode: str) -> IO[bytes]:
    """Open a file, and never wait for what is none.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is no regular file.
    """
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError("it is no regular file")
    return file


def _parts_of(path: Path, file: IO[bytes], room: Callable[[], int]) -> Iterator[list[Line]]:
    """Yield the unsettled lines of a file, and leave those in it for which there is no room."""
    left = _unsettled(path, file)
    while left and (most := min(PART, room())) > 0:
        part, left = left[:most], left[most:]
        yield [line for line, _ in _at(file, part)]
    if left:
        rest = path.with_suffix(".rest")
        rest.write_bytes(b"".join(text for _, text in _at(file, left)))
        rest.replace(path)
    else:
        path.unlink()


def _unsettled(path: Path, file: IO[bytes]) -> Sequence[int]:
    """Return where in a file the unsettled lines are. A line that cannot be read is left out, and logged.

    The last line may be cut off, as its process may have ended while it was written.

    Raises:
        OSError: It cannot be read.
        ValueError: It is of another format.
    """
    found: dict[str, int] = {}
    position, unreadable, first, readable = 0, 0, b"", False
    for text in file:
        if not text.endswith(b"\n"):
            break
        try:
            line = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            unreadable, first = unreadable + 1, first or text
        else:
            readable = True
            if line.v != VERSION:
                raise ValueError("it is of another format")
            found.pop(line.consumer, None)
            if not line.settled:
                found[line.consumer] = position
        position += len(text)
    if unreadable and not readable:
        raise ValueError("it is of another format")
    if unreadable:
        LOG.error("Skipped unreadable lines of spool file %s: %d, such as %.300s", path, unreadable, first)
    return list(found.values())


def _at(file: IO[bytes], positions: Iterable[int]) -> Iterator[tuple[Line, bytes]]:
    """Yield the lines at some positions of a file, and their text."""
    for position in positions:
        file.seek(position)
        text = file.readline()
        yield _decode(text), text
