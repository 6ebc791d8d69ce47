"""The file in which a process keeps what it could not settle: lines of JSON, read by its successor.

Each process that has something to keep makes a file of its own and holds a lock on it, which ends with the
process. The files of ended processes are taken over by any other one. Without anything to keep there is no
file.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
import fcntl
import os
from pathlib import Path
import re
import threading
from typing import Any

import orjson
from oslo_config import cfg
from oslo_log import log

from scheduler.bounds.temporary_directories import make_temporary_directory
from scheduler.logs import OutageLog

LOG = log.getLogger(__name__)

#: How the names of all directories of spools begin, and of temporary ones; no host is named so.
DIRECTORY_PREFIX = "berth-spool-"
TEMPORARY_PREFIX = f"{DIRECTORY_PREFIX}+"

SUFFIX = ".jsonl"

#: The version of the format, in each line.
VERSION = 1

Line = Mapping[str, Any]


def spool_directory(conf: cfg.ConfigOpts) -> Path | None:
    """Return where spool files outlive the daemon; None if no state_path is set.

    The default of ``state_path`` is the directory of the installed code, which is no place for data.
    """
    location = conf.get_location("state_path")
    if location is None or not location.location.is_user_controlled:
        return None
    name = re.sub(r"[^\w.-]", "_", conf.host)
    return Path(conf.state_path) / f"{DIRECTORY_PREFIX}{name}"


def make_spool_directory(conf: cfg.ConfigOpts) -> Path | None:
    """Return the directory of spool files; to be called before workers are forked.

    Without a ``state_path`` it is a temporary one, which outlives workers. None: there can be none.
    """
    directory = spool_directory(conf)
    if directory is not None:
        return directory
    LOG.info("[DEFAULT]/state_path is not set: claims that could not be released are forgotten at a restart")
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

    def append(self, lines: Iterable[Line]) -> bool:
        """Add lines; return False if that is not possible. Never raises."""
        with self._lock:
            return self._write(lines)

    def replace(self, lines: Iterable[Line]) -> bool:
        """Let the file have these lines alone, or be removed if there are none; as ``append``."""
        with self._lock:
            old, old_file = self._path, self._file
            self._path, self._file = None, -1
            kept = list(lines)
            if kept and not self._write(kept):
                self._remove(self._path, self._file)
                self._path, self._file = old, old_file
                return False
            self._remove(old, old_file)
            return True

    def take_over(self) -> Iterator[list[Line]]:
        """Yield the lines of each process that has ended. Its file is removed afterwards."""
        if self._directory is None:
            return
        self.problem = ""
        try:
            paths = sorted(self._directory.glob(f"*{SUFFIX}")) if self._directory.exists() else []
        except OSError as error:
            self._report(self._directory, error)
            return
        for path in paths:
            if path != self._path:
                yield from self._take_over(path)

    def _take_over(self, path: Path) -> Iterator[list[Line]]:
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            self._report(path, error)
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink:  # another process may have taken it over since
                yield read_lines(path)
                path.unlink()
        except BlockingIOError:
            pass
        except (OSError, ValueError) as error:
            self._report(path, error)
        finally:
            os.close(file)

    def _write(self, lines: Iterable[Line]) -> bool:
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


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a file.

    The last line may be cut off, as its process may have ended while it was written.

    Raises:
        OSError: It cannot be read.
        ValueError: It is of another format.
    """
    *whole, _rest = path.read_bytes().split(b"\n")
    lines = [orjson.loads(line) for line in whole]
    if any(not isinstance(line, dict) or line.get("v") != VERSION for line in lines):
        raise ValueError("it is of another format")
    return lines
