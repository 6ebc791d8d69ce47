"""The steps of a request, in order (spec: placement-and-workflow 5.2).

Nothing is decided here: each step is one line and lives in the room that it names. What is claimed on the way
is either in the reply or given back.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler import conf as options
from scheduler.claims.claim_session import ClaimSession
from scheduler.claims.claimer import Claimer
from scheduler.claims.journal import Journal
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.filters.numa_topology_filter import fitter_of
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.candidates import Candidates, CandidateSource
from scheduler.placement.client import PlacementClient, ProviderAggregates
from scheduler.request import prefilters, query, targets
from scheduler.request.network import NeutronNetwork
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import load_filters as filter_loader
from scheduler.rules import load_weighers as weight_loader
from scheduler.rules import nova_modules
from scheduler.selection.alternates import as_dicts
from scheduler.selection.driver import FilterDriver
from scheduler.selection.headroom import nothing_known
from scheduler.selection.server_groups import Groups

LOG = logging.getLogger(__name__)

# Seconds at the end of a process for notifications that still wait for their broker.
NOTIFY_TIMEOUT = 5.0


class SchedulerManager:
    """One scheduler: what it knows and keeps, and ``select_destinations``."""

    def __init__(self, conf: cfg.ConfigOpts, notifications: Any, journal: Journal | None = None) -> None:
        """Put the rooms together; nothing is asked of anybody yet.

        ``notifications``: ``rpc.notifications.Notifications``, which knows whom to tell, if anybody.
        ``journal`` outlives this process; without one nobody takes back what it claimed for the unanswered
        requests of its sudden death.

        Raises ``ConfigError``, ``HostFilterNotFound``, ``ClassNotFound`` or ``PlacementAuthFailure`` for
        options that cannot work.
        """
        self.conf = conf
        self.hosts = Inventory(conf)
        self.placement = PlacementClient.from_conf(conf)
        self.candidates = CandidateSource.of(self.placement, conf.berth.searches_at_once)
        self.claimer = Claimer.of(self.placement)
        self.groups = Groups()
        self._journal = journal
        self.notifications = notifications
        self.network = NeutronNetwork.from_conf(conf)
        self.provider_aggregates = ProviderAggregates(self.placement)
        self.use_rules()

    def use_rules(self) -> None:
        """Load the filters and weighers that the options name, and use them from the next request on."""
        nova_modules.provide(self.conf)
        chain = FilterChain(filter_loader.load(self.conf))
        weighers = weight_loader.load(self.conf)
        fitter = fitter_of(chain.filters, self.conf)
        self.driver = FilterDriver(self.conf, chain, weighers, fitter, self.hosts.mapped)
        # Conductors refuse server groups whose filter is missing in *their* options: for comparison.
        LOG.info("Filters: %s", ", ".join(each.name for each in chain.filters))
        LOG.info("Weighers: %s", ", ".join(each.name for each in weighers))

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read hosts and see whether Placement is there. What is away is waited for in the
        background.

        Raises ``PlacementAuthFailure``: Keystone refuses the credentials.
        """
        self.placement.start()
        if self._journal:
            self.claimer.keep_notes(self._journal)
        self.hosts.start()

    def reset(self) -> None:
        """On SIGHUP: look at cells and connections anew, and take over changed options.

        Raises as the constructor does; the rules stay as they were then.
        """
        self.hosts.reset()
        self.use_rules()

    def stop(self, timeout: float) -> None:
        """After the last request: finish what is under way in the background, in ``timeout`` seconds."""
        self.claimer.drain(timeout)
        self.notifications.stop(min(timeout, NOTIFY_TIMEOUT))
        self.hosts.stop()

    # -- a request -------------------------------------------------------------------------------------------

    def select_destinations(
        self,
        context: Any,
        spec: Any,
        instance_uuids: Sequence[str] | None,
        return_objects: bool = True,
        return_alternates: bool = False,
    ) -> list:
        """A list of Selections for each instance, the first of each claimed; or the dictionaries of old.

        Without ``instance_uuids`` (None) hosts are chosen for ``spec.num_instances`` and nothing is claimed.
        Raises ``NoValidHost`` if any instance would be left without a host; nothing stays claimed then.
        """
        deadline = time.monotonic() + options.caller_patience(self.conf)
        LOG.debug("Starting to schedule for instances: %s", instance_uuids)
        request = SchedulingRequest.of(
            spec,
            instance_uuids,
            context,
            with_alternates=return_objects and return_alternates,
            deadline=deadline,
        )
        if not request.is_rebuild:
            # whatever was decided for them before is void
            self.hosts.pending.remove(instance_uuids or ())
        queries = () if request.is_rebuild else self._queries(request)
        candidates = self._ask_placement(context, queries) if queries else None
        self.notifications.select_destinations_start(context, spec)
        with self.groups.turn(request, self.hosts) as request:
            table = self.hosts.snapshot(cell_uuid=request.cell_uuid)
            hosts = self._hosts(table, candidates, request)
            more = partial(self._hosts_beyond, request, queries, candidates, len(hosts))
            usages = candidates.usage if candidates else nothing_known
            claims = self._claims(table, request) if request.claims else None
            with claims or nullcontext():
                selections = self.driver.select(hosts, request, claims, more, usages)
                reply = selections if return_objects else as_dicts(selections)
        request.write_progress()
        self.notifications.select_destinations_end(context, spec)
        return reply

    def _queries(self, request: SchedulingRequest) -> tuple[query.Query, ...]:
        """What to ask Placement for, once the pre-filters have had their say."""
        spec = request.spec
        prefilters.run(spec, request.context, self._prefilter_services())
        look_up = targets.wanted(spec)
        found = self.hosts.find_nodes(look_up) if look_up else ()
        return query.build(spec, self.conf, targets.settle(spec, look_up, found))

    def _ask_placement(self, context: Any, queries: Sequence[query.Query]) -> Candidates:
        """Which hosts could have it. Raises ``NoValidHost`` if none could, or Placement does not say."""
        candidates = self.candidates.fetch(queries, context)
        if not candidates.by_root:
            raise NoValidHost
        return candidates

    def _prefilter_services(self) -> prefilters.PrefilterServices:
        return prefilters.PrefilterServices(
            conf=self.conf,
            aggregates=self.hosts.aggregates,
            minimum_compute_version=self.hosts.minimum_compute_version,
            network=self.network,
            provider_aggregates=self.provider_aggregates,
        )

    def _hosts(self, table: HostTable, candidates: Candidates | None, request: SchedulingRequest) -> HostView:
        if candidates:
            return self._hosts_with(table, candidates, request)
        return self._hosts_to_check(table, request)

    def _hosts_with(self, table: HostTable, candidates: Candidates, request: SchedulingRequest) -> HostView:
        """Return the hosts that Placement offers."""
        table = self.hosts.complete(table, candidates.by_root)
        rows = table.find(candidates.by_root, request.cell_uuid)
        lists = [candidates.by_root[table.rows[row].uuid] for row in rows]
        return HostView.of(table, rows, lists, self.hosts.instances, self.hosts.pending)

    def _hosts_beyond(
        self,
        request: SchedulingRequest,
        queries: Sequence[query.Query],
        candidates: Candidates | None,
        known: int,
    ) -> HostView | None:
        """All hosts, if Placement's answer was cut and not all of it was about the ``known`` hosts.

        spec: host-state-and-cells 8 (5)
        """
        if candidates is None or not candidates.truncated or len(candidates.by_root) == known:
            return None
        LOG.info("No host is left of those that Placement offers up to the limit: asking for all")
        unlimited = [query.without_limit(each) for each in queries]
        found = self.candidates.fetch(unlimited, request.context)
        return self._hosts_with(self.hosts.snapshot(cell_uuid=request.cell_uuid), found, request)

    def _hosts_to_check(self, table: HostTable, request: SchedulingRequest) -> HostView:
        """For a rebuild: the host that the request forces, or all of its cell."""
        cell_uuid = request.cell_uuid
        wanted = targets.wanted(request.spec)
        named = table.nodes(wanted.host, wanted.node, cell_uuid) if wanted else table.rows
        rows = table.find((row.uuid for row in named), cell_uuid)
        return HostView.of(table, rows, None, self.hosts.instances, self.hosts.pending)

    def _claims(self, table: HostTable, request: SchedulingRequest) -> ClaimSession:
        # An evacuation names the failed host there.
        ignored = table.nodes_of_hosts(request.spec.ignore_hosts or ())
        return ClaimSession(
            self.claimer,
            self.hosts.pending,
            request.context,
            request.spec,
            request.instance_uuids,
            ignored,
            request.deadline,
        )

    # -- what others tell ------------------------------------------------------------------------------------

    def update_aggregates(self, context: Any, aggregates: Any) -> None:
        """Some host aggregates were made or changed."""
        self.hosts.update_aggregates(aggregates)

    def delete_aggregate(self, context: Any, aggregate: Any) -> None:
        """A host aggregate is gone."""
        self.hosts.delete_aggregate(aggregate)

    def update_instance_info(self, context: Any, host_name: str, instance_info: Any) -> None:
        """A host has these instances, perhaps among others."""
        self.hosts.update_instance_info(host_name, instance_info)

    def delete_instance_info(self, context: Any, host_name: str, instance_uuid: str) -> None:
        """A host has an instance no more."""
        self.hosts.delete_instance_info(host_name, instance_uuid)

    def sync_instance_info(self, context: Any, host_name: str, instance_uuids: Sequence[str]) -> None:
        """A host has exactly these instances."""
        self.hosts.sync_instance_info(host_name, instance_uuids)
