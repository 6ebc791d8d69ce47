"""The claims of one request: who asks, for whom, and what an evacuated instance may keep."""

from collections.abc import Collection, Mapping
from typing import Any

from scheduler.hosts.table import HostTable
from scheduler.placement.claims import Claimer
from scheduler.placement.consumers import Held, Owner
from scheduler.placement.outcome import ClaimResult, Outcome


class RequestClaims:
    """A ``Claimer`` with everything filled in that is the same for all instances of a request."""

    def __init__(self, claimer: Claimer, context: Any, request: Any, ignored: Collection[str]) -> None:
        """``ignored``: uuids of the compute nodes of the hosts that the request ignores."""
        self._claimer = claimer
        self._context = context
        self._project = request.project_id
        self._user = request.user_id or context.user_id
        self._ignored = ignored
        self._claimed_for: set[str] = set()

    def claim(self, instance_uuid: str, candidate: Any) -> ClaimResult:
        self._claimed_for.add(instance_uuid)
        return self._claimer.claim(
            instance_uuid, candidate, self._project, self._user, self._context, self._ignored
        )

    def claim_many(self, candidates: Mapping[str, Any]) -> Mapping[str, ClaimResult]:
        self._claimed_for.update(candidates)
        try:
            return self._claimer.claim_many(candidates, self._project, self._user, self._context)
        except BaseException:
            # nobody knows how far it came; a release takes back only what the candidate gave
            for uuid, candidate in candidates.items():
                held = Held(candidate.allocations, owner=Owner(self._project, self._user))
                self.release(uuid, ClaimResult(Outcome.CLAIMED, made=held, unsure=True))
            raise

    def close(self) -> None:
        """The request is settled: whatever is claimed by now is wanted."""
        self._claimer.answered(self._claimed_for)

    def release(self, instance_uuid: str, claim: ClaimResult) -> None:
        self._claimer.release(instance_uuid, claim, self._context)


def ignored_nodes(table: HostTable, request: Any) -> frozenset[str]:
    """Compute nodes of the request's ``ignore_hosts``: an evacuation names the failed host there.

    Names compare without case, and disabled cells count too (spec: placement-and-workflow 4.6).
    """
    names = {name.lower() for name in request.ignore_hosts or ()}
    return frozenset(row.uuid for row in table.rows if row.host.lower() in names) if names else frozenset()
