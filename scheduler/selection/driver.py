"""Hosts for all instances of one request (spec: placement-and-workflow 5.4, 5.5)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, tee
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.errors import InvalidRequest, NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.objects import Selection
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import alternates, selection
from scheduler.selection.consume import amounts_of, consume
from scheduler.selection.headroom import Headroom, Usages, nothing_known
from scheduler.selection.host_claiming import NOT_ENOUGH, Claims, HostClaiming, everywhere
from scheduler.selection.ranking import Ranking
from scheduler.weights.base import HostWeigher

LOG = logging.getLogger(__name__)

More = Callable[[], HostView | None]
"""Further hosts, for a request of whose hosts none is left; None if there are no others."""


class FilterDriver:
    """Filters and weighs all candidates, claims the best, and offers the next best as alternates."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        chain: FilterChain,
        weighers: Sequence[HostWeigher],
        fitter: Fitter,
        mapped: Callable[[str], bool] = everywhere,
    ) -> None:
        """``mapped``: whether conductors know the cell of a service host; others are neither chosen nor
        offered.
        """
        self._mapped = mapped
        self._conf = conf
        self._chain = chain
        self._weighers = weighers
        self._fitter = fitter

    def select(
        self,
        hosts: HostView,
        request: SchedulingRequest,
        claims: Claims | None,
        more: More = lambda: None,
        usages: Usages = nothing_known,
    ) -> list[list[Selection]]:
        """A list an instance: the host chosen and claimed for it, then its alternates.

        ``claims`` None: choose without claiming. ``more`` is asked if no host passes. ``usages``: what
        Placement says of the hosts' providers. Raises ``NoValidHost`` unless every instance has a host.
        Whatever it raises, what was claimed and reserved by then is the caller's to give back.
        """
        if not request.instance_uuids:
            raise NoValidHost(NOT_ENOUGH)
        ranking = self._rank(hosts, request)
        if not len(ranking) and (others := more()):
            ranking = self._rank(others, request)
        claiming = HostClaiming(ranking, claims, amounts_of(request.flavor), self._mapped, Headroom(usages))
        chosen, last = self._choose_all(ranking, claiming, request)
        at_most = self._conf.scheduler.max_attempts - 1 if request.with_alternates else 0
        if not at_most:
            return [[one] for one in chosen]
        return self._with_alternates(ranking, claiming, chosen, last, at_most)

    def _rank(self, hosts: HostView, request: SchedulingRequest) -> Ranking:
        return Ranking(self._chain, self._weighers, hosts, request, self._conf.filter_scheduler)

    def _choose_all(
        self, ranking: Ranking, claiming: HostClaiming, request: SchedulingRequest
    ) -> tuple[list[Selection], int]:
        """The chosen host of each instance, and the index of the last.

        Several are chosen first and claimed together; those that were refused are then claimed one by one.
        Not so in a server group: what one member gets decides what is left to the next.
        """
        uuids = request.instance_uuids
        together = claiming.claims and len(set(uuids)) > 1 and not request.server_group
        choose = claiming.choose_best if together else claiming.claim_best
        chosen: dict[int, Selection] = {}
        index = -1
        left = list(enumerate(uuids))
        while left:
            for number, uuid in left:
                request.progress.instance_uuid = uuid
                if index >= 0:
                    ranking.again(max(number, 1), index)
                index, candidate = choose_next(choose, uuid, len(chosen), len(uuids))
                chosen[number] = self._selection(ranking.hosts, index, candidate)
                note_providers(request, candidate)
                consume(ranking.hosts, index, request, self._fitter)
            refused = claiming.claim_chosen()
            left = [(number, uuid) for number, uuid in left if uuid in refused]
            for number, _ in left:
                del chosen[number]
            choose = claiming.claim_best
        return [chosen[number] for number in range(len(uuids))], index

    def _with_alternates(
        self, ranking: Ranking, claiming: HostClaiming, chosen: list[Selection], last: int, at_most: int
    ) -> list[list[Selection]]:
        """Add alternates: for one instance in the order seen before its claim, else judged once more."""
        if len(chosen) > 1:
            ranking.again(len(chosen) - 1, last)
            order = ranking.best_first()
        else:
            order = claiming.others()
        taken = {one.compute_node_uuid for one in chosen}
        cells = {one.cell_uuid for one in chosen}
        by_cell = {
            cell: self._offers(
                ranking.hosts,
                islice(alternates(ranking.hosts, each, cell, taken, self._mapped), at_most),
            )
            for cell, each in zip(cells, tee(order, len(cells)), strict=True)
        }
        return [[one, *by_cell[one.cell_uuid]] for one in chosen]

    def _offers(self, hosts: HostView, indices: Iterable[int]) -> list[Selection]:
        return [self._selection(hosts, index, hosts.candidates(index)[0]) for index in indices]

    def _selection(self, hosts: HostView, index: int, candidate: Any) -> Selection:
        return selection(hosts, index, candidate, self._conf.default_availability_zone)


def choose_next(choose: Callable, uuid: str, done: int, wanted: int) -> tuple[int, Any]:
    """``choose``, with a word in the log if that was one too many."""
    try:
        return choose(uuid)
    except NoValidHost:
        LOG.debug("There are %d hosts available but %d instances requested to build", done, wanted)
        raise


def note_providers(request: SchedulingRequest, candidate: Any) -> None:
    """Note which providers serve the groups of the request, for consumption and for operators' classes."""
    groups = request.progress.provider_uuids
    if not groups or candidate is None:
        return
    for group in groups:
        if group not in candidate.mappings:
            raise InvalidRequest(f"Placement maps no provider to the request group {group}")
    request.progress.provider_uuids = {group: tuple(candidate.mappings[group]) for group in groups}
