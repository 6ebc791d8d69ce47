"""Hosts for all instances of one request (spec: placement-and-workflow 5.4, 5.5)."""

from collections.abc import Callable, Sequence
from typing import Any

from oslo_config import cfg

from scheduler.claims.session import Session
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.selection.choosing import Choosing
from scheduler.selection.headroom import Usages, no_usages
from scheduler.selection.host_claiming import NOT_ENOUGH, HostClaiming, all_mapped
from scheduler.selection.ranking import NO_OBSERVER, DecisionObserver, Ranking
from scheduler.weights.base import HostWeigher
from scheduler.weights.scores import PreparedWeighers


class FilterDriver:
    """Filters and weighs all hosts, claims the best, and offers the next best as alternates.

    Attributes:
        chain: The enabled filters.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        chain: FilterChain,
        weighers: Sequence[HostWeigher],
        fitter: Fitter,
        is_mapped: Callable[[str], bool] = all_mapped,
    ) -> None:
        """Make the driver for the enabled rules.

        Args:
            fitter: Fits NUMA topologies when a chosen host is consumed from.
            is_mapped: Whether conductors know the cell of a service host; others are neither chosen nor
                offered.
        """
        self._is_mapped = is_mapped
        self._conf = conf
        self.chain = chain
        self._weighers = weighers
        self._fitter = fitter

    def select(
        self, hosts: HostView, request: SchedulingRequest, claims: Session | None, **options: Any
    ) -> Selections:
        """Choose a host for each instance, and claim it: ``plan``, and what follows."""
        return self.plan(hosts, request, claims, **options).choose_all()

    def plan(
        self,
        hosts: HostView,
        request: SchedulingRequest,
        claims: Session | None,
        usages: Usages = no_usages,
        observer: DecisionObserver = NO_OBSERVER,
    ) -> Choosing:
        """Rank the hosts, and reserve the first of them.

        Args:
            hosts: The hosts that Placement offers, or those to check.
            claims: What claims for the request; None: hosts are chosen without a claim.
            usages: What Placement reported of the hosts' providers.
            observer: Receives each step.

        Raises:
            NoValidHost: An instance is left without a host. After any error, also of what follows, the caller
                releases what was claimed and reserved.
        """
        if not request.instance_uuids:
            raise NoValidHost(NOT_ENOUGH)
        ranking = self.rank(hosts, request, observer)
        claiming = HostClaiming(ranking, claims, self._is_mapped, usages)
        choosing = Choosing(ranking, claiming, self._fitter, self._conf)
        choosing.plan()
        return choosing

    def without_rules(self) -> "FilterDriver":
        """Return a driver that takes hosts as they are, for instances that hold them already."""
        return FilterDriver(self._conf, FilterChain([]), (), self._fitter)

    def rank(
        self, hosts: HostView, request: SchedulingRequest, observer: DecisionObserver = NO_OBSERVER
    ) -> Ranking:
        """Return the hosts that a request may have, with their weights for its first instance."""
        chain, weighers = self.chain.prepare(request), PreparedWeighers(self._weighers, request)
        options = self._conf.filter_scheduler
        return Ranking(chain, weighers, hosts, request, options, observer)
