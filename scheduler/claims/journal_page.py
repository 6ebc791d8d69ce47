"""The page of one process: the claims that it has recorded, in a file of its own.

The process that gets the lock of one that has died takes over all that is recorded there: when it starts, or
when it finds a record there which it would have to wait for.

A record is made before its claim is sent, so that other processes see it. It is marked when it is sent. What
was never sent is void when the process dies: it would look like what another process has claimed later.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
import sqlite3
from typing import Any, NamedTuple

import orjson
from oslo_log import log

from scheduler.claims.message_records import MessageRecords
from scheduler.claims.page_file import DeadPages, PageFile, PageLock, connect

LOG = log.getLogger(__name__)

Records = Mapping[str, Mapping[str, Any]]
"""Instance UUID -> what is needed to give back its claim; anything that is JSON."""

_DROP_UNSENT = "DELETE FROM records WHERE id IN (SELECT id FROM unsent)"
_WAS_SENT = "records.id NOT IN (SELECT id FROM unsent)"
_MARK_SENT = "DELETE FROM unsent WHERE id IN (SELECT id FROM records WHERE instance = ?)"
_REMOVE = "DELETE FROM records WHERE instance = ? AND request = coalesce(?, request)"
_REMOVE_NEWEST = """
DELETE FROM records WHERE id = (SELECT max(id) FROM records WHERE instance = ? AND claim = ?)
"""
_ABANDON = "INSERT OR IGNORE INTO abandoned SELECT id FROM records"
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


class JournalPage:
    """The records of one process; any thread may use it.

    Attributes:
        messages: The messages that it runs, and how it answers them.
    """

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
        self._left: set[Path] = set()
        self._unremoved: set[tuple[str, str | None]] = set()  # instance, and request or None for all
        self._file = PageFile(path, lock, _records, durable=durable)
        self.messages = MessageRecords(self._file, self.take_over_dead)
        self._file.database.execute(_DROP_UNSENT)
        self._file.database.execute(_ABANDON)
        self._found = _records(self._file.database)

    def found_records(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return what dead processes have sent and did not remove: instance UUID and claim; each once.

        Claims that a caller may have been answered with are left out, and their records removed.
        """
        with self._file.lock:
            found, self._found = self._found, []
        known = {record.instance for record in found if self.messages.may_be_known(record.request)}
        if known:
            LOG.warning("Instances %s keep what a worker that died may have answered with", sorted(known))
            self._remove({(record.instance, record.request) for record in found if record.instance in known})
        return [(record.instance, record.claim) for record in found if record.instance not in known]

    def take_over_dead(self, pages: Collection[Path] | None = None) -> DeadPages:
        """Move here what stands in pages whose processes are dead. Of several processes one takes a page.

        A page that is broken is put aside. One that cannot be taken over now, as on a full disk, is left for
        a later attempt; an error in the log says so once.

        Args:
            pages: Their files; None for all.
        """
        taken, left = set(), set()
        for path in self._file.others() if pages is None else pages:
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
        with self._file.lock, self._file.attached(other):
            self._found.extend(self._move_attached())

    def _move_attached(self) -> list[Record]:
        """Move all rows of the attached page to this one, and return the records that were moved.

        One transaction would not do: each file is committed on its own, so that one of them may fail alone.
        """
        record, run = self._file.database.execute(_LAST).fetchone()
        self._execute_all(_COPY.format(record=record))
        try:
            self._execute_all(_EMPTY)
        except sqlite3.Error:
            self._execute_all(_UNDO_COPY.format(record=record, run=run))
            raise
        return _records(self._file.database, condition="WHERE records.id > ?", parameters=(record,))

    def _execute_all(self, statements: str) -> None:
        with self._file.transaction(self._file.durable_mode):
            for statement in statements.split(";"):
                self._file.database.execute(statement)

    def add_records(self, records: Records, request: str = "") -> None:
        """Record claims that are about to be sent.

        If the file cannot be written, an error is logged and the claims are made without a record: a full
        disk must not stop the service.

        Args:
            records: By instance UUID.
            request: The identity of the request that the claims are for.
        """
        try:
            with self._file.lock:
                mode = self._file.durable_mode if self._unremoved else "NORMAL"
                with self._file.transaction(mode):
                    # Later these records would go too.
                    self._file.database.executemany(_REMOVE, self._unremoved)
                    for instance, claim in records.items():
                        self._insert(instance, claim, request)
                self._unremoved.clear()
        except sqlite3.Error as error:
            self._file.outage.report_failure(error)
        else:
            self._file.outage.report_success()

    def mark_sent(self, instance_uuids: Collection[str]) -> None:
        """Record that the claims of these instances are sent now. If a process dies before, they are void."""
        self._file.write(_MARK_SENT, [(uuid,) for uuid in instance_uuids])

    def withdraw_records(self, instance_uuids: Collection[str]) -> None:
        """Remove all records of these instances, whose claims were refused. It need not outlive a reboot."""
        self._file.write(_REMOVE, [(uuid, None) for uuid in instance_uuids])

    def withdraw_newest(self, records: Records) -> None:
        """Remove the newest of equal records of each instance, whose claim was refused.

        Earlier ones stay: their claims may be in effect. As ``withdraw_records`` else.
        """
        self._file.write(_REMOVE_NEWEST, [(uuid, orjson.dumps(claim)) for uuid, claim in records.items()])

    def remove_records(self, instance_uuids: Collection[str]) -> None:
        """Remove all records of these instances.

        Without this, the next process would give back claims that were answered. So the removal is written
        through to the disk, and one that fails is repeated by the next, or before the next claim is recorded.
        """
        self._remove({(uuid, None) for uuid in instance_uuids})

    def _remove(self, removals: Collection[tuple[str, str | None]]) -> None:
        with self._file.lock:
            self._unremoved.update(removals)
            if not self._unremoved:
                return
            try:
                with self._file.transaction(self._file.durable_mode):
                    self._file.database.executemany(_REMOVE, self._unremoved)
            except sqlite3.Error as error:
                self._file.outage.report_failure(error)
            else:
                self._unremoved.clear()

    def recorded_by_others(self, instance_uuids: Collection[str]) -> list[Record]:
        """Return what is recorded of these instances in the pages of other processes that are alive.

        Pages of dead ones that have such records are taken over first. What is sent and cannot be taken over
        counts as abandoned.
        """

        def read(condition: str = "") -> dict[Path, list[Record]]:
            with self._file.lock:
                found = dict(self._file.read_others(partial(_records_of, instance_uuids, condition)))
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

    def close(self) -> None:
        """Give the page up; its records are for the next process that opens it."""
        self._file.close()

    def _insert(self, instance: str, claim: Mapping[str, Any], request: str) -> None:
        cursor = self._file.database.execute(
            "INSERT INTO records (instance, request, claim) VALUES (?, ?, ?)",
            (instance, request, orjson.dumps(claim)),
        )
        self._file.database.execute("INSERT INTO unsent VALUES (?)", (cursor.lastrowid,))


def read_records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return what is recorded as sent in the file of a page, which is left as it is.

    Nothing if it cannot be read.
    """
    try:
        database = connect(path, read_only=True)
    except sqlite3.Error:
        return
    try:
        for record in _records(database, f"WHERE {_WAS_SENT}"):
            yield record.instance, record.claim
    except (sqlite3.Error, ValueError):
        return
    finally:
        database.close()


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
