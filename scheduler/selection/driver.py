"""Hosts for all instances of one request (spec: placement-and-workflow 5.4, 5.5)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, tee

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.errors import InvalidRequest, NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.hosts.coordinates import ViewIndex
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.objects import Selection
from scheduler.request.decision_line import Place
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections, alternates, selection
from scheduler.selection.consume import consume, consumed_amounts
from scheduler.selection.headroom import Candidate, Headroom, Usages, no_usages
from scheduler.selection.host_claiming import NOT_ENOUGH, Chosen, Claims, HostClaiming, all_mapped
from scheduler.selection.observer import NO_OBSERVER, DecisionObserver
from scheduler.selection.ranking import Owned, Ranking, all_alike, rank
from scheduler.weights.base import HostWeigher
from scheduler.weights.scores import prepare_weighers

LOG = logging.getLogger(__name__)

NO_HOST = ViewIndex(-1)
"""In place of the host chosen last before there is one."""

More = Callable[[], HostView | None]
"""Further hosts, for a request of whose hosts none is left; None if there are no others."""


class FilterDriver:
    """Filters and weighs all hosts, claims the best, and offers the next best as alternates."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        chain: FilterChain,
        weighers: Sequence[HostWeigher],
        fitter: Fitter,
        is_mapped: Callable[[str], bool] = all_mapped,
        owned: Owned = all_alike,
    ) -> None:
        """Make the driver for the enabled rules.

        Args:
            conf: The options.
            chain: The enabled filters.
            weighers: The enabled weighers.
            fitter: Fits NUMA topologies when a chosen host is consumed from.
            is_mapped: Whether conductors know the cell of a service host; others are neither chosen nor
                offered.
            owned: Returns which hosts of a table this scheduler prefers.
        """
        self._is_mapped = is_mapped
        self._owned = owned
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
        usages: Usages = no_usages,
        observer: DecisionObserver = NO_OBSERVER,
    ) -> Selections:
        """Choose a host for each instance, and claim it.

        Args:
            hosts: The hosts that Placement offers, or those to check.
            request: The request.
            claims: What claims for the request; None: hosts are chosen without a claim.
            more: Called if no host passes.
            usages: What Placement reported of the hosts' providers.
            observer: Is told of each step.

        Returns:
            For each instance the chosen host, then its alternates.

        Raises:
            NoValidHost: An instance is left without a host. After any error the caller releases what was
                claimed and reserved.
            AllocationUpdateFailed: Another writer changed the allocations of an instance.
            InvalidRequest: Placement maps no provider to a request group.
        """
        if not request.instance_uuids:
            raise NoValidHost(NOT_ENOUGH)
        ranker = self._ranker(request, observer)
        ranking = ranker(hosts)
        if not len(ranking) and (others := more()):
            hosts, ranking = others, ranker(others)
        claiming = HostClaiming(
            ranking, claims, consumed_amounts(request.flavor), self._is_mapped, Headroom(usages)
        )
        counts = request.counts
        counts.candidates, counts.passed, counts.tries = len(hosts), len(ranking), claiming.tries
        chosen, last = self._choose_all(ranking, claiming, request, observer)
        counts.places = [Place(one.service_host, one.cell_uuid) for one in chosen]
        at_most = self._conf.scheduler.max_attempts - 1 if request.with_alternates else 0
        selections = (
            self._with_alternates(ranking, claiming, chosen, last, at_most)
            if at_most
            else [[one] for one in chosen]
        )
        observer.selected(selections)
        return selections

    def _ranker(
        self, request: SchedulingRequest, observer: DecisionObserver
    ) -> Callable[[HostView], Ranking]:
        chain, weighers = self._chain.prepare(request), prepare_weighers(self._weighers, request)
        options = self._conf.filter_scheduler
        return lambda hosts: rank(chain, weighers, hosts, request, options, observer, self._owned)

    def _choose_all(
        self,
        ranking: Ranking,
        claiming: HostClaiming,
        request: SchedulingRequest,
        observer: DecisionObserver,
    ) -> tuple[list[Selection], ViewIndex]:
        """Return the Selection of each instance, and the index of the host chosen last.

        Several are chosen first and claimed together; those that were refused are then claimed one by one.
        Not so in a server group: what one member gets decides what is left to the next.
        """
        uuids = request.instance_uuids
        together = claiming.claims and len(set(uuids)) > 1 and not request.server_group
        choose = claiming.choose_best if together else claiming.claim_best
        chosen: dict[int, Selection] = {}
        index = NO_HOST
        left = list(enumerate(uuids))
        while left:
            for number, uuid in left:
                request.progress.instance_uuid = uuid
                if index != NO_HOST:
                    ranking.refresh(max(number, 1), index)
                index, candidate = choose_next(choose, uuid, len(chosen), len(uuids))
                chosen[number] = self._selection(ranking.hosts, index, candidate)
                note_providers(request, candidate)
                consume(ranking.hosts, index, request, self._fitter)
                observer.consumed(number, ranking.hosts, index)
            refused = claiming.claim_chosen()
            left = [(number, uuid) for number, uuid in left if uuid in refused]
            for number, _ in left:
                del chosen[number]
            choose = claiming.claim_best
        return [chosen[number] for number in range(len(uuids))], index

    def _with_alternates(
        self, ranking: Ranking, claiming: HostClaiming, chosen: list[Selection], last: ViewIndex, at_most: int
    ) -> Selections:
        """Add alternates: for one instance in the order seen before its claim, else judged once more."""
        if len(chosen) > 1:
            ranking.refresh(len(chosen) - 1, last)
            order = ranking.best_first()
        else:
            order = claiming.others()
        taken = {one.compute_node_uuid for one in chosen}
        cells = {one.cell_uuid for one in chosen}
        by_cell = {
            cell: self._offers(
                ranking.hosts,
                islice(alternates(ranking.hosts, each, cell, taken, self._is_mapped), at_most),
            )
            for cell, each in zip(cells, tee(order, len(cells)), strict=True)
        }
        return [[one, *by_cell[one.cell_uuid]] for one in chosen]

    def _offers(self, hosts: HostView, indices: Iterable[ViewIndex]) -> list[Selection]:
        return [self._selection(hosts, index, hosts.candidates(index)[0]) for index in indices]

    def _selection(self, hosts: HostView, index: ViewIndex, candidate: Candidate | None) -> Selection:
        return selection(hosts, index, candidate, self._conf.default_availability_zone)


def choose_next(choose: Callable[[str], Chosen], uuid: str, done: int, wanted: int) -> Chosen:
    """Return what ``choose`` returns; log how many of the wanted hosts were found if there is none."""
    try:
        return choose(uuid)
    except NoValidHost:
        LOG.debug("There are %d hosts available but %d instances requested to build", done, wanted)
        raise


def note_providers(request: SchedulingRequest, candidate: Candidate | None) -> None:
    """Note which providers serve the groups of the request, for consumption and for operators' classes."""
    groups = request.progress.provider_uuids
    if not groups or candidate is None:
        return
    for group in groups:
        if group not in candidate.mappings:
            raise InvalidRequest(f"Placement maps no provider to the request group {group}")
    request.progress.provider_uuids = {group: tuple(candidate.mappings[group]) for group in groups}
