"""One claim, from its first PUT until it is known how it ended (spec: placement-and-workflow 4.3-4.6).

A new consumer is the rule, so the first PUT says that there is none and nothing is read before it. What
the consumer holds is read only when Placement contradicts, or when an answer got lost.

Instances of which Placement keeps a record without allocations (spec: placement-and-workflow 4.5).
"""

from collections.abc import Collection
from dataclasses import dataclass
import logging
import time

from oslo_log import log

from scheduler.claims.allocations_api import (
    NOTHING,
    AllocationsApi,
    ConsumerAllocations,
    Owner,
    doubled,
    fresh,
)
from scheduler.claims.journal import ClaimJournal
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.responses import Verdict, culprit, expected_generation, judge
from scheduler.claims.result import ClaimResult, Outcome
from scheduler.locks import KeyedLocks
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered


class EmptyConsumers:
    """Left behind by a claim on a provider that does not exist; the next claim has to say so.

    Only a hint that saves two requests, so a bounded number is kept.
    """

    CAPACITY = 10_000

    def __init__(self) -> None:
        self._known: dict[str, None] = {}

    def generation(self, uuid: str) -> int | None:
        """What the next claim has to give as the consumer's generation."""
        return 0 if uuid in self._known else None

    def add(self, uuid: str) -> None:
        """Remember one, and forget the oldest if there are too many."""
        self._known[uuid] = None
        if len(self._known) > self.CAPACITY:
            self._known.pop(next(iter(self._known)), None)

    def discard(self, uuid: str) -> None:
        """It has allocations now."""
        self._known.pop(uuid, None)


LOG = log.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Who wants what. ``evacuating_from``: compute nodes whose allocations the instance keeps besides."""

    uuid: str
    candidate: AllocationCandidate
    owner: Owner
    context: object = None
    evacuating_from: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """What is known of the consumer beforehand.

    :ivar generation: 0 if it is known to exist without allocations.
    :ivar unsure: a write of an earlier claim may still be carried out; that claim sees to it.
    :ivar lost: writes for this claim without an answer.
    """

    generation: int | None = None
    unsure: bool = False
    lost: int = 0


class AllocationClaim:
    """Runs once. ``api`` makes the calls, ``lanes`` keeps claims on one host apart, ``notes`` has
    the plain claim already.

    :ivar orphaned: Placement now has a record of the consumer without allocations.
    """

    def __init__(
        self,
        wish: ClaimRequest,
        api: AllocationsApi,
        lanes: KeyedLocks,
        patience: ClaimPolicy,
        notes: ClaimJournal,
        known: ConsumerState = ConsumerState(),
    ) -> None:
        self.orphaned = False
        self._wish = wish
        self._api = api
        self._lanes = lanes
        self._patience = patience
        self._notes = notes
        self._deadline = time.monotonic() + patience.claim
        self._generation = known.generation
        self._before = NOTHING  # what the consumer holds until our PUT is carried out
        self._keeps = False  # whether it keeps that besides (an evacuation)
        self._verify = known.unsure or known.lost > 0
        self._lost = self._sent = known.lost  # writes without an answer; writes
        self._overlaps = known.unsure
        self._granted = False  # Placement has said yes, whatever came after
        self._tries = patience.tries
        self._conflicts = patience.conflicts

    def run(self) -> ClaimResult:
        """Until it is known how the claim ended. Never raises for what Placement or the network do."""
        result = None
        try:
            while result is None:
                result = self._round()
        except PlacementSilent as error:
            return self._result(Outcome.UNAVAILABLE, str(error))
        return result

    def _round(self) -> ClaimResult | None:
        if time.monotonic() > self._deadline:
            return self._result(Outcome.UNAVAILABLE, "the claim took too long")
        try:
            reply = self._put()
        except PlacementUnanswered as error:
            delays = self._patience.after_timeout if error.timed_out else self._patience.after_break
        else:
            return self._react(reply)
        return self._look_for_effect(delays)

    def _put(self) -> Reply | None:
        wish = self._wish
        with self._lanes.hold(wish.candidate.roots, self._patience.lock) as free:
            if not free:
                return None
            self._sent += 1
            return self._api.put(wish.uuid, self._body(), wish.context)

    def _body(self) -> dict:
        wish = self._wish
        if self._keeps:
            return doubled(self._before, wish.candidate, wish.owner)
        return fresh(wish.candidate, wish.owner, self._generation)

    @property
    def _wanted(self) -> Resources:
        return self._body()["allocations"]

    def _react(self, reply: Reply | None) -> ClaimResult | None:
        if reply is None:
            return self._result(Outcome.CONTENDED, "too many claims wait for the host")
        verdict = judge(reply)
        if verdict is Verdict.DONE:
            self._granted = True
            return self._done()
        # That the consumer exists is news, not a failure: an evacuation begins like that.
        level = logging.DEBUG if verdict is Verdict.CONSUMER_CONFLICT else logging.WARNING
        LOG.log(
            level,
            "Failed to save allocation for %s. Got HTTP %s: %s",
            self._wish.uuid,
            reply.status,
            reply.text,
        )
        reactions = {
            Verdict.CONSUMER_CONFLICT: self._on_consumer_conflict,
            Verdict.CONCURRENT: self._on_concurrent_update,
            Verdict.UNKNOWN: lambda _reply: self._look_for_effect(self._patience.after_break),
            Verdict.GONE: self._on_missing_provider,
            Verdict.REFUSED: lambda reply: self._refusal(Outcome.REFUSED, reply),
            Verdict.INVALID: lambda reply: self._refusal(Outcome.INVALID, reply),
            Verdict.DENIED: lambda reply: self._refusal(Outcome.UNAVAILABLE, reply),
        }
        return reactions[verdict](reply)

    def _done(self) -> ClaimResult | None:
        if not self._verify:
            return self._result(Outcome.CLAIMED)
        held = self._read()
        if held.allocations:
            return self._adopt(held)
        # Two writes for this consumer overlapped: the rows exist, but hidden. Written again they show.
        self._before, self._generation, self._verify = NOTHING, None, False
        return None

    def _on_consumer_conflict(self, reply: Reply) -> ClaimResult | None:
        held = self._read()
        if held.allocations:
            return self._adopt(held)
        generation = expected_generation(reply)
        if generation is not None:
            # Either a record left behind by a refused claim, or somebody's claim in the making.
            held = self._watch(self._patience.after_break) or NOTHING
            if held.allocations:
                return self._adopt(held)
        return self._start_from(NOTHING, generation)

    def _adopt(self, held: ConsumerAllocations) -> ClaimResult | None:
        """Go on from what the consumer turned out to hold."""
        if held.allocations == self._wanted:
            return self._result(Outcome.CLAIMED)
        self._keeps = self._is_source(held)
        if not self._keeps:
            LOG.info("Instance %s holds allocations of an abandoned request; replacing them", self._wish.uuid)
        return self._start_from(held, held.generation)

    def _start_from(self, held: ConsumerAllocations, generation: int | None) -> ClaimResult | None:
        self._conflicts -= 1
        if self._conflicts < 0:
            return self._result(Outcome.CONFLICT, "its allocations are being changed by somebody else")
        self._before, self._generation = held, generation
        if self._keeps:
            self._notes.write(self._wish.uuid, self._made(), held)
        return None

    def _is_source(self, held: ConsumerAllocations) -> bool:
        sources = self._wish.evacuating_from
        if not sources or any(provider in sources for provider in held.allocations):
            return bool(sources)
        return any(
            self._api.root_of(provider, self._wish.context) in sources for provider in held.allocations
        )

    def _on_concurrent_update(self, reply: Reply) -> ClaimResult | None:
        self._tries -= 1
        if self._tries <= 0:
            LOG.error("Failed scheduler client operation claim_resources: out of retries: %s", reply.detail)
            return self._refusal(Outcome.CONTENDED, reply)
        time.sleep(self._patience.retry_delay())
        return None

    def _on_missing_provider(self, reply: Reply) -> ClaimResult:
        self.orphaned = self._generation is None
        return self._refusal(Outcome.GONE, reply)

    def _look_for_effect(self, delays) -> ClaimResult | None:
        """The PUT is done, undone or still running; it is repeated when it must have ended without effect."""
        self._lost += 1
        self._verify = True
        held = self._watch(delays)
        if held is None:
            return self._result(Outcome.UNAVAILABLE, "Placement does not answer")
        if held != self._before:
            return self._adopt(held)
        if self._lost > self._patience.resend:
            return self._result(Outcome.UNAVAILABLE, "Placement does not answer any write")
        return None

    def _watch(self, delays) -> ConsumerAllocations | None:
        """Look after each delay until the consumer has changed: what it held last; None: nobody answered."""
        held = None
        for delay in delays:
            time.sleep(delay)
            try:
                held = self._read()
            except PlacementSilent:
                continue
            if held != self._before:
                break
        return held

    def _read(self) -> ConsumerAllocations:
        return self._api.read(self._wish.uuid, self._wish.context)

    def _made(self) -> ConsumerAllocations:
        return ConsumerAllocations(self._wanted, owner=self._wish.owner)

    def _refusal(self, outcome: Outcome, reply: Reply) -> ClaimResult:
        return self._result(outcome, reply.summary, *culprit(reply))

    def _result(self, outcome: Outcome, reason: str = "", name: str = "", provider: str = "") -> ClaimResult:
        claimed = outcome is Outcome.CLAIMED
        return ClaimResult(
            outcome,
            reason,
            refused_class=name,
            refused_provider=provider,
            made=self._made() if claimed or self._granted or self._lost else None,
            previous=self._before if self._keeps else None,
            unsure=self._lost > 0 or (self._granted and not claimed),
            overlapped=self._sent > 0 and (self._overlaps or (self._lost > 0 and self._sent > 1)),
        )
