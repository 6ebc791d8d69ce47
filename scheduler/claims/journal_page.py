"""The claims that one process has recorded, in an SQLite file of its own.

The file is in WAL mode: adding a record does not wait for the disk, and other processes can look into the
file at any time, even while its owner is stopped. A lock file says whether the owner is alive: the lock ends
with the process, however that ends. The process that gets the lock of one that has died takes over all that
is recorded there: when it starts, or when it finds a record there which it would have to wait for.

A record is made before its claim is sent, so that other processes see it. It is marked when it is sent. What
was never sent is void when the process dies: it would look like what another process has claimed later.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
import errno
import fcntl
from functools import partial
import os
from pathlib import Path
import sqlite3
import threading
import time
from typing import Any, NamedTuple, TypeVar

import orjson
from oslo_log import log

from scheduler.logs import OutageLog
from scheduler.message_runs import RecordedReply

LOG = log.getLogger(__name__)

Read = TypeVar("Read")

Records = Mapping[str, Mapping[str, Any]]
"""Instance UUID -> what is needed to give back its claim; anything that is JSON."""

SUFFIX = ".sqlite"

#: Seconds that a write waits for another connection to the same file. Only audits and successors open one.
BUSY_TIMEOUT = 2.0

#: Seconds for which runs of messages are remembered whose end was not recorded.
RUNS_KEPT = 86_400.0

#: Seconds for which replies are remembered. A message is not delivered again after its acknowledgement, which
#: follows the reply, or fails with the connection.
REPLIES_KEPT = 7_200.0

#: Bytes of the file and of its write-ahead log that are allocated when a page is opened. Both are overwritten
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
_DROP_UNSENT = "DELETE FROM records WHERE id IN (SELECT id FROM unsent)"
_WAS_SENT = "records.id NOT IN (SELECT id FROM unsent)"
_MARK_SENT = "DELETE FROM unsent WHERE id IN (SELECT id FROM records WHERE instance = ?)"
_ABANDON = "INSERT OR IGNORE INTO abandoned SELECT id FROM records"
_INTERRUPT = "UPDATE runs SET interrupted = 1"
_EXPIRE = "DELETE FROM runs WHERE began < ?"
_EXPIRE_REPLIES = "DELETE FROM replies WHERE began < ?"
_COUNT_RUNNING = "SELECT count(*) FROM runs WHERE message = ? AND NOT interrupted"
_COUNT_INTERRUPTED = "SELECT count(*) FROM runs WHERE message = ? AND interrupted"
_WAS_RUN = """
SELECT EXISTS (SELECT 1 FROM runs WHERE message = :message AND (interrupted OR :others))
    OR EXISTS (SELECT 1 FROM replies WHERE message = :message)
"""
_LAST = "SELECT (SELECT coalesce(max(id), 0) FROM records), (SELECT coalesce(max(rowid), 0) FROM runs)"
_COPY = """
INSERT INTO main.runs SELECT message, began, 1 FROM dead.runs;
INSERT OR REPLACE INTO main.replies SELECT * FROM dead.replies;
INSERT INTO main.records (instance, request, claim)
SELECT instance, request, claim FROM dead.records WHERE id NOT IN (SELECT id FROM dead.unsent) ORDER BY id;
INSERT INTO main.abandoned SELECT id FROM main.records WHERE id > {record};
"""
_EMPTY = "DELETE FROM dead.records; DELETE FROM dead.runs; DELETE FROM dead.replies;"
_UNDO_COPY = "DELETE FROM main.records WHERE id > {record}; DELETE FROM main.runs WHERE rowid > {run};"
_READ = """
SELECT instance, request, claim, abandoned.id IS NOT NULL
FROM records LEFT JOIN abandoned ON abandoned.id = records.id {condition} ORDER BY records.id
"""


#: Errors of files that cannot be opened whenever it is tried: of another owner, or no files.
_UNUSABLE = {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP}


class Record(NamedTuple):
    """One recorded claim.

    Attributes:
        instance: The UUID of the instance.
        request: The identity of the request; "" if it is not known.
        claim: What is needed to give it back.
        abandoned: Whether the process that recorded it has died.
    """

    instance: str
    request: str
    claim: Mapping[str, Any]
    abandoned: bool


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


class JournalPage:
    """The records of one process; any thread may use it."""

    def __init__(self, path: Path, lock: PageLock, *, durable: bool) -> None:
        """Open the page of which the caller has the lock, with what its last owner recorded.

        Args:
            path: The SQLite file; it is created if it is missing. One that cannot be read is put aside.
            lock: The lock of the page.
            durable: Whether the file is to be right after a power failure too.

        Raises:
            sqlite3.Error: The file cannot be written.
            OSError: The same.
        """
        self._path = path
        self._page_lock = lock
        self._removal_mode = "FULL" if durable else "NORMAL"
        self._lock = threading.Lock()
        self._readers: dict[Path, sqlite3.Connection] = {}
        self._left: set[Path] = set()
        self._unremoved: set[str] = set()
        self._outage = OutageLog(
            LOG,
            f"Claims are not recorded in the journal {path}",
            f"Claims are recorded in the journal {path} again",
        )
        self._database = _open_or_put_aside(path)
        _allocate_reserve(self._database)
        self._database.execute(_EXPIRE, (time.time() - RUNS_KEPT,))
        self._database.execute(_INTERRUPT)
        self._database.execute(_DROP_UNSENT)
        self._database.execute(_ABANDON)
        self._found = _records(self._database)

    def found_records(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return what dead processes have sent and did not remove: instance UUID and claim; each once.

        Claims that a caller may have been answered with are left out, and their records removed.
        """
        with self._lock:
            found, self._found = self._found, []
        known = {record.instance for record in found if self._may_be_known(record.request)}
        if known:
            LOG.warning("Instances %s keep what a worker that died may have answered with", sorted(known))
            self.remove_records(known)
        return [(record.instance, record.claim) for record in found if record.instance not in known]

    def take_over_dead(self, pages: Collection[Path] | None = None) -> DeadPages:
        """Move here what stands in pages whose processes are dead. Of several processes one takes a page.

        A page that is broken is put aside. One that cannot be taken over now, as on a full disk, is left for
        a later attempt; an error in the log says so once.

        Args:
            pages: Their files; None for all.
        """
        taken, left = set(), set()
        for path in self._others() if pages is None else pages:
            try:
                lock = PageLock(path.with_suffix(".lock"))
            except OSError:
                continue  # its process is alive, or another one takes it
            try:
                self._take_over(path)
                taken.add(path)
            except (OSError, sqlite3.Error) as error:
                left.add(path)
                if path not in self._left:
                    LOG.error("Journal %s of a dead process cannot be taken over now: %s", path, error)
            finally:
                lock.release()
        self._left = (self._left | left) - taken
        return DeadPages(frozenset(taken), frozenset(left))

    def _take_over(self, other: Path) -> None:
        """Move all that is recorded in a page to this one; the caller has its lock.

        Raises:
            sqlite3.Error: It cannot be done. No record is lost.
            OSError: The same.
        """
        with self._lock:
            self._forget_reader(other)  # it would go on reading a file that is put aside
            _open_or_put_aside(other).close()
            self._database.execute("ATTACH ? AS dead", (_uri(other, "rw"),))
            try:
                self._database.execute(f"PRAGMA dead.synchronous = {self._removal_mode}")
                self._found.extend(self._move_attached())
            finally:
                self._database.execute("DETACH dead")

    def _move_attached(self) -> list[Record]:
        """Move all rows of the attached page to this one, and return the records that were moved.

        One transaction would not do: each file is committed on its own, so that one of them may fail alone.
        """
        record, run = self._database.execute(_LAST).fetchone()
        self._execute_all(_COPY.format(record=record))
        try:
            self._execute_all(_EMPTY)
        except sqlite3.Error:
            self._execute_all(_UNDO_COPY.format(record=record, run=run))
            raise
        return _records(self._database, condition="WHERE records.id > ?", parameters=(record,))

    def _execute_all(self, statements: str) -> None:
        with self._transaction(self._removal_mode):
            for statement in statements.split(";"):
                self._database.execute(statement)

    def add_records(self, records: Records, request: str = "") -> None:
        """Record claims that are about to be sent.

        If the file cannot be written, an error is logged and the claims are made without a record: a full
        disk must not stop the service.

        Args:
            records: By instance UUID.
            request: The identity of the request that the claims are for.
        """
        try:
            with self._lock, self._transaction():
                for instance, claim in records.items():
                    self._insert(instance, claim, request)
        except sqlite3.Error as error:
            self._outage.report_failure(error)
        else:
            self._outage.report_success()

    def mark_sent(self, instance_uuids: Collection[str]) -> None:
        """Record that the claims of these instances are sent now. If a process dies before, they are void."""
        self._execute_many(_MARK_SENT, instance_uuids)

    def withdraw_records(self, instance_uuids: Collection[str]) -> None:
        """Remove all records of these instances, whose claims were refused. It need not outlive a reboot."""
        self._execute_many("DELETE FROM records WHERE instance = ?", instance_uuids)

    def remove_records(self, instance_uuids: Collection[str]) -> None:
        """Remove all records of these instances.

        Without this, the next process would give back claims that were answered. So the removal is written
        through to the disk, and one that fails is repeated by the next.
        """
        with self._lock:
            self._unremoved.update(instance_uuids)
            if not self._unremoved:
                return
            try:
                with self._transaction(self._removal_mode):
                    self._database.executemany(
                        "DELETE FROM records WHERE instance = ?", [(uuid,) for uuid in self._unremoved]
                    )
            except sqlite3.Error as error:
                self._outage.report_failure(error)
            else:
                self._unremoved.clear()

    def recorded_by_others(self, instance_uuids: Collection[str]) -> list[Record]:
        """Return what is recorded of these instances in the pages of other processes that are alive.

        Pages of dead ones that have such records are taken over first. What is sent and cannot be taken over
        counts as abandoned.
        """

        def read(condition: str = "") -> dict[Path, list[Record]]:
            with self._lock:
                found = dict(self._read_others(partial(_records_of, instance_uuids, condition)))
            return {path: records for path, records in found.items() if records}

        pages = read()
        dead = self.take_over_dead(pages)
        if dead.taken or dead.left:
            pages = read()
        if dead.left:
            sent = read(f"AND {_WAS_SENT}")
            left = {path: [one._replace(abandoned=True) for one in sent.get(path, ())] for path in dead.left}
            pages = {**pages, **left}
        return [record for records in pages.values() for record in records]

    def begin_run(self, message_id: str) -> None:
        """Record that a message is being run."""
        self._execute("INSERT INTO runs VALUES (?, ?, 0)", (message_id, time.time()))

    def interrupted_runs(self, message_id: str) -> int:
        """Return how many runs of a message ended with their process and were taken over since."""

        def count(database: sqlite3.Connection) -> int:
            return _count(database, _COUNT_INTERRUPTED, message_id)

        try:
            with self._lock:
                return count(self._database) + sum(number for _, number in self._read_others(count))
        except sqlite3.Error as error:
            self._outage.report_failure(error)
            return 0

    def was_run_elsewhere(self, message_id: str) -> bool:
        """Return whether another process runs a message, has answered it, or has ended while it ran it."""

        def read(database: sqlite3.Connection, others: bool = True) -> bool:
            parameters = {"message": message_id, "others": others}
            return bool(database.execute(_WAS_RUN, parameters).fetchone()[0])

        try:
            with self._lock:
                return read(self._database, False) or any(found for _, found in self._read_others(read))
        except sqlite3.Error as error:
            self._outage.report_failure(error)
            return False

    def leave_run(self, message_id: str) -> None:
        """Remove the record that this process runs a message; its runs that were interrupted still count."""
        self._execute("DELETE FROM runs WHERE message = ? AND NOT interrupted", (message_id,))

    def end_run(self, message_id: str) -> None:
        """Remove what is recorded here of the runs of a message."""
        self._execute("DELETE FROM runs WHERE message = ?", (message_id,))

    def runs_elsewhere(self, message_id: str) -> bool:
        """Return whether another process runs a message. Pages of dead ones that did are taken over."""

        def read() -> set[Path]:
            with self._lock:
                running = self._read_others(lambda reader: _count(reader, _COUNT_RUNNING, message_id))
                return {path for path, number in running if number}

        pages = read()
        dead = self.take_over_dead(pages)
        return bool((read() if dead.taken else pages) - dead.left)

    def begin_reply(self, message_id: str, *, failed: bool) -> None:
        """Record that a reply is about to be sent: from now on its caller may know it.

        Args:
            message_id: The identity of the message.
            failed: Whether the reply is an error.
        """
        reply = (message_id, time.time(), failed)
        self._execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, 0)", reply)

    def withdraw_reply(self, message_id: str) -> None:
        """Record that a reply was not delivered."""
        self._execute("DELETE FROM replies WHERE message = ?", (message_id,))

    def confirm_reply(self, message_id: str) -> None:
        """Record that the broker has confirmed a reply, which ends the run of its message."""
        try:
            with self._lock, self._transaction():
                self._database.execute(_EXPIRE_REPLIES, (time.time() - REPLIES_KEPT,))
                self._database.execute("UPDATE replies SET confirmed = 1 WHERE message = ?", (message_id,))
                self._database.execute("DELETE FROM runs WHERE message = ?", (message_id,))
        except sqlite3.Error as error:
            self._outage.report_failure(error)

    def reply_to(self, message_id: str) -> RecordedReply | None:
        """Return what any process of the daemon has recorded of a reply, rather a confirmed one."""

        def read(database: sqlite3.Connection) -> list[RecordedReply]:
            query = "SELECT failed, confirmed FROM replies WHERE message = ?"
            rows = database.execute(query, (message_id,)).fetchall()
            return [RecordedReply(bool(failed), bool(confirmed)) for failed, confirmed in rows]

        with self._lock:
            found = [*read(self._database), *(one for _, page in self._read_others(read) for one in page)]
        return max(found, key=lambda reply: reply.confirmed, default=None)

    def _may_be_known(self, message_id: str) -> bool:
        """Return whether a caller may have been answered with the hosts that its request got."""
        reply = self.reply_to(message_id) if message_id else None
        return reply is not None and not reply.failed

    def close(self) -> None:
        """Give the page up; its records are for the next process that opens it."""
        with self._lock:
            for database in (self._database, *self._readers.values()):
                database.close()
            self._page_lock.release()

    def _others(self) -> list[Path]:
        """Return the files of all other pages."""
        return sorted(path for path in self._path.parent.glob(f"*{SUFFIX}") if path != self._path)

    def _read_others(self, read: Callable[[sqlite3.Connection], Read]) -> Iterator[tuple[Path, Read]]:
        """Yield what is read from the other pages, by file; those that cannot be read are left out."""
        for path in self._others():
            try:
                reader = self._readers.get(path)
                if reader is None:
                    reader = self._readers[path] = _connect(path, read_only=True)
                yield path, read(reader)
            except (sqlite3.Error, ValueError):
                self._forget_reader(path)

    def _forget_reader(self, path: Path) -> None:
        if reader := self._readers.pop(path, None):
            reader.close()

    def _insert(self, instance: str, claim: Mapping[str, Any], request: str) -> None:
        cursor = self._database.execute(
            "INSERT INTO records (instance, request, claim) VALUES (?, ?, ?)",
            (instance, request, orjson.dumps(claim)),
        )
        self._database.execute("INSERT INTO unsent VALUES (?)", (cursor.lastrowid,))

    def _execute(self, statement: str, parameters: tuple[Any, ...]) -> None:
        self._execute_each(statement, [parameters])

    def _execute_many(self, statement: str, values: Collection[str]) -> None:
        self._execute_each(statement, [(value,) for value in values])

    def _execute_each(self, statement: str, parameters: Sequence[tuple[Any, ...]]) -> None:
        try:
            with self._lock, self._transaction():
                self._database.executemany(statement, parameters)
        except sqlite3.Error as error:
            self._outage.report_failure(error)

    @contextmanager
    def _transaction(self, mode: str = "NORMAL") -> Iterator[None]:
        self._database.execute(f"PRAGMA synchronous = {mode}")
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield


def read_records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return what is recorded as sent in the file of a page, which is left as it is.

    Nothing if it cannot be read.
    """
    try:
        database = _connect(path, read_only=True)
    except sqlite3.Error:
        return
    try:
        for record in _records(database, f"WHERE {_WAS_SENT}"):
            yield record.instance, record.claim
    except sqlite3.Error:
        return
    finally:
        database.close()


def _count(database: sqlite3.Connection, query: str, message_id: str) -> int:
    return int(database.execute(query, (message_id,)).fetchone()[0])


def _records_of(
    instance_uuids: Collection[str], condition: str, database: sqlite3.Connection
) -> list[Record]:
    """Return the records of these instances that meet a further condition, in their order."""
    marks = ",".join("?" * len(instance_uuids))
    return _records(database, f"WHERE instance IN ({marks}) {condition}", tuple(instance_uuids))


def _records(
    database: sqlite3.Connection, condition: str = "", parameters: tuple[Any, ...] = ()
) -> list[Record]:
    """Return the records that meet a condition, or all, in their order."""
    rows = database.execute(_READ.format(condition=condition), parameters).fetchall()
    return [
        Record(instance, request, orjson.loads(claim), bool(abandoned))
        for instance, request, claim, abandoned in rows
    ]


def _open_or_put_aside(path: Path) -> sqlite3.Connection:
    """Open the file of a page; one that is broken is renamed, and an empty one takes its place.

    Raises:
        sqlite3.Error: It cannot be opened now, as on a full disk, or cannot be renamed.
        OSError: The same.
    """
    try:
        return _open(path)
    except (sqlite3.Error, OSError, ValueError) as error:
        if not _is_broken(error):
            raise
        aside = path.with_suffix(f".unreadable-{time.time():.0f}")
        LOG.error("Journal %s cannot be read (%s); it is kept as %s", path, error, aside.name)
        path.rename(aside)
        for name in ("-wal", "-shm"):
            path.with_name(path.name + name).unlink(missing_ok=True)
        return _open(path)


def _is_broken(error: Exception) -> bool:
    """Return whether a file cannot be used later either, so that its page is lost anyhow."""
    if isinstance(error, OSError):
        return error.errno in _UNUSABLE
    return not isinstance(error, sqlite3.OperationalError)


def _open(path: Path) -> sqlite3.Connection:
    # Created here, as SQLite would let others read it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    database = _connect(path)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        database.executescript(_SCHEMA)
        (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        _records(database)
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


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
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
