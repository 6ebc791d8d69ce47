"""Claiming the best hosts that Placement grants (spec: placement-and-workflow 4, 5.4).

Hosts are planned, what is planned is claimed, and what was refused is planned again without the refused
candidate. A host is passed over once no candidate of it is left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from oslo_log import log as logging

from scheduler.claims.session import NothingSent, Session
from scheduler.errors import (
    AllocationUpdateFailed,
    BerthError,
    NoValidHost,
    PlacementUnavailable,
    ReturnedToBroker,
)
from scheduler.hosts.coordinates import ViewIndex, ViewPosition
from scheduler.hosts.view import HostView
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.reading import read
from scheduler.selection.consume import consumed_amounts, demand_of
from scheduler.selection.headroom import Headroom, Usages, no_usages
from scheduler.selection.ranking import Ranking

LOG = logging.getLogger(f"nova.{__name__}")
NEXT_HOST = "Claim for instance %s on host %s refused (%s); trying the next host"

NOT_ENOUGH = "There are not enough hosts available."

# Requests take turns to choose and reserve a host. That costs no time, as it is work of one interpreter. Only
# an operator's slow rule takes longer than the seconds after which a request chooses without its turn.
TURN, TURN_TIMEOUT = "hosts", 1.0

# What Placement refused for one candidate mostly holds for its host; nova tries but one.
CANDIDATES_A_HOST = 3

Chosen = tuple[ViewIndex, AllocationCandidate | None]
"""The host of an instance and the candidate that is claimed on it; None if the request claims nothing."""


class Planned(NamedTuple):
    """A host that was chosen for an instance and is yet to be claimed, and its candidates."""

    candidate: AllocationCandidate
    candidates: Sequence[AllocationCandidate]
    position: ViewPosition
    host: str


Refusal = tuple[AllocationCandidate, Written]
"""A candidate that was refused, and why."""


def all_mapped(_host: str) -> bool:
    """Take every host for mapped."""
    return True


class HostClaiming:
    """The claims of one request on the hosts of its ranking.

    Before a host is claimed it is reserved, so that other requests of this process choose others meanwhile.
    They choose one after the other, each with what the ones before have reserved.

    Attributes:
        is_mapped: Whether conductors know the cell of a service host.
    """

    def __init__(
        self,
        ranking: Ranking,
        claims: Session | None,
        is_mapped: Callable[[str], bool] = all_mapped,
        usages: Usages = no_usages,
    ) -> None:
        """Claim on the hosts of ``ranking``.

        Args:
            claims: None: nothing is claimed, and the best host is chosen.
            is_mapped: Whether conductors know the cell of a service host. They put instances that are sent to
                other hosts into error.
            usages: What Placement reported of the hosts' providers.
        """
        self.is_mapped = is_mapped
        self._headroom = Headroom(usages)
        self._ranking = ranking
        self._claims = claims
        self._amounts = consumed_amounts(ranking.request.flavor)
        self._planned: dict[str, Planned] = {}
        self._refusals: dict[tuple[str, ViewPosition], list[Refusal]] = {}
        self._passed_over: dict[str, list[ViewPosition]] = {}  # hosts that an instance cannot have
        self._rest: Iterator[ViewIndex] = iter(())
        self._last = ""

    @property
    def claims(self) -> bool:
        """Whether anything is claimed at all."""
        return self._claims is not None

    def plan(self, instance_uuid: str) -> Chosen:
        """Reserve the best host for an instance, and plan to claim one of its candidates.

        Raises:
            NoValidHost: No host is left.
        """
        self._last = instance_uuid
        chosen: Chosen | None = None
        if self._claims is None:
            self._rest = self._ranking.best_first()
            index = next(self._rest, None)
            if index is not None:
                chosen = index, None
        else:
            turn = "its turn among requests that choose a host"
            with self._ranking.hosts.reservations.pending.turns.hold(TURN, TURN_TIMEOUT, turn):
                self._ranking.refresh_pending()
                chosen = self._reserve_best(instance_uuid)
        if chosen is None:
            if self._passed_over.get(instance_uuid):
                LOG.debug("Unable to successfully claim against any host for instance %s", instance_uuid)
            raise NoValidHost(NOT_ENOUGH)
        return chosen

    def claim(self) -> list[str]:
        """Claim what is planned, together.

        Returns:
            The instances that were refused; another candidate or host may be granted to them.

        Raises:
            NoValidHost: Trying others would be of no use or not safe.
            AllocationUpdateFailed: Another writer changed the allocations of an instance.
            PlacementUnavailable: It is not known whether there is a host.
            ReturnedToBroker: Nothing is claimed any more.
        """
        planned, self._planned = self._planned, {}
        if self._claims is None or not planned:
            return []
        if not isinstance(self._claims, NothingSent):
            self._headroom.forget()
        results = self._claims.claim({uuid: one.candidate for uuid, one in planned.items()})
        refused = [uuid for uuid in planned if not results[uuid].done]
        project = read(self._ranking.request.spec, "project_id")
        for uuid in planned.keys() - refused:
            self._ranking.hosts.reservations.grant(uuid, project)
        for uuid in refused:  # all of them, before one ends the request
            self._ranking.placed.pop(uuid, None)
            if cause := results[uuid].cause:  # others were not sent
                self._ranking.refusals[planned[uuid].candidate.root] = cause
        for uuid in refused:
            self._note_refusal(uuid, planned[uuid], results[uuid])
        return refused

    def others(self) -> Iterator[ViewIndex]:
        """Yield the hosts behind the one planned last, in their order; those that refused come last."""
        positions = self._ranking.hosts.positions
        refused = self._passed_over.get(self._last, ())
        return chain(
            self._rest, (ViewIndex(int(i)) for at in refused for i in np.flatnonzero(positions == at))
        )

    def _reserve_best(self, instance_uuid: str) -> Chosen | None:
        hosts, passed_over = self._ranking.hosts, self._passed_over.setdefault(instance_uuid, [])
        order = (index for index in self._ranking.best_first() if hosts.position(index) not in passed_over)
        self._rest = full_last(hosts, order, self._amounts)
        for index in self._rest:
            position, row = hosts.position(index), hosts.row(index)
            candidates = hosts.candidates(index)
            refusals = self._refusals.get((instance_uuid, position), ())
            candidate = next(filter(self._headroom.fits, _untried(candidates, refusals)), None)
            if candidate is not None and self.is_mapped(row.host):
                demand = demand_of(self._ranking.request, hosts, index, candidate)
                hosts.reservations.reserve(position, instance_uuid, self._amounts, demand)
                self._headroom.plan(candidate)
                self._planned[instance_uuid] = Planned(candidate, candidates, position, row.host)
                return index, candidate
            if candidate is not None:
                LOG.debug("Host %s has no host mapping; trying the next host", row.host)
            self._ranking.refuse(position)
        return None

    def _note_refusal(self, instance_uuid: str, planned: Planned, result: Written) -> None:
        """Withdraw a reservation, and pass the host over if no candidate of it is left.

        Raises:
            BerthError: No other host may be tried.
        """
        reservations, position = self._ranking.hosts.reservations, planned.position
        reservations.unreserve(instance_uuid)
        if not result.try_next:
            raise final_refusal(instance_uuid, result)
        refusals = self._refusals.setdefault((instance_uuid, position), [])
        refusals.append((planned.candidate, result))
        if any(_untried(planned.candidates, refusals)):
            return
        if all(each.outcome is Outcome.REFUSED for _, each in refusals):
            reservations.refuse(position, self._amounts)
        self._passed_over[instance_uuid].append(position)
        self._ranking.refuse(position)
        LOG.info(NEXT_HOST, instance_uuid, planned.host, result.reason)
        self._end_if_shared(instance_uuid, planned.candidate, result)

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


def _untried(
    candidates: Sequence[AllocationCandidate], refusals: Sequence[Refusal]
) -> Iterator[AllocationCandidate]:
    """Yield the candidates of a host for which none of the refusals of others holds."""
    if len(refusals) < CANDIDATES_A_HOST:
        for candidate in candidates:
            if not any(refusal_holds(earlier, result, candidate) for earlier, result in refusals):
                yield candidate


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
