"""Claiming the best host that Placement lets us have (spec: placement-and-workflow 4, 5.4)."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

from oslo_log import log as logging

from scheduler.errors import AllocationUpdateFailed, BerthError, NoValidHost
from scheduler.placement.outcome import ClaimResult, Outcome
from scheduler.selection.ranking import Ranking

LOG = logging.getLogger(__name__)

NOT_ENOUGH = "There are not enough hosts available."

# What Placement refused for one candidate mostly holds for its host; nova tries but one.
CANDIDATES_A_HOST = 3


def everywhere(_host: str) -> bool:
    """Every host is mapped."""
    return True


class Claims(Protocol):
    """Claims of one request: who asks, and for whom, is settled already."""

    def claim(self, instance_uuid: str, candidate: Any) -> ClaimResult:
        """Claim a candidate for an instance."""

    def release(self, instance_uuid: str, claim: ClaimResult) -> None:
        """Give back a claim that succeeded, at once or in the background; never raises."""


class Claiming:
    """The claims of one request on the hosts of its ranking."""

    def __init__(
        self, ranking: Ranking, claims: Claims | None, mapped: Callable[[str], bool] = everywhere
    ) -> None:
        """``claims`` None: the request claims nothing, and the best host is as good as claimed.

        ``mapped``: whether conductors know the cell of a service host. They bury what is sent to others.
        """
        self._mapped = mapped
        self._ranking = ranking
        self._claims = claims
        self._granted: list[tuple[str, ClaimResult]] = []
        self._tried: list[int] = []
        self._rest: Iterator[int] = iter(())

    def claim_best(self, instance_uuid: str) -> tuple[int, Any]:
        """Try the hosts, best first: the index of the one that was claimed, and the candidate.

        Raises ``NoValidHost`` if there is none, or if trying others would be of no use or not safe.
        """
        self._tried, self._rest = [], self._ranking.best_first()
        for index in self._rest:
            candidate = self._claim_on(index, instance_uuid) if self._claims else None
            if candidate is not None or self._claims is None:
                LOG.debug("Selected host: %s", repr(self._ranking.hosts.host(index)))
                return index, candidate
            self._tried.append(index)
            self._ranking.refuse(index)
        if self._tried:
            LOG.debug("Unable to successfully claim against any host for instance %s", instance_uuid)
        raise NoValidHost(NOT_ENOUGH)

    def others(self) -> Iterator[int]:
        """The hosts that ``claim_best`` passed over, in its order; those that refused come last."""
        return chain(self._rest, self._tried)

    def give_back(self) -> None:
        """Release what was claimed. Failed claims clean up after themselves."""
        while self._granted:
            uuid, result = self._granted.pop()
            self._claims.release(uuid, result)

    def _claim_on(self, index: int, instance_uuid: str) -> Any:
        """The candidate of one host that could be claimed; None if none of them."""
        row = self._ranking.hosts.row(index)
        if not self._mapped(row.host):
            LOG.warning("Host %s is passed over: it is mapped to no cell", row.host)
            return None
        refused: list[tuple[Any, str]] = []
        for candidate in self._ranking.hosts.candidates(index)[:CANDIDATES_A_HOST]:
            if any(same_share(earlier, candidate, why) for earlier, why in refused):
                continue
            result = self._claims.claim(instance_uuid, candidate)
            if result.claimed:
                self._granted.append((instance_uuid, result))
                return candidate
            if not result.try_next:
                raise final_refusal(instance_uuid, result)
            refused.append((candidate, result.refused_class))
        return None


def final_refusal(instance_uuid: str, result: ClaimResult) -> BerthError:
    """The error that ends a request after a claim that no other host can make good."""
    if result.outcome is Outcome.CONFLICT:
        return AllocationUpdateFailed(instance_uuid, result.reason)
    LOG.warning("No host can be claimed for instance %s: %s", instance_uuid, result.reason)
    return NoValidHost(NOT_ENOUGH)


def same_share(first: Any, candidate: Any, refused_class: str) -> bool:
    """Whether a refusal of ``first`` for a resource class holds for ``candidate`` too; without a class it
    does.
    """
    if not refused_class:
        return True
    return share(first, refused_class) == share(candidate, refused_class)


def share(candidate: Any, resource_class: str) -> dict[str, int]:
    """How much of a resource class a candidate takes, by provider."""
    return {
        provider: part["resources"][resource_class]
        for provider, part in candidate.allocations.items()
        if resource_class in part["resources"]
    }
