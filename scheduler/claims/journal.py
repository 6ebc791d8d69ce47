"""The journal of claims whose request is not over yet, in files that outlive the process.

A process that is killed between a claim and the confirmed reply leaves allocations in Placement of which no
caller was told. So each claim is recorded before it is sent, and the record is removed when the request is
over. The next process finds the records of a dead one and gives these claims back. A record stays until that
is done, so that it is found again if the next process is killed too.

The files are below ``[DEFAULT]/state_path``, where they outlive the master process and a reboot, or in a
private temporary directory, where they outlive a worker. The master chooses (``Journal``), each worker has a
page (``JournalPage``). What a record tells of a claim is known to ``ClaimJournal`` alone; a page stores any
JSON.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
import math
import os
from pathlib import Path
import re
import sqlite3
import tempfile
import threading
import time
from typing import Any, Protocol
import weakref

from oslo_config import cfg
from oslo_log import log

from scheduler.claims.journal_page import JournalPage, Record, Records
from scheduler.claims.page_file import SUFFIX, PageLock
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite
from scheduler.logs import OutageLog
from scheduler.message_runs import MessageRuns, NoRuns, RecordedReply
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.temporary_directories import make_temporary_directory

LOG = log.getLogger(__name__)

#: How the names of all directories of a journal begin, and of temporary ones; no host is named so.
DIRECTORY_PREFIX = "berth-claims-"
TEMPORARY_PREFIX = f"{DIRECTORY_PREFIX}+"

#: Seconds until it is tried again to open a page.
REOPEN_DELAY = 5.0

#: Workers of one master; far more than anybody runs.
PAGES = 1024


#: Pages that may be unusable, of another user or of another version, before it is taken that all are.
MOST_UNUSABLE = 8


class Page(Protocol):
    """The records of one process."""

    @property
    def messages(self) -> MessageRuns:
        """The messages that it runs, and how it answers them."""

    def found_records(self) -> Collection[tuple[str, Mapping[str, Any]]]:
        """Return what dead processes recorded, each record once."""

    def mark_sent(self, instance_uuids: Collection[str]) -> None:
        """Record that the claims of these instances are sent now."""

    def withdraw_records(self, instance_uuids: Collection[str]) -> None:
        """Remove all records of these instances, whose claims were refused."""

    def withdraw_newest(self, records: Records) -> None:
        """Remove the newest of equal records of each instance, whose claim was refused."""

    def add_records(self, records: Records, request: str = "") -> None:
        """Record claims that are about to be sent."""

    def remove_records(self, instance_uuids: Collection[str]) -> None:
        """Remove all records of these instances."""

    def recorded_by_others(self, instance_uuids: Collection[str]) -> Collection[Record]:
        """Return what is recorded of these instances in the pages of other processes."""


@dataclass(frozen=True, slots=True)
class OtherClaims:
    """The claims that other processes have recorded for the instances of a request.

    Attributes:
        busy: Instances whose claims are of another request, by a process that is alive, or which a caller may
            have been answered with.
        returned: Instance UUID → writes for the same request by a process that is alive. It gives them back:
            its run of the request is over, and no reply that names them was delivered.
        abandoned: Instance UUID → writes by a process that has died. No caller was told of them; if they are
            for the same request, no reply that names them was confirmed.
    """

    busy: frozenset[str] = frozenset()
    returned: Mapping[str, tuple[OwnWrite, ...]] = field(default_factory=dict)
    abandoned: Mapping[str, tuple[OwnWrite, ...]] = field(default_factory=dict)

    @property
    def earlier(self) -> Mapping[str, tuple[OwnWrite, ...]]:
        """All writes that may be replaced, by instance UUID."""
        both = self.returned.keys() | self.abandoned.keys()
        return {uuid: (*self.returned.get(uuid, ()), *self.abandoned.get(uuid, ())) for uuid in both}


class Journal:
    """Where the workers record their claims. It is made in the master, before it forks."""

    def __init__(self, directory: Path | None = None, temporary: str | None = None) -> None:
        """Choose the directory of the files, and create it.

        Args:
            directory: For files that outlive the master process. If it is None or cannot be used, a private
                temporary directory is made, which is removed with this process; an error or information in
                the log says so.
            temporary: Where to make temporary directories; None for the default of the system.
        """
        self.durable = directory is not None and _is_usable(directory)
        self.directory = (
            directory if directory is not None and self.durable else self._make_private(temporary)
        )
        self._outage = OutageLog(
            LOG,
            "Claims of this worker are not recorded in the journal",
            "Claims of this worker are recorded in the journal from now on",
        )

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "Journal":
        """Return the journal below ``[DEFAULT]/state_path``, or a temporary one if that is not set."""
        directory = journal_directory(conf)
        if directory is None:
            LOG.info(
                "[DEFAULT]/state_path is not set: claims of unanswered requests are given back after the "
                "death of a worker, but not after that of the master process"
            )
        return cls(directory, conf.tempdir)

    def open_page(self) -> JournalPage | None:
        """Return a page for this process, with the records of dead ones; None if there can be none."""
        try:
            page = self._open_free_page()
        except (OSError, sqlite3.Error) as error:
            self._outage.report_failure(error)
            return None
        self._outage.report_success()
        page.take_over_dead()  # there may be fewer workers now
        return page

    def _open_free_page(self) -> JournalPage:
        unusable: dict[str, Exception] = {}
        for name in (f"page-{number}" for number in range(PAGES)):
            try:
                page = self._open_if_free(name)
            except (OSError, sqlite3.Error) as error:
                unusable[name] = error
                if len(unusable) == MOST_UNUSABLE:
                    raise
                continue
            if page is not None:
                for other, why in unusable.items():
                    LOG.error("Journal page %s in %s cannot be used: %s", other, self.directory, why)
                return page
        raise OSError(f"all {PAGES} pages are in use")

    def _open_if_free(self, name: str) -> JournalPage | None:
        try:
            lock = PageLock(self.directory / f"{name}.lock")
        except BlockingIOError:
            return None
        try:
            return JournalPage(self.directory / f"{name}{SUFFIX}", lock, durable=self.durable)
        except (OSError, sqlite3.Error):
            lock.release()  # while it is held, what stands in the page counts as of a running process
            raise

    def _make_private(self, temporary: str | None) -> Path:
        directory, lock = make_temporary_directory(TEMPORARY_PREFIX, temporary)
        weakref.finalize(self, os.close, lock)
        return directory


def journal_directory(conf: cfg.ConfigOpts) -> Path | None:
    """Return where the journal of this daemon outlives its process; None if no state_path is set.

    The default of ``state_path`` is the directory of the installed code, which is no place for data.
    """
    location = conf.get_location("state_path")
    if location is None or not location.location.is_user_controlled:
        return None
    name = re.sub(r"[^\w.-]", "_", conf.host)
    return Path(conf.state_path) / f"{DIRECTORY_PREFIX}{name}"


def _is_usable(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError as error:
        LOG.error(
            "[DEFAULT]/state_path: no journal of claims can be kept there (%s); claims of unanswered "
            "requests are given back after the death of a worker, but not after that of the master process",
            error,
        )
        return False


class ClaimJournal:
    """The recorded claims of this process; none before ``open_page``.

    If no page can be opened, as on a full disk, nothing is recorded until a later message, with which it is
    tried again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Record nothing; ``clock`` returns seconds that only grow."""
        self._clock = clock
        self._opening = threading.Lock()
        self._reporting = threading.Lock()
        self._due = math.inf
        self._journal: Any = None
        self._page: Page | None = None
        self._messages: MessageRuns = NoRuns()
        self._on_found: Callable[[str, ClaimResult], None] = lambda _uuid, _claim: None

    def open_page(self, journal: Any, found: Callable[[str, ClaimResult], None]) -> None:
        """Record claims in a page of the journal from now on.

        Args:
            journal: A ``Journal``.
            found: Called with instance UUID and what is known of the claim, for each claim that a dead
                process recorded, now or when its page is taken over later. Its record stays until it is
                removed.
        """
        self._journal, self._on_found = journal, found
        self._open()

    def _open(self) -> None:
        page = self._journal.open_page()
        self._due = math.inf if page else self._clock() + REOPEN_DELAY
        if page:
            self._page, self._messages = page, page.messages
        self._report_found()

    def _open_if_due(self) -> None:
        """Try again to open a page, in one thread."""
        if self._clock() < self._due or not self._opening.acquire(blocking=False):
            return
        try:
            if self._clock() >= self._due:
                self._open()
        finally:
            self._opening.release()

    def _report_found(self) -> None:
        """Report what was taken over; wait for what another thread reports."""
        with self._reporting:
            self._report_each(self._page.found_records() if self._page else ())

    def _report_each(self, records: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        for uuid, record in records:
            try:
                claim = _claim_of(record)
            except (KeyError, TypeError, AttributeError):
                LOG.error(
                    "Journal record of instance %s by a worker that died is not understood: %s", uuid, record
                )
                self.remove_records([uuid])
            else:
                self._on_found(uuid, claim)

    def record_writes(self, writes: Mapping[str, OwnWrite], request: str = "") -> None:
        """Record writes that are about to be sent together.

        Args:
            writes: By instance UUID.
            request: The identity of the request.
        """
        if self._page and writes:
            self._page.add_records(_records_of(writes), request)

    def mark_sent(self, uuids: Collection[str]) -> None:
        """Record that the claims of these instances are sent now: from now on they may be in effect."""
        if self._page:
            self._page.mark_sent(uuids)

    def withdraw_records(self, uuids: Collection[str]) -> None:
        """Remove the records of these instances: Placement has refused their claims."""
        if self._page:
            self._page.withdraw_records(uuids)

    def withdraw_writes(self, writes: Mapping[str, OwnWrite]) -> None:
        """Remove what ``record_writes`` has recorded last of these writes: they were refused, or not sent."""
        if self._page and writes:
            self._page.withdraw_newest(_records_of(writes))

    def remove_records(self, uuids: Collection[str]) -> None:
        """Remove the records of these instances: none of their claims is to be given back any more."""
        if self._page:
            self._page.remove_records(uuids)

    def begin_run(self, message_id: str) -> None:
        """Record that a message is being run."""
        self._open_if_due()
        self._messages.begin_run(message_id)

    def interrupted_runs(self, message_id: str) -> int:
        """Return how many runs of a message ended with their process.

        Those count whose pages were taken over (``runs_elsewhere``).
        """
        return self._messages.interrupted_runs(message_id)

    def was_run_elsewhere(self, message_id: str) -> bool:
        """Return whether another process runs a message, has answered it, or has ended while it ran it."""
        return self._messages.was_run_elsewhere(message_id)

    def leave_run(self, message_id: str) -> None:
        """Remove the record that this process runs a message; its runs that were interrupted still count."""
        self._messages.leave_run(message_id)

    def end_run(self, message_id: str) -> None:
        """Remove the records of a message that was answered, or returned to the broker."""
        self._messages.end_run(message_id)

    def runs_elsewhere(self, message_id: str) -> bool:
        """Return whether another process that is alive runs a message."""
        elsewhere = self._messages.runs_elsewhere(message_id)
        self._report_found()
        return elsewhere

    def begin_reply(self, message_id: str, *, failed: bool) -> None:
        """Record that a reply is about to be sent: from now on its caller may know it.

        Args:
            message_id: The identity of the message.
            failed: Whether the reply is an error.
        """
        self._messages.begin_reply(message_id, failed=failed)

    def withdraw_reply(self, message_id: str) -> None:
        """Record that a reply was not delivered."""
        self._messages.withdraw_reply(message_id)

    def confirm_reply(self, message_id: str) -> None:
        """Record that the broker has confirmed a reply, which ends the run of its message."""
        self._messages.confirm_reply(message_id)

    def reply_to(self, message_id: str) -> RecordedReply | None:
        """Return what any process of the daemon has recorded of the reply to a message."""
        return self._messages.reply_to(message_id)

    def claims_of_others(self, uuids: Collection[str], request: str = "") -> OtherClaims:
        """Return the claims of other processes for these instances whose request is not over.

        What dead processes have recorded of them is this process's from now on, and reported as found.

        Args:
            uuids: The instances.
            request: The identity of the request that asks.
        """
        busy: set[str] = set()
        returned: dict[str, tuple[OwnWrite, ...]] = {}
        abandoned: dict[str, tuple[OwnWrite, ...]] = {}
        records = self._page.recorded_by_others(uuids) if self._page else ()
        self._report_found()
        for record in records:
            same = bool(request) and record.request == request
            claim = _recorded_claim(record)
            if claim is None or not (same or (record.abandoned and not self._may_be_known(record))):
                busy.add(record.instance)
            else:
                writes = abandoned if record.abandoned else returned
                writes[record.instance] = (*writes.get(record.instance, ()), *claim.own_writes)
        return OtherClaims(frozenset(busy), returned, abandoned)

    def _may_be_known(self, record: Record) -> bool:
        reply = self.reply_to(record.request) if record.request else None
        return reply is not None and not reply.failed


def _recorded_claim(record: Record) -> ClaimResult | None:
    """Return the claim of a record; None if it is not understood."""
    try:
        return _claim_of(record.claim)
    except (KeyError, TypeError, AttributeError):
        return None


def _records_of(writes: Mapping[str, OwnWrite]) -> dict[str, dict[str, Any]]:
    return {uuid: _record_of(one.made, one.previous) for uuid, one in writes.items()}


def _record_of(made: ConsumerAllocations, previous: ConsumerAllocations | None) -> dict[str, Any]:
    return {"made": _to_json(made), "previous": previous and _to_json(previous)}


def _to_json(held: ConsumerAllocations) -> dict[str, Any]:
    owner = [held.owner.project_id, held.owner.user_id]
    return {"allocations": held.allocations, "generation": held.generation, "owner": owner}


def _from_json(value: Mapping[str, Any]) -> ConsumerAllocations:
    return ConsumerAllocations(value["allocations"], value["generation"], Owner(*value["owner"]))


def _claim_of(record: Mapping[str, Any]) -> ClaimResult:
    previous = record["previous"] and _from_json(record["previous"])
    return ClaimResult(Outcome.CLAIMED, made=_from_json(record["made"]), previous=previous, unsure=True)
