"""The runs of messages and the replies to them, in the file of a page of the journal."""

from collections.abc import Callable, Collection
from pathlib import Path
import sqlite3
import threading
import time

from cachetools import FIFOCache

from scheduler.claims.page_file import DeadPages, PageFile
from scheduler.message_runs import RecordedReply

#: Seconds for which runs of messages are remembered whose end was not recorded.
RUNS_KEPT = 86_400.0

#: Seconds for which replies are remembered. A message is not delivered again after its acknowledgement, which
#: follows the reply, or fails with the connection.
REPLIES_KEPT = 7_200.0

#: Runs whose end could not be recorded, and which are remembered to be ended later.
MOST_ENDED = 1_000

_INTERRUPT = "UPDATE runs SET interrupted = 1"
_LEAVE = "DELETE FROM runs WHERE message = ? AND NOT interrupted"
_END = "DELETE FROM runs WHERE message = ?"
_EXPIRE = "DELETE FROM runs WHERE began < ?"
_EXPIRE_REPLIES = "DELETE FROM replies WHERE began < ?"
_COUNT_RUNNING = "SELECT count(*) FROM runs WHERE message = ? AND NOT interrupted"
_COUNT_INTERRUPTED = "SELECT count(*) FROM runs WHERE message = ? AND interrupted"
_WAS_RUN = """
SELECT EXISTS (SELECT 1 FROM runs WHERE message = :message AND (interrupted OR :others))
    OR EXISTS (SELECT 1 FROM replies WHERE message = :message)
"""


class MessageRecords:
    """The ``MessageRuns`` of one process; any thread may use them."""

    def __init__(self, file: PageFile, take_over_dead: Callable[[Collection[Path]], DeadPages]) -> None:
        """Begin with what the last owner of the file recorded: its runs were interrupted.

        Args:
            file: Where it is recorded.
            take_over_dead: Takes over those of the given files whose processes are dead.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        self._file = file
        self._take_over_dead = take_over_dead
        self._lock = threading.Lock()
        self._ended: FIFOCache[str, str] = FIFOCache(MOST_ENDED)
        file.database.execute(_EXPIRE, (time.time() - RUNS_KEPT,))
        file.database.execute(_INTERRUPT)

    def begin_run(self, message_id: str) -> None:
        """Record that a message is being run."""
        with self._lock:
            self._ended.pop(message_id, None)
        self._file.write("INSERT INTO runs VALUES (?, ?, 0)", [(message_id, time.time())])

    def interrupted_runs(self, message_id: str) -> int:
        """Return how many runs of a message ended with their process and were taken over since."""

        def count(database: sqlite3.Connection) -> int:
            return _count(database, _COUNT_INTERRUPTED, message_id)

        try:
            with self._file.lock:
                return count(self._file.database) + sum(number for _, number in self._file.read_others(count))
        except sqlite3.Error as error:
            self._file.outage.report_failure(error)
            return 0

    def was_run_elsewhere(self, message_id: str) -> bool:
        """Return whether another process runs a message, has answered it, or has ended while it ran it."""

        def read(database: sqlite3.Connection, others: bool = True) -> bool:
            parameters = {"message": message_id, "others": others}
            return bool(database.execute(_WAS_RUN, parameters).fetchone()[0])

        try:
            with self._file.lock:
                return read(self._file.database, False) or any(
                    found for _, found in self._file.read_others(read)
                )
        except sqlite3.Error as error:
            self._file.outage.report_failure(error)
            return False

    def leave_run(self, message_id: str) -> None:
        """Remove the record that this process runs a message; its runs that were interrupted still count."""
        self._end(message_id, _LEAVE)

    def end_run(self, message_id: str) -> None:
        """Remove what is recorded here of the runs of a message."""
        self._end(message_id, _END)

    def _end(self, message_id: str, statement: str) -> None:
        """Remove what is recorded of a run, and what could not be removed before.

        While it stands there other processes wait for this one, which does not run the message any more.
        """
        with self._lock:
            self._ended[message_id] = statement
            ended = dict(self._ended)
        for each in (_LEAVE, _END):
            messages = [message for message, its in ended.items() if its == each]
            if messages and self._file.write(each, [(message,) for message in messages]):
                with self._lock:
                    for message in messages:
                        self._ended.pop(message, None)

    def runs_elsewhere(self, message_id: str) -> bool:
        """Return whether another process runs a message. Pages of dead ones that did are taken over."""

        def read() -> set[Path]:
            with self._file.lock:
                running = self._file.read_others(lambda reader: _count(reader, _COUNT_RUNNING, message_id))
                return {path for path, number in running if number}

        pages = read()
        dead = self._take_over_dead(pages)
        return bool((read() if dead.taken else pages) - dead.left)

    def begin_reply(self, message_id: str, *, failed: bool) -> None:
        """Record that a reply is about to be sent: from now on its caller may know it.

        Args:
            message_id: The identity of the message.
            failed: Whether the reply is an error.
        """
        reply = (message_id, time.time(), failed)
        self._file.write("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, 0)", [reply])

    def withdraw_reply(self, message_id: str) -> None:
        """Record that a reply was not delivered."""
        self._file.write("DELETE FROM replies WHERE message = ?", [(message_id,)])

    def confirm_reply(self, message_id: str) -> None:
        """Record that the broker has confirmed a reply, which ends the run of its message."""
        try:
            with self._file.lock, self._file.transaction():
                self._file.database.execute(_EXPIRE_REPLIES, (time.time() - REPLIES_KEPT,))
                self._file.database.execute(
                    "UPDATE replies SET confirmed = 1 WHERE message = ?", (message_id,)
                )
                self._file.database.execute(_END, (message_id,))
        except sqlite3.Error as error:
            self._file.outage.report_failure(error)
            with self._lock:
                self._ended[message_id] = _END

    def reply_to(self, message_id: str) -> RecordedReply | None:
        """Return what any process of the daemon has recorded of a reply, rather a confirmed one."""

        def read(database: sqlite3.Connection) -> list[RecordedReply]:
            query = "SELECT failed, confirmed FROM replies WHERE message = ?"
            rows = database.execute(query, (message_id,)).fetchall()
            return [RecordedReply(bool(failed), bool(confirmed)) for failed, confirmed in rows]

        with self._file.lock:
            found = [
                *read(self._file.database),
                *(one for _, page in self._file.read_others(read) for one in page),
            ]
        return max(found, key=lambda reply: reply.confirmed, default=None)

    def may_be_known(self, message_id: str) -> bool:
        """Return whether a caller may have been answered with the hosts that its request got."""
        reply = self.reply_to(message_id) if message_id else None
        return reply is not None and not reply.failed


def _count(database: sqlite3.Connection, query: str, message_id: str) -> int:
    return int(database.execute(query, (message_id,)).fetchone()[0])
