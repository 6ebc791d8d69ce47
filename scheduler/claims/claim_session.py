"""The claims of one request: who asks, for whom, what an evacuated instance may keep, and for how long."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
import math
import time
from typing import Any, Protocol, Self

from oslo_log import log as logging

from scheduler.claims.allocations_api import ConsumerAllocations, Owner
from scheduler.claims.claimer import Claimer
from scheduler.claims.result import ClaimResult, Outcome
from scheduler.errors import NoValidHost

LOG = logging.getLogger(__name__)

TOO_LATE = "its caller has given up by now"


class Reservations(Protocol):
    """Where hosts are reserved for instances."""

    def drop(self, instance_uuids: Iterable[str]) -> None:
        """Take back what is reserved for these instances."""


class ClaimSession:
    """A ``Claimer`` with everything filled in that is the same for all instances of a request.

    A context manager: what is claimed in it, and what is reserved for its instances, is given back if it ends
    with an error, or too late.
    """

    def __init__(
        self,
        claimer: Claimer,
        pending: Reservations,
        context: Any,
        request: Any,
        instance_uuids: Sequence[str],
        ignored: Collection[str] = (),
        deadline: float = math.inf,
    ) -> None:
        """``pending``: where hosts are reserved. ``ignored``: uuids of the compute nodes of the hosts that
        the request ignores. ``deadline``: when nobody waits for the answer any more, in seconds of
        ``time.monotonic``.
        """
        self._claimer = claimer
        self._pending = pending
        self._instance_uuids = instance_uuids
        self._context = context
        self._owner = Owner(request.project_id, request.user_id or context.user_id)
        self._ignored = ignored
        self._deadline = deadline
        self._claims: dict[str, ClaimResult | None] = {}

    def claim(self, instance_uuid: str, candidate: Any) -> ClaimResult:
        if self._is_late():
            return ClaimResult(Outcome.UNAVAILABLE, TOO_LATE)
        with self._expecting({instance_uuid: candidate}):
            result = self._claimer.claim(
                instance_uuid,
                candidate,
                self._owner.project_id,
                self._owner.user_id,
                self._context,
                self._ignored,
            )
        self._keep({instance_uuid: result})
        return result

    def claim_many(self, candidates: Mapping[str, Any]) -> Mapping[str, ClaimResult]:
        if self._is_late():
            return dict.fromkeys(candidates, ClaimResult(Outcome.UNAVAILABLE, TOO_LATE))
        with self._expecting(candidates):
            results = self._claimer.claim_many(
                candidates, self._owner.project_id, self._owner.user_id, self._context
            )
        self._keep(results)
        return results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_details: object) -> None:
        """Raises ``NoValidHost`` if the deadline has passed."""
        late = error is None and self._is_late()
        try:
            if late or error is not None:
                self._give_back()
        finally:
            self._claimer.answered(self._claims)
        if late:
            LOG.warning("A request took too long: %s", TOO_LATE)
            raise NoValidHost(TOO_LATE)

    @contextmanager
    def _expecting(self, candidates: Mapping[str, Any]) -> Iterator[None]:
        """While a claim is made: after an error nobody knows how far it came."""
        expected = {uuid: self._perhaps(candidate) for uuid, candidate in candidates.items()}
        self._claims |= dict.fromkeys(uuid for uuid in candidates if uuid not in self._claims)
        try:
            yield
        except BaseException:
            for uuid, claim in expected.items():
                self._release(uuid, claim)
            raise

    def _perhaps(self, candidate: Any) -> ClaimResult:
        # A release takes back only what the candidate gave.
        return ClaimResult(
            Outcome.CLAIMED, made=ConsumerAllocations(candidate.allocations, owner=self._owner), unsure=True
        )

    def _keep(self, results: Mapping[str, ClaimResult]) -> None:
        self._claims |= {uuid: result for uuid, result in results.items() if result.claimed}

    def _give_back(self) -> None:
        for uuid, claim in list(self._claims.items()):
            if claim:
                self._release(uuid, claim)
        self._pending.remove(self._instance_uuids)

    def _release(self, instance_uuid: str, claim: ClaimResult) -> None:
        self._claims[instance_uuid] = None
        self._claimer.release(instance_uuid, claim, self._context)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline
