"""Claiming the best host that Placement lets us have (spec: placement-and-workflow 4, 5.4)."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Protocol

import numpy as np
from oslo_log import log as logging

from scheduler.claims.result import ClaimResult, Outcome
from scheduler.errors import AllocationUpdateFailed, BerthError, NoValidHost
from scheduler.selection.headroom import Headroom
from scheduler.selection.ranking import Ranking

LOG = logging.getLogger(__name__)

NOT_ENOUGH = "There are not enough hosts available."

# What Placement refused for one candidate mostly holds for its host; nova tries but one.
CANDIDATES_A_HOST = 3


def everywhere(_host: str) -> bool:
    """Every host is mapped."""
    return True


class Claims(Protocol):
    """Claims of one request: who asks, and for whom, is settled already.

    It remembers what it claimed, and gives that back if the request fails.
    """

    def claim(self, instance_uuid: str, candidate: Any) -> ClaimResult:
        """Claim a candidate for an instance."""

    def claim_many(self, candidates: Mapping[str, Any]) -> Mapping[str, ClaimResult]:
        """Claim a candidate for each instance, by instance uuid, none of which holds anything yet."""


class HostClaiming:
    """The claims of one request on the hosts of its ranking.

    Before a host is claimed it is reserved, so that other requests of this process look at others meanwhile.
    """

    def __init__(
        self,
        ranking: Ranking,
        claims: Claims | None,
        amounts: Mapping[str, int],
        mapped: Callable[[str], bool] = everywhere,
        room: Headroom | None = None,
    ) -> None:
        """``claims`` None: the request claims nothing, and the best host is as good as claimed.

        ``amounts``: what an instance takes, by column. ``mapped``: whether conductors know the cell of a
        service host. They bury what is sent to others. ``room``: what Placement has, for choices that are not
        claimed at once.
        """
        self._room = room or Headroom()
        self._mapped = mapped
        self._ranking = ranking
        self._claims = claims
        self._amounts = amounts
        self._chosen: dict[str, Any] = {}
        self._chosen_at: dict[str, int] = {}  # the positions of their hosts
        self._tried: list[int] = []  # positions of hosts that this instance cannot have
        self._rest: Iterator[int] = iter(())

    @property
    def claims(self) -> bool:
        """Whether anything is claimed at all."""
        return self._claims is not None

    def claim_best(self, instance_uuid: str) -> tuple[int, Any]:
        """Try the hosts, best first: the index of the one that was claimed, and the candidate.

        Raises ``NoValidHost`` if there is none, or if trying others would be of no use or not safe.
        """
        return self._take_best(instance_uuid, self._claim_on)

    def choose_best(self, instance_uuid: str) -> tuple[int, Any]:
        """As ``claim_best``, but leave the claim to ``claim_chosen``."""
        return self._take_best(instance_uuid, self._choose_on)

    def claim_chosen(self) -> list[str]:
        """Claim what was chosen, in few calls: the instances to which it was refused, another host may do.

        Raises as ``claim_best`` does.
        """
        chosen, self._chosen = self._chosen, {}
        results = self._claims.claim_many(chosen) if chosen else {}
        refused = [uuid for uuid in chosen if not results[uuid].claimed]
        for uuid in refused:
            self._ranking.hosts.unreserve(uuid)
            self._ranking.refuse(self._chosen_at[uuid])
            if not results[uuid].try_next:
                raise final_refusal(uuid, results[uuid])
        return refused

    def others(self) -> Iterator[int]:
        """The hosts that ``claim_best`` passed over, in its order; those that refused come last."""
        positions = self._ranking.hosts.positions
        tried = (int(index) for one in self._tried for index in np.flatnonzero(positions == one))
        return chain(self._rest, tried)

    def _take_best(self, instance_uuid: str, take: Callable[[int, str], Any]) -> tuple[int, Any]:
        self._tried = []
        self._rest = self._best_first()
        while (index := self._next(instance_uuid)) is not None:
            candidate = take(index, instance_uuid) if self.claims else None
            if candidate is not None or not self.claims:
                LOG.debug("Selected host: %s", repr(self._ranking.hosts.host(index)))
                return index, candidate
            self._ranking.hosts.unreserve(instance_uuid)
            position = int(self._ranking.hosts.positions[index])
            self._tried.append(position)
            self._ranking.refuse(position)
        if self._tried:
            LOG.debug("Unable to successfully claim against any host for instance %s", instance_uuid)
        raise NoValidHost(NOT_ENOUGH)

    def _best_first(self) -> Iterator[int]:
        positions = self._ranking.hosts.positions
        return (index for index in self._ranking.best_first() if positions[index] not in self._tried)

    def _next(self, instance_uuid: str) -> int | None:
        """The best host that was not tried, reserved; None if there is none."""
        index = next(self._rest, None)
        if index is None or self._reserve(index, instance_uuid):
            return index
        with self._ranking.hosts.serialized():
            for is_last in (False, False, True):
                self._ranking.catch_up()
                self._rest = self._best_first()
                index = next(self._rest, None)
                if index is None or self._reserve(index, instance_uuid, anyway=is_last):
                    break
        return index

    def _reserve(self, index: int, instance_uuid: str, *, anyway: bool = False) -> bool:
        """False if other requests took to this host since the ranking was made."""
        if not self.claims:
            return True
        return self._ranking.hosts.reserve(index, instance_uuid, self._amounts, anyway=anyway)

    def _choose_on(self, index: int, instance_uuid: str) -> Any:
        """The first candidate of a host that fits beside those chosen before; None if there is none."""
        candidate = next(filter(self._room.fits, self._ranking.hosts.candidates(index)), None)
        if candidate is None or not self._is_mapped(index):
            return None
        self._room.take(candidate)
        self._chosen[instance_uuid] = candidate
        self._chosen_at[instance_uuid] = int(self._ranking.hosts.positions[index])
        return candidate

    def _is_mapped(self, index: int) -> bool:
        host = self._ranking.hosts.row(index).host
        mapped = self._mapped(host)
        if not mapped:
            LOG.warning("Host %s is passed over: it is mapped to no cell", host)
        return mapped

    def _claim_on(self, index: int, instance_uuid: str) -> Any:
        """The candidate of one host that could be claimed; None if none of them."""
        if not self._is_mapped(index):
            return None
        refused: list[tuple[Any, str]] = []
        for candidate in self._ranking.hosts.candidates(index)[:CANDIDATES_A_HOST]:
            if any(same_share(earlier, candidate, why) for earlier, why in refused):
                continue
            result = self._claims.claim(instance_uuid, candidate)
            if result.claimed:
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
