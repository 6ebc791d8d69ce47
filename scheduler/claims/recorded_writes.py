"""What the journal records of claims and writes, and what it knows of those of other processes."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
import math
from typing import Self

from oslo_log import log

from scheduler.claims.claim_request import ClaimRequest
from scheduler.claims.cleanup import AllocationCleanup
from scheduler.claims.journal import ClaimJournal, Journal
from scheduler.claims.parts import ClaimParts
from scheduler.claims.result import ClaimResult, OwnWrite
from scheduler.placement.writes import WriteResult, Written

LOG = log.getLogger(__name__)

EarlierWrites = Mapping[str, tuple[OwnWrite, ...]]
"""Instance UUID → writes of other processes that may be replaced, as no caller was told of them."""


class RecordedClaims:
    """The claims of this process and of dead ones in the journal."""

    def __init__(
        self, parts: ClaimParts, cleanup: AllocationCleanup, is_stopping: Callable[[], bool]
    ) -> None:
        """Begin without a journal.

        Args:
            parts: What all claims work with.
            cleanup: Gives back what dead processes recorded.
            is_stopping: Whether the process stops.
        """
        self._parts, self._cleanup, self._is_stopping = parts, cleanup, is_stopping
        self._journal, self._timing = parts.journal, parts.timing
        self._taken_over: dict[str, float] = {}  # instance -> when the record of a dead process was

    def open(self, journal: Journal) -> None:
        """Record claims there from now on, and give back in the background what a dead process recorded."""
        self._journal.open_page(journal, self._clean_up)

    def _clean_up(self, uuid: str, claim: ClaimResult) -> None:
        LOG.warning("Removing allocations of instance %s left by a worker that died", uuid)
        self._taken_over[uuid] = self._timing.monotonic()
        self._cleanup.schedule_cleanup(uuid, claim, delay=self._parts.policy.recorded_claim_delay)

    def forget(self, uuids: Collection[str]) -> None:
        """Forget what was recorded of instances of which nothing is left to give back."""
        self._journal.remove_records(uuids)
        for uuid in uuids:
            self._taken_over.pop(uuid, None)

    def wait_for_dead_writes(self, request: ClaimRequest) -> None:
        """Wait until Placement has ended what a process sent for the instance before it died."""
        taken_over = self._taken_over.pop(request.uuid, -math.inf)
        now = self._timing.monotonic()
        wait = min(taken_over + self._parts.policy.recorded_write_delay, request.deadline) - now
        if wait > 0 and not self._is_stopping():
            self._timing.sleep(wait)

    def record(
        self, requests: Sequence[ClaimRequest], timeout: float, *, confirms: bool = False
    ) -> EarlierWrites | None:
        """Record claims before they are sent.

        Of two processes that record at once both see the other, step back and try again. A confirmation takes
        over what another process gives back for the same message. The write raises the generation: so it is
        left alone there, and is this process's to give back. It is recorded right before it is sent, with its
        own generation: with that of a new consumer, its record would be taken for that of the allocations.

        Args:
            requests: The claims.
            timeout: Seconds to wait for other processes.
            confirms: Whether they confirm what the instances hold.

        Returns:
            What other processes have written and may be replaced; None if another process has claims for an
            instance that may not, and nothing may be sent.
        """
        uuids = [request.uuid for request in requests]
        writes = {} if confirms else {request.uuid: request.plain for request in requests}
        unrecorded = writes
        end = self._timing.monotonic() + timeout
        while True:
            self._journal.record_writes(unrecorded, requests[0].message_id)
            others = self._journal.claims_of_others(uuids, requests[0].message_id)
            if not others.busy and (confirms or not others.returned):
                return others.earlier
            # Records of what is still to be given back stay, and those with them.
            unrecorded = {uuid: one for uuid, one in writes.items() if not self._cleanup.is_pending(uuid)}
            self._journal.remove_records(list(unrecorded))
            if self._timing.monotonic() >= end or self._is_stopping():
                return None
            self._timing.sleep(self._timing.uniform(*self._parts.writer.policy.retry_delay))


class RecordedWrites:
    """Records writes before they are sent, each try without a response, and withdraws those not in effect."""

    def __init__(
        self,
        journal: ClaimJournal,
        writes: Mapping[str, OwnWrite],
        known: Mapping[str, OwnWrite],
        message_id: str,
    ) -> None:
        """Prepare records.

        Args:
            journal: Where they are.
            writes: By instance UUID what each write of ours does.
            known: What is recorded already.
            message_id: The identity of the message that the writes are for.
        """
        self._journal, self._message_id = journal, message_id
        self._writes, self._known = writes, known
        self._times = Counter(uuid for uuid, one in writes.items() if one != known.get(uuid))

    def __enter__(self) -> Self:
        self._journal.record_writes({uuid: self._writes[uuid] for uuid in self._times}, self._message_id)
        return self

    def __exit__(self, *_error: object) -> None:
        """Leave the records: the writes may be in effect."""

    def note_lost(self, uuids: Collection[str]) -> None:
        """Record writes once more: the try that follows one without a response may be carried out, too."""
        lost = {uuid: self._writes[uuid] for uuid in uuids if uuid in self._writes}
        self._times.update(lost.keys())
        self._journal.record_writes(lost, self._message_id)

    def settle(self, written: Mapping[str, Written]) -> Mapping[str, Written]:
        """Withdraw what was recorded of tries that are not in effect; return what became of all writes."""
        for uuid, times in self._times.items():
            one = written[uuid]
            known = self._writes[uuid] == self._known.get(uuid)
            for _ in range(known + times - one.lost - (one.result is WriteResult.DONE)):
                self._journal.withdraw_writes({uuid: self._writes[uuid]})
        return written
