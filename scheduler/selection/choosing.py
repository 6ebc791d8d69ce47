"""One instance of a request after the other gets its host (spec: placement-and-workflow 5.4, 5.5)."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice, tee

from oslo_log import log as logging

from scheduler.errors import InvalidRequest, NoValidHost
from scheduler.hosts.coordinates import ViewIndex
from scheduler.numa.fit import Fitter
from scheduler.objects import Selection
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections, alternates, selection
from scheduler.selection.consume import consume
from scheduler.selection.host_claiming import Chosen, HostClaiming
from scheduler.selection.observer import DecisionObserver
from scheduler.selection.ranking import Ranking

LOG = logging.getLogger(f"nova.{__name__}")

NO_HOST = ViewIndex(-1)
"""In place of the host chosen last before there is one."""


class Choosing:
    """Chooses hosts for the instances of one request among those of its ranking."""

    def __init__(
        self,
        ranking: Ranking,
        claiming: HostClaiming,
        request: SchedulingRequest,
        fitter: Fitter,
        default_zone: str,
        observer: DecisionObserver,
    ) -> None:
        """Begin with no host chosen.

        Args:
            fitter: Fits NUMA topologies when a chosen host is consumed from.
            default_zone: The availability zone of hosts that no aggregate puts in one.
            observer: Receives each host that is consumed from.
        """
        self._ranking = ranking
        self._claiming = claiming
        self._request = request
        self._fitter = fitter
        self._default_zone = default_zone
        self._observer = observer
        self._last = NO_HOST

    def choose_all(self) -> list[Selection]:
        """Choose a host for each instance, and claim it.

        Several are chosen first and claimed together; those that were refused are then claimed one by one.
        Not so in a server group: what one member gets decides what is left to the next.

        Raises:
            NoValidHost: An instance is left without a host.
            AllocationUpdateFailed: Another writer changed the allocations of an instance.
            InvalidRequest: Placement maps no provider to a request group.
        """
        uuids = self._request.instance_uuids
        together = self._claiming.claims and len(set(uuids)) > 1 and not self._request.server_group
        choose = self._claiming.choose_best if together else self._claiming.claim_best
        chosen: dict[int, Selection] = {}
        left = list(enumerate(uuids))
        while left:
            for number, uuid in left:
                chosen[number] = self._choose_one(number, partial(choose, uuid), len(chosen))
            refused = self._claiming.claim_chosen()
            left = [(number, uuid) for number, uuid in left if uuid in refused]
            for number, _ in left:
                del chosen[number]
            choose = self._claiming.claim_best
        return [chosen[number] for number in range(len(uuids))]

    def _choose_one(self, number: int, choose: Callable[[], Chosen], done: int) -> Selection:
        """Choose for one instance, and take it off the view for those that follow."""
        request, ranking = self._request, self._ranking
        request.progress.instance_uuid = request.instance_uuids[number]
        if self._last != NO_HOST:
            ranking.refresh(max(number, 1), self._last)
        try:
            self._last, candidate = choose()
        except NoValidHost:
            wanted = len(request.instance_uuids)
            LOG.debug("There are %d hosts available but %d instances requested to build", done, wanted)
            raise
        made = self._selection(self._last, candidate)
        note_providers(request, candidate)
        consume(ranking.hosts, self._last, request, self._fitter)
        self._observer.consumed(number, ranking.hosts, self._last, candidate)
        return made

    def with_alternates(self, chosen: Sequence[Selection], at_most: int) -> Selections:
        """Add alternates: for one instance in the order seen before its claim, else judged once more.

        Args:
            chosen: What ``choose_all`` returned.
            at_most: How many alternates an instance may have.
        """
        ranking = self._ranking
        if len(chosen) > 1:
            ranking.refresh(len(chosen) - 1, self._last)
            order = ranking.best_first()
        else:
            order = self._claiming.others()
        taken = {one.compute_node_uuid for one in chosen}
        cells = {one.cell_uuid for one in chosen}
        by_cell = {
            cell: self._offers(
                islice(alternates(ranking.hosts, each, cell, taken, self._claiming.is_mapped), at_most)
            )
            for cell, each in zip(cells, tee(order, len(cells)), strict=True)
        }
        return [[one, *by_cell[one.cell_uuid]] for one in chosen]

    def _offers(self, indices: Iterable[ViewIndex]) -> list[Selection]:
        hosts = self._ranking.hosts
        return [self._selection(index, hosts.candidates(index)[0]) for index in indices]

    def _selection(self, index: ViewIndex, candidate: AllocationCandidate | None) -> Selection:
        return selection(self._ranking.hosts, index, candidate, self._default_zone)


def note_providers(request: SchedulingRequest, candidate: AllocationCandidate | None) -> None:
    """Note which providers serve the groups of the request, for consumption and for operators' classes."""
    groups = request.progress.provider_uuids
    if not groups or candidate is None:
        return
    for group in groups:
        if group not in candidate.mappings:
            raise InvalidRequest(f"Placement maps no provider to the request group {group}")
    request.progress.provider_uuids = {group: tuple(candidate.mappings[group]) for group in groups}
