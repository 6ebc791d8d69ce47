"""One instance of a request after the other gets its host (spec: placement-and-workflow 5.4, 5.5)."""

from collections.abc import Iterable, Sequence
from itertools import islice, tee

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.errors import InvalidRequest, NoValidHost
from scheduler.hosts.coordinates import ViewIndex
from scheduler.numa.fit import Fitter
from scheduler.objects import Selection
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections, alternates, selection
from scheduler.selection.consume import consume
from scheduler.selection.host_claiming import HostClaiming
from scheduler.selection.ranking import Ranking

LOG = logging.getLogger(f"nova.{__name__}")

NO_HOST = ViewIndex(-1)
"""In place of the host chosen last before there is one."""


class Choosing:
    """Chooses hosts for the instances of one request among those of its ranking."""

    def __init__(
        self, ranking: Ranking, claiming: HostClaiming, fitter: Fitter, conf: cfg.ConfigOpts
    ) -> None:
        """Begin with no host chosen; ``fitter`` fits NUMA topologies when a chosen host is consumed from."""
        self._ranking = ranking
        self._claiming = claiming
        self._request = ranking.request
        self._fitter = fitter
        self._conf = conf
        self._last = NO_HOST  # of the instance that was charged last, until others are judged by it
        self._planned: tuple[int, ViewIndex, AllocationCandidate | None] | None = None
        self._left = list(range(len(self._request.instance_uuids)))
        self._chosen: dict[int, Selection] = {}

    def plan(self) -> None:
        """Reserve hosts for all instances that have none, to be claimed together.

        Not so in a server group: what one member gets decides what is left to the next.

        Raises:
            NoValidHost: An instance is left without a host.
            InvalidRequest: Placement maps no provider to a request group.
        """
        together = self._claiming.claims and not self._request.server_group
        for number in list(self._left) if together else self._left[:1]:
            self._chosen[number] = self._plan(number, len(self._chosen))

    def choose_all(self) -> Selections:
        """Claim what is planned, and plan again what was refused.

        Returns:
            For each instance the chosen host, then its alternates.

        Raises:
            NoValidHost: An instance is left without a host.
            AllocationUpdateFailed: Another writer changed the allocations of an instance.
            InvalidRequest: Placement maps no provider to a request group.
        """
        uuids, request = self._request.instance_uuids, self._request
        while True:
            refused = set(self._claiming.claim())
            if self._planned is not None and uuids[self._planned[0]] in refused:
                self._planned = None
            self._charge()
            self._chosen = {at: one for at, one in self._chosen.items() if uuids[at] not in refused}
            self._left = [at for at in self._left if at not in self._chosen]
            if not self._left:
                break
            self.plan()
        chosen = [self._chosen[number] for number in range(len(uuids))]
        at_most = self._conf.scheduler.max_attempts - 1 if request.with_alternates else 0
        return self._with_alternates(chosen, at_most) if at_most else [[one] for one in chosen]

    def _plan(self, number: int, done: int) -> Selection:
        """Plan a host for one instance, besides those that were planned before."""
        self._charge()
        request, ranking = self._request, self._ranking
        request.progress.instance_uuid = request.instance_uuids[number]
        ranking.number = number
        if self._last != NO_HOST:
            ranking.refresh(self._last)
            self._last = NO_HOST
        try:
            index, candidate = self._claiming.plan(request.instance_uuids[number])
        except NoValidHost:
            wanted = len(request.instance_uuids)
            LOG.debug("There are %d hosts available but %d instances requested to build", done, wanted)
            raise
        self._planned = number, index, candidate
        ranking.placed[request.instance_uuids[number]] = ranking.hosts.row(index).uuid, candidate
        return self._selection(index, candidate)

    def _charge(self) -> None:
        """Take what was planned last off the view, for the instances that follow."""
        if self._planned is None:
            return
        _, index, candidate = self._planned
        self._planned, self._last = None, index
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("Selected host: %s", repr(self._ranking.hosts.host(index)))
        note_providers(self._request, candidate)
        hosts = self._ranking.hosts
        consume(hosts, index, self._request, self._fitter)
        self._ranking.observer.consumed(hosts, index, candidate)

    def _with_alternates(self, chosen: Sequence[Selection], at_most: int) -> Selections:
        """Add alternates: for one instance in the order seen before its claim, else judged once more.

        Args:
            chosen: The host of each instance.
            at_most: How many alternates an instance may have.
        """
        ranking = self._ranking
        if len(chosen) > 1:
            ranking.refresh(self._last)
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
        return selection(self._ranking.hosts, index, candidate, self._conf.default_availability_zone)


def note_providers(request: SchedulingRequest, candidate: AllocationCandidate | None) -> None:
    """Note which providers serve the groups of the request, for consumption and for operators' classes."""
    groups = request.progress.provider_uuids
    if not groups or candidate is None:
        return
    for group in groups:
        if group not in candidate.mappings:
            raise InvalidRequest(f"Placement maps no provider to the request group {group}")
    request.progress.provider_uuids = {group: tuple(candidate.mappings[group]) for group in groups}
