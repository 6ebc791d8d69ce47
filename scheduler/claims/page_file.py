"""The SQLite file of a page of the journal, beside the files of the other processes.

The file is in WAL mode: adding a record does not wait for the disk, and other processes can look into the
file at any time, even while its owner is stopped. A lock file says whether the owner is alive: the lock ends
with the process, however that ends.

What the tables are for: ``journal_page`` (claims), ``message_records`` (runs and replies).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
import errno
import fcntl
import os
from pathlib import Path
import sqlite3
import threading
import time
from typing import Any, NamedTuple, TypeVar

from oslo_log import log

from scheduler.logs import OutageLog

LOG = log.getLogger(__name__)

Read = TypeVar("Read")

Check = Callable[[sqlite3.Connection], object]
"""Reads what must be readable; raises ValueError or sqlite3.Error if it is not."""

SUFFIX = ".sqlite"

#: Seconds that a write waits for another connection to the same file. Only audits and successors open one.
BUSY_TIMEOUT = 2.0

#: Bytes of the file and of its write-ahead log that are allocated when it is opened. Both are overwritten
#: in place, so that records are removed on a full disk too; not so on file systems that copy on write.
RESERVE = 1 << 20

#: Pages in the write-ahead log after which they are moved to the file, and the log is overwritten from its
#: beginning. They take less than RESERVE.
CHECKPOINT_PAGES = 100

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY, instance TEXT NOT NULL, request TEXT NOT NULL, claim BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS records_by_instance ON records (instance);
CREATE TABLE IF NOT EXISTS abandoned (id INTEGER PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE);
CREATE TABLE IF NOT EXISTS unsent (id INTEGER PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE);
CREATE TABLE IF NOT EXISTS runs (message TEXT NOT NULL, began REAL NOT NULL, interrupted INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS runs_by_message ON runs (message);
CREATE TABLE IF NOT EXISTS replies (
    message TEXT PRIMARY KEY, began REAL NOT NULL, failed INTEGER NOT NULL, confirmed INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS replies_by_time ON replies (began);
CREATE TABLE IF NOT EXISTS reserve (room BLOB NOT NULL);
"""

#: Errors of files that cannot be opened whenever it is tried: of another owner, or no files.
_UNUSABLE = {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP}


class DeadPages(NamedTuple):
    """Files of pages whose processes are dead.

    Attributes:
        taken: Those that were taken over.
        left: Those that could not be.
    """

    taken: frozenset[Path]
    left: frozenset[Path]


class PageLock:
    """The lock of a page; held until ``release`` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            BlockingIOError: Another process, or another part of this one, holds it.
            OSError: The lock file cannot be made.
        """
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._file)


class PageFile:
    """The file of this process, and what can be read in those of others.

    Callers hold ``lock``, but for ``write``, ``close`` and ``others``.

    Attributes:
        path: The file.
        lock: Only one thread at a time uses the connections.
        database: The connection to the file.
        durable_mode: The value of ``PRAGMA synchronous`` for what is to outlive a power failure, if any is.
        outage: Told whether the file can be written.
    """

    def __init__(self, path: Path, owned: PageLock, check: Check, *, durable: bool) -> None:
        """Open the file of which the caller has the lock; it is created if it is missing.

        Args:
            path: The file. One that cannot be read is put aside.
            owned: Its lock, which is released with ``close``.
            check: Reads what must be readable in this file, and in one that is attached.
            durable: Whether the file is to be right after a power failure too.

        Raises:
            sqlite3.Error: The file cannot be written.
            OSError: The same.
        """
        self.path = path
        self.lock = threading.Lock()
        self.durable_mode = "FULL" if durable else "NORMAL"
        self.outage = OutageLog(
            LOG,
            f"Claims are not recorded in the journal {path}",
            f"Claims are recorded in the journal {path} again",
        )
        self._owned = owned
        self._check = check
        self._readers: dict[Path, sqlite3.Connection] = {}
        self.database = _open_or_put_aside(path, check)
        _allocate_reserve(self.database)

    def others(self) -> list[Path]:
        """Return the files of all other processes, dead ones included."""
        return sorted(path for path in self.path.parent.glob(f"*{SUFFIX}") if path != self.path)

    def read_others(self, read: Callable[[sqlite3.Connection], Read]) -> Iterator[tuple[Path, Read]]:
        """Yield what is read from the other files, by file; those that cannot be read are left out."""
        for path in self.others():
            try:
                reader = self._readers.get(path)
                if reader is None:
                    reader = self._readers[path] = connect(path, read_only=True)
                yield path, read(reader)
            except (sqlite3.Error, ValueError):
                self._forget_reader(path)

    @contextmanager
    def attached(self, other: Path) -> Iterator[None]:
        """Let the statements see the file of a dead process as ``dead``. One that is broken is put aside.

        Raises:
            sqlite3.Error: It cannot be opened now.
            OSError: The same.
        """
        self._forget_reader(other)  # it would go on reading a file that is put aside
        _open_or_put_aside(other, self._check).close()
        self.database.execute("ATTACH ? AS dead", (_uri(other, "rw"),))
        try:
            self.database.execute(f"PRAGMA dead.synchronous = {self.durable_mode}")
            yield
        finally:
            self.database.execute("DETACH dead")

    @contextmanager
    def transaction(self, mode: str = "NORMAL") -> Iterator[None]:
        """Carry out statements together, or none of them if one fails."""
        self.database.execute(f"PRAGMA synchronous = {mode}")
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            yield

    def write(self, statement: str, parameters: Sequence[tuple[Any, ...]]) -> bool:
        """Carry out a statement with each of these parameters. A failure is logged.

        Returns:
            Whether it was carried out.
        """
        try:
            with self.lock, self.transaction():
                self.database.executemany(statement, parameters)
        except sqlite3.Error as error:
            self.outage.report_failure(error)
            return False
        return True

    def close(self) -> None:
        """Close the file and release its lock; what stands in it is for the next process."""
        with self.lock:
            for database in (self.database, *self._readers.values()):
                database.close()
            self._owned.release()

    def _forget_reader(self, path: Path) -> None:
        if reader := self._readers.pop(path, None):
            reader.close()


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection to a file that is there; raises sqlite3.Error."""
    mode = "ro" if read_only else "rw"
    database = sqlite3.connect(
        _uri(path, mode),
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )
    database.execute("PRAGMA foreign_keys = ON")
    return database


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def _open_or_put_aside(path: Path, check: Check) -> sqlite3.Connection:
    """Open the file of a page; one that is broken is renamed, and an empty one takes its place.

    Raises:
        sqlite3.Error: It cannot be opened now, as on a full disk, or cannot be renamed.
        OSError: The same.
    """
    try:
        return _open(path, check)
    except (sqlite3.Error, OSError, ValueError) as error:
        if not _is_broken(error):
            raise
        aside = path.with_suffix(f".unreadable-{time.time():.0f}")
        LOG.error("Journal %s cannot be read (%s); it is kept as %s", path, error, aside.name)
        path.rename(aside)
        for name in ("-wal", "-shm"):
            path.with_name(path.name + name).unlink(missing_ok=True)
        return _open(path, check)


def _is_broken(error: Exception) -> bool:
    """Return whether a file cannot be used later either, so that its page is lost anyhow."""
    if isinstance(error, OSError):
        return error.errno in _UNUSABLE
    return not isinstance(error, sqlite3.OperationalError)


def _open(path: Path, check: Check) -> sqlite3.Connection:
    # Created here, as SQLite would let others read it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    database = connect(path)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        database.executescript(_SCHEMA)
        (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        check(database)
    except (sqlite3.Error, ValueError):
        database.close()
        raise
    return database


def _allocate_reserve(database: sqlite3.Connection) -> None:
    """Let the file and its log have pages that are free, unless the disk is full already."""
    with suppress(sqlite3.Error):
        database.execute("INSERT INTO reserve VALUES (zeroblob(?))", (RESERVE,))
    with suppress(sqlite3.Error):
        database.execute("DELETE FROM reserve")
