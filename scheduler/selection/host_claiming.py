"""Claiming the best host that Placement grants (spec: placement-and-workflow 4, 5.4)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from oslo_log import log as logging

from scheduler.claims.session import Session
from scheduler.errors import (
    AllocationUpdateFailed,
    BerthError,
    NoValidHost,
    PlacementUnavailable,
    ReturnedToBroker,
)
from scheduler.hosts.coordinates import ViewIndex, ViewPosition
from scheduler.hosts.view import HostView
from scheduler.numa.usage import InstanceDemand
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.selection.headroom import Headroom
from scheduler.selection.ranking import Ranking

LOG = logging.getLogger(f"nova.{__name__}")
NEXT_HOST = "Claim for instance %s on host %s refused (%s); trying the next host"

NOT_ENOUGH = "There are not enough hosts available."

# What Placement refused for one candidate mostly holds for its host; nova tries but one.
CANDIDATES_A_HOST = 3

Chosen = tuple[ViewIndex, AllocationCandidate | None]
"""The host of an instance and the candidate that is claimed on it; None if the request claims nothing."""

Claim = Callable[[ViewIndex, str], AllocationCandidate | None]

DemandOf = Callable[[HostView, ViewIndex, AllocationCandidate | None], InstanceDemand | None]
"""Returns what the instance needs of a host's NUMA cells and devices, by a candidate; None: nothing."""


class Planned(NamedTuple):
    """A host that was chosen for an instance and is yet to be claimed."""

    candidate: AllocationCandidate
    position: ViewPosition
    host: str


def all_mapped(_host: str) -> bool:
    """Take every host for mapped."""
    return True


def no_demand(_hosts: HostView, _index: ViewIndex, _candidate: AllocationCandidate | None) -> None:
    """Need nothing."""


class HostClaiming:
    """The claims of one request on the hosts of its ranking.

    Before a host is claimed it is reserved, so that other requests of this process choose others meanwhile.

    Attributes:
        tries: How many hosts were claimed, by instance uuid.
        is_mapped: Whether conductors know the cell of a service host.
    """

    def __init__(
        self,
        ranking: Ranking,
        claims: Session | None,
        amounts: Mapping[str, int],
        is_mapped: Callable[[str], bool] = all_mapped,
        headroom: Headroom | None = None,
        demand: DemandOf = no_demand,
        project: str | None = None,
    ) -> None:
        """Claim on the hosts of ``ranking``.

        Args:
            claims: None: nothing is claimed, and the best host is chosen.
            amounts: What an instance consumes, by column.
            is_mapped: Whether conductors know the cell of a service host. They put instances that are sent to
                other hosts into error.
            headroom: What Placement has left, for choices that are not claimed at once.
            demand: What the current instance needs of NUMA cells and devices, for reservations.
            project: The project of the instances.
        """
        self.tries: Counter[str] = Counter()
        self._headroom = headroom or Headroom()
        self.is_mapped = is_mapped
        self._ranking = ranking
        self._claims = claims
        self._amounts = amounts
        self._demand = demand
        self._project = project
        self._planned: dict[str, Planned] = {}
        self._refused: list[ViewPosition] = []  # hosts that the current instance cannot have
        self._rest: Iterator[ViewIndex] = iter(())

    @property
    def claims(self) -> bool:
        """Whether anything is claimed at all."""
        return self._claims is not None

    def claim_best(self, instance_uuid: str) -> Chosen:
        """Claim the best host that is granted.

        Raises:
            NoValidHost: No host is left, or trying others would be of no use or not safe.
            AllocationUpdateFailed: Another writer changed the allocations of the instance.
            ReturnedToBroker: Nothing is claimed any more.
        """
        return self._choose(instance_uuid, self._claim_on)

    def choose_best(self, instance_uuid: str) -> Chosen:
        """Choose as ``claim_best`` does, but leave the claim to ``claim_chosen``."""
        return self._choose(instance_uuid, self._plan_on)

    def claim_chosen(self) -> list[str]:
        """Claim what was chosen, in few calls.

        Returns:
            The instances that were refused; another host may be granted to them.

        Raises:
            NoValidHost: As ``claim_best``.
            AllocationUpdateFailed: As ``claim_best``.
            ReturnedToBroker: As ``claim_best``.
        """
        planned, self._planned = self._planned, {}
        if not self._claims or not planned:
            return []
        self.tries.update(planned.keys())
        results = self._claims.claim({uuid: one.candidate for uuid, one in planned.items()})
        refused = [uuid for uuid in planned if not results[uuid].done]
        for uuid in planned.keys() - refused:
            self._ranking.hosts.reservations.grant(uuid, self._project)
        for uuid in refused:
            self._ranking.hosts.reservations.unreserve(uuid)
            self._ranking.refuse(planned[uuid].position)
            if not results[uuid].try_next:
                raise final_refusal(uuid, results[uuid])
            LOG.info(NEXT_HOST, uuid, planned[uuid].host, results[uuid].reason)
        return refused

    def others(self) -> Iterator[ViewIndex]:
        """Yield the hosts that ``claim_best`` passed over, in its order; those that refused come last."""
        positions = self._ranking.hosts.positions
        refused = (ViewIndex(int(i)) for one in self._refused for i in np.flatnonzero(positions == one))
        return chain(self._rest, refused)

    def _choose(self, instance_uuid: str, claim: Claim) -> Chosen:
        hosts = self._ranking.hosts
        self._refused = []
        self._rest = self._best_first()
        while (index := self._reserve_next(instance_uuid)) is not None:
            candidate = claim(index, instance_uuid) if self.claims else None
            if candidate is not None or not self.claims:
                if LOG.isEnabledFor(logging.DEBUG):
                    LOG.debug("Selected host: %s", repr(hosts.host(index)))
                return index, candidate
            hosts.reservations.unreserve(instance_uuid)
            position = hosts.position(index)
            self._refused.append(position)
            self._ranking.refuse(position)
        if self._refused:
            LOG.debug("Unable to successfully claim against any host for instance %s", instance_uuid)
        raise NoValidHost(NOT_ENOUGH)

    def _best_first(self) -> Iterator[ViewIndex]:
        hosts = unrefused(self._ranking, self._refused)
        return full_last(self._ranking.hosts, hosts, self._amounts) if self.claims else hosts

    def _reserve_next(self, instance_uuid: str) -> ViewIndex | None:
        """Reserve and return the best host that did not refuse the instance; None if none is left."""
        index = next(self._rest, None)
        if index is None or self._reserve(index, instance_uuid):
            return index
        with self._ranking.hosts.reservations.pending.serialized():
            for is_last in (False, False, True):
                self._ranking.refresh_pending()
                self._rest = self._best_first()
                index = next(self._rest, None)
                if index is None or self._reserve(index, instance_uuid, anyway=is_last):
                    break
        return index

    def _reserve(self, index: ViewIndex, instance_uuid: str, *, anyway: bool = False) -> bool:
        """Return False if other requests reserved this host since the ranking was made."""
        if not self.claims:
            return True
        hosts = self._ranking.hosts
        demand = self._demand(hosts, index, next(iter(hosts.candidates(index)), None))
        return hosts.reservations.reserve(
            hosts.position(index), instance_uuid, self._amounts, demand, anyway=anyway
        )

    def _serve_by(self, index: ViewIndex, instance_uuid: str, candidate: AllocationCandidate) -> None:
        """Reserve the host again if another candidate than its first is to serve the instance."""
        hosts = self._ranking.hosts
        demand = self._demand(hosts, index, candidate)
        if demand is not None and candidate is not hosts.candidates(index)[0]:
            hosts.reservations.reserve(
                hosts.position(index), instance_uuid, self._amounts, demand, anyway=True
            )

    def _plan_on(self, index: ViewIndex, instance_uuid: str) -> AllocationCandidate | None:
        """Plan to claim the first candidate of a host that fits with those planned before."""
        hosts = self._ranking.hosts
        candidate = next(filter(self._headroom.fits, hosts.candidates(index)), None)
        if candidate is None or not self._has_cell(index):
            return None
        self._serve_by(index, instance_uuid, candidate)
        self._headroom.plan(candidate)
        self._planned[instance_uuid] = Planned(candidate, hosts.position(index), hosts.row(index).host)
        return candidate

    def _has_cell(self, index: ViewIndex) -> bool:
        host = self._ranking.hosts.row(index).host
        mapped = self.is_mapped(host)
        if not mapped:
            LOG.debug("Host %s has no host mapping; trying the next host", host)
        return mapped

    def _claim_on(self, index: ViewIndex, instance_uuid: str) -> AllocationCandidate | None:
        """Claim one of the first candidates of a host; None if all are refused."""
        if self._claims is None or not self._has_cell(index):
            return None
        hosts = self._ranking.hosts
        self.tries[instance_uuid] += 1
        refusals: list[tuple[AllocationCandidate, Written]] = []
        for candidate in hosts.candidates(index)[:CANDIDATES_A_HOST]:
            if any(refusal_holds(earlier, result, candidate) for earlier, result in refusals):
                continue
            self._serve_by(index, instance_uuid, candidate)
            result = self._claims.claim({instance_uuid: candidate})[instance_uuid]
            if result.done:
                hosts.reservations.grant(instance_uuid, self._project)
                return candidate
            if not result.try_next:
                raise final_refusal(instance_uuid, result)
            refusals.append((candidate, result))
        if refusals:
            if all(result.outcome is Outcome.REFUSED for _, result in refusals):
                hosts.reservations.refuse(hosts.position(index), self._amounts)
            LOG.info(NEXT_HOST, instance_uuid, hosts.row(index).host, refusals[-1][1].reason)
            self._end_if_shared(instance_uuid, *refusals[-1])
        return None

    def _end_if_shared(self, instance_uuid: str, refused: AllocationCandidate, result: Written) -> None:
        """End the request if all candidates take as much from the provider that refused one of them.

        Raises:
            NoValidHost: They do: it shares what it has with all hosts.
        """
        provider, name = result.provider, result.resource_class
        hosts = self._ranking.hosts
        if result.outcome is not Outcome.REFUSED or not name or provider in hosts.table.row_of_uuid:
            return
        wanted = _share(refused, name).get(provider, 0)
        candidates = chain.from_iterable(map(hosts.candidates, map(ViewIndex, range(len(hosts)))))
        if wanted and all(_share(one, name).get(provider, 0) >= wanted for one in candidates):
            LOG.warning(
                "Claim for instance %s refused by provider %s, which all hosts share (%s); no other host is "
                "tried",
                instance_uuid,
                provider,
                result.reason,
            )
            raise NoValidHost(NOT_ENOUGH)


def unrefused(ranking: Ranking, refused: Sequence[ViewPosition]) -> Iterator[ViewIndex]:
    """Yield the hosts in the order in which to try them, without those that refused the instance."""
    positions = ranking.hosts.positions
    return (index for index in ranking.best_first() if positions[index] not in refused)


def full_last(hosts: HostView, order: Iterable[ViewIndex], amounts: Mapping[str, int]) -> Iterator[ViewIndex]:
    """Yield hosts in an order, but those last that seem to have been filled since Placement was asked.

    They are not left out: a claim of others may fail, or an instance be deleted.
    """
    last = []
    for index in order:
        if hosts.seems_full(index, amounts):
            last.append(index)
        else:
            yield index
    yield from last


def final_refusal(instance_uuid: str, result: Written) -> BerthError:
    """Return the error that ends a request after a claim that no other host can replace."""
    if result.outcome is Outcome.CHANGED:
        return AllocationUpdateFailed(instance_uuid, result.reason, held=result.held.allocations)
    if result.outcome is Outcome.STOPPING:
        return ReturnedToBroker(result.reason)
    if result.unavailable:
        return PlacementUnavailable(result.reason, timed_out=result.status is None)
    LOG.warning("Claim for instance %s failed (%s); no other host is tried", instance_uuid, result.reason)
    return NoValidHost(NOT_ENOUGH, final=result.final)


def refusal_holds(refused: AllocationCandidate, result: Written, candidate: AllocationCandidate) -> bool:
    """Return whether the refusal of one candidate holds for another of the same host.

    It does if both take the same amounts of the resource class that was refused, or if none is named.
    """
    name = result.resource_class
    return not name or _share(refused, name) == _share(candidate, name)


def _share(candidate: AllocationCandidate, resource_class: str) -> dict[str, int]:
    """Return how much of a resource class a candidate takes, by provider."""
    return {
        provider: part["resources"][resource_class]
        for provider, part in candidate.allocations.items()
        if resource_class in part["resources"]
    }
