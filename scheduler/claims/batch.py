"""Claims for many instances in one request to Placement, all or none (spec: placement-and-workflow 4.9).

One that is refused costs nothing to undo: it is left out, and the rest is sent again. What a single claim
can sort out better, such as an instance that holds something already, is left to single claims.
"""

from collections.abc import Callable, Iterable
import time

from oslo_log import log

from scheduler.claims.allocations_api import AllocationsApi, ConsumerAllocations, fresh
from scheduler.claims.claim import ClaimRequest, ConsumerState, EmptyConsumers
from scheduler.claims.policy import ClaimPolicy
from scheduler.claims.responses import Verdict, culprit, judge
from scheduler.claims.result import ClaimResult, Outcome
from scheduler.locks import KeyedLocks
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementSilent, PlacementUnanswered, PlacementUnreachable

LOG = log.getLogger(__name__)

# The server's work grows with their number, and others wait for its transaction to end.
AT_ONCE = 20

# Instances that may be refused before the others are claimed one by one.
REFUSALS = 3

Results = dict[str, ClaimResult]


class Batch:
    """Runs once, for at most ``AT_ONCE`` wishes of different instances whose locks the caller holds.

    :param single: claims for one instance, with what is known of it beforehand.
    """

    def __init__(
        self,
        wishes: Iterable[ClaimRequest],
        api: AllocationsApi,
        lanes: KeyedLocks,
        orphans: EmptyConsumers,
        patience: ClaimPolicy,
        single: Callable[[ClaimRequest, ConsumerState], ClaimResult],
    ) -> None:
        self._left = {wish.uuid: wish for wish in wishes}
        self._api = api
        self._lanes = lanes
        self._orphans = orphans
        self._patience = patience
        self._single = single
        self._results: Results = {}
        self._refusals = REFUSALS
        self._tries = patience.tries

    def run(self) -> Results:
        """Until every instance has its result. Never raises for what Placement or the network do."""
        going = True
        while going and len(self._left) > 1:
            going = self._round()
        self._one_by_one()
        return self._results

    def _one_by_one(self, lost: int = 0) -> bool:
        for uuid, wish in list(self._left.items()):
            result = self._single(wish, ConsumerState(self._orphans.generation(uuid), lost=lost))
            self._finish(uuid, result)
            if result.hopeless:
                return self._finish_all(result.outcome, result.reason, unsure=lost > 0)
        return False

    def _round(self) -> bool:
        """One POST; False if it is not worth another, and what is left goes on one by one."""
        try:
            reply = self._post()
        except PlacementUnanswered as error:
            return self._look_for_effect(
                self._patience.after_timeout if error.timed_out else self._patience.after_break
            )
        except PlacementUnreachable as error:
            return self._finish_all(Outcome.UNAVAILABLE, str(error))
        return self._react(reply)

    def _post(self) -> Reply | None:
        roots = {root for wish in self._left.values() for root in wish.candidate.roots}
        with self._lanes.hold(roots, self._patience.lock) as free:
            if not free:
                return None
            return self._api.post({uuid: self._body(wish) for uuid, wish in self._left.items()})

    def _body(self, wish: ClaimRequest) -> dict:
        return fresh(wish.candidate, wish.owner, self._orphans.generation(wish.uuid))

    def _react(self, reply: Reply | None) -> bool:
        if reply is None:
            return False
        verdict = judge(reply)
        if verdict is Verdict.DONE:
            return self._finish_all(Outcome.CLAIMED)
        LOG.info(
            "Failed to save allocations for %s. Got HTTP %s: %s", list(self._left), reply.status, reply.text
        )
        reactions = {
            Verdict.UNKNOWN: lambda _reply: self._look_for_effect(self._patience.after_break),
            Verdict.DENIED: lambda reply: self._finish_all(Outcome.UNAVAILABLE, reply.summary),
            Verdict.CONCURRENT: lambda _reply: self._pause(),
            Verdict.REFUSED: self._leave_out_last,
            Verdict.GONE: self._leave_out_gone,
        }
        # Anything else is about one of them; claimed one by one it shows which.
        return verdict in reactions and reactions[verdict](reply)

    def _pause(self) -> bool:
        self._tries -= 1
        time.sleep(self._patience.retry_delay())
        return self._tries > 0

    def _leave_out_last(self, reply: Reply) -> bool:
        """Go on without the last of those that take from the full provider."""
        name, provider = culprit(reply)
        concerned = [uuid for uuid, wish in self._left.items() if takes(wish, provider, name)]
        return self._leave_out(concerned[-1:], Outcome.REFUSED, reply)

    def _leave_out_gone(self, reply: Reply) -> bool:
        """Go on without those on the missing provider. Placement has a record of all of them now."""
        for uuid in self._left:
            self._orphans.add(uuid)
        _, provider = culprit(reply)
        concerned = [uuid for uuid, wish in self._left.items() if provider in wish.candidate.allocations]
        return self._leave_out(concerned, Outcome.GONE, reply)

    def _leave_out(self, concerned: list[str], outcome: Outcome, reply: Reply) -> bool:
        for uuid in concerned:
            LOG.warning("Failed to save allocation for %s. Got HTTP %s: %s", uuid, reply.status, reply.text)
            self._finish(uuid, ClaimResult(outcome, reply.summary, *culprit(reply)))
        self._refusals -= 1
        return bool(concerned) and self._refusals > 0

    def _look_for_effect(self, delays) -> bool:
        """The POST did all or nothing: until one instance shows that it did, the others need no look."""
        answered = False
        first = next(iter(self._left.values()))
        for delay in delays:
            time.sleep(delay)
            shown = self._shows(first)
            answered = answered or shown is not None
            if shown:
                self._finish_shown()
                break
        if not answered:
            return self._finish_all(Outcome.UNAVAILABLE, "Placement does not answer", unsure=True)
        return self._one_by_one(lost=1)

    def _shows(self, wish: ClaimRequest) -> bool | None:
        """Whether the instance holds what it wants; None if Placement does not say."""
        try:
            return self._api.read(wish.uuid, wish.context).allocations == wish.candidate.allocations
        except PlacementSilent:
            return None

    def _finish_shown(self) -> None:
        # All of them are looked at: what the first one holds could be from an abandoned request.
        for uuid, wish in list(self._left.items()):
            if self._shows(wish):
                self._finish(uuid, self._result(wish, Outcome.CLAIMED))

    def _finish_all(self, outcome: Outcome, reason: str = "", *, unsure: bool = False) -> bool:
        for uuid, wish in list(self._left.items()):
            self._finish(uuid, self._result(wish, outcome, reason, unsure=unsure))
        return False

    def _result(
        self, wish: ClaimRequest, outcome: Outcome, reason: str = "", *, unsure: bool = False
    ) -> ClaimResult:
        known = outcome is Outcome.CLAIMED or unsure
        made = ConsumerAllocations(wish.candidate.allocations, owner=wish.owner) if known else None
        return ClaimResult(outcome, reason, made=made, unsure=unsure)

    def _finish(self, uuid: str, result: ClaimResult) -> None:
        self._results[uuid] = result
        del self._left[uuid]


def one_by_one(wishes: Iterable[ClaimRequest], claim: Callable[[ClaimRequest], ClaimResult]) -> Results:
    """The claims, one after the other, up to the first that leaves no hope for the rest."""
    results: Results = {}
    for wish in wishes:
        result = results[wish.uuid] = claim(wish)
        if result.hopeless:
            break
    return results


def takes(wish: ClaimRequest, provider: str, name: str) -> bool:
    """Whether it takes of that class from the provider."""
    entry = wish.candidate.allocations.get(provider)
    return entry is not None and name in entry["resources"]
