"""The steps of a request, in order (spec: placement-and-workflow 5.2).

Nothing is decided here: each step is one line, and is implemented in the package that it names. What is
claimed on the way is either in the reply or released.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
import math
import time
from typing import Any, Protocol

from oslo_config import cfg
from oslo_log import log as logging

from scheduler import conf as options
from scheduler import objects
from scheduler.background import BackgroundLoop
from scheduler.claims.capacity import CapacityCheck, NoCapacityCheck, OvercommitCheck
from scheduler.claims.claim_session import ClaimSession
from scheduler.claims.claimer import Claimer
from scheduler.claims.held import held_candidate
from scheduler.claims.journal import ClaimJournal, Journal
from scheduler.claims.observers import MirrorAndOthers
from scheduler.conf.derived import uses_mirror
from scheduler.deadline import Deadline, limit_to
from scheduler.errors import AllocationUpdateFailed, BerthError, NoValidHost
from scheduler.explain.empty_answers import EmptyAnswers, asking
from scheduler.explain.recorder import DecisionRecorder, Observe, ignore_decision
from scheduler.explain.summary import with_summary
from scheduler.explain.trace import Trace
from scheduler.filters.numa_topology_filter import fitter_of
from scheduler.health.reports import MOST_CELLS, CellState, WorkerState
from scheduler.hosts.room import HostRoom
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.logs import RateLimitedLogger
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.answer import Resources
from scheduler.placement.candidates import Candidates, CandidateSource
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.mirror import MirrorAnswer
from scheduler.placement.mirror_source import CandidateMirror, NoMirror, make_mirror
from scheduler.placement.partition_members import PartitionMembers
from scheduler.placement.provider_aggregates import ProviderAggregates
from scheduler.placement.provider_usage import read_usage
from scheduler.request import prefilters, query, targets
from scheduler.request.decision_line import amounts_of, placed_lines, refused_line
from scheduler.request.network import NeutronNetwork
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.router.make import make_router
from scheduler.router.request_routing import RequestRouting
from scheduler.router.router import Router
from scheduler.router.routing import RoutingFacts
from scheduler.rules import nova_modules
from scheduler.rules.drivers import Rules, load_rules
from scheduler.selection.alternates import Selections, as_dicts
from scheduler.selection.driver import FilterDriver
from scheduler.selection.headroom import Usages, no_usages
from scheduler.selection.host_claiming import PLACEMENT_UNKNOWN
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.server_groups import ServerGroups
from scheduler.shared_answers import SharedAnswers
from scheduler.stream.decision_stream import DecisionStream, NoStream, make_stream
from scheduler.stream.shared_decisions import LocalState

LOG = logging.getLogger(__name__)

# Seconds at the end of a process for notifications that still wait for their broker.
NOTIFY_TIMEOUT = 5.0

# Seconds at the end of a process for decisions that still have to be written to disk.
DECISIONS_TIMEOUT = 2.0

# Seconds between questions to a Placement that requests do not ask, so that health checks can tell of it.
CHECK_INTERVAL = 15.0

# Claims of other schedulers that may overlap with one on the same host and are not known yet, if the options
# do not tell: some schedulers, each with a claim or two.
OVERLAPPING_CLAIMS = 8

# Seconds at the end of a process for decisions that other schedulers still have to be told of.
STREAM_TIMEOUT = 1.0

#: Seconds between two equal warnings of pre-filters, of what holds for every request.
PREFILTER_WARNING_INTERVAL = 3600.0

Reply = list[Any]
"""For each instance its Selections; or, for callers that want no objects, the dict of the first of them."""


class Notifications(Protocol):
    """Where requests are announced."""

    def select_destinations_start(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that hosts are being chosen for a request."""

    def select_destinations_end(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that the hosts of a request were chosen."""

    def stop(self, timeout: float) -> None:
        """Send what still waits, in ``timeout`` seconds at most."""


@dataclass(frozen=True)
class ManagerParts:
    """What a manager works with.

    Attributes:
        hosts: What is known of the hosts.
        placement: The client that the daemon starts.
        candidates: Answers which hosts could take a request.
        claimer: Claims hosts in Placement.
        network: Neutron, for the pre-filters.
        mirror: What is known of Placement's compute nodes without a query, if that is wanted.
        stream: What other schedulers decide, if it is shared.
        clock: Seconds, as ``time.monotonic``.
        router: Sends requests to other partitions, if there are any.
    """

    hosts: Inventory
    placement: PlacementClient
    candidates: CandidateSource
    claimer: Claimer
    network: NeutronNetwork
    mirror: CandidateMirror | NoMirror = field(default_factory=NoMirror)
    stream: DecisionStream | NoStream = field(default_factory=NoStream)
    clock: Callable[[], float] = time.monotonic
    router: Router | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, answers: SharedAnswers) -> "ManagerParts":  # noqa: ARG003
        """Make the parts that the options describe; nothing is connected to yet.

        Args:
            conf: The options.
            answers: What Placement and the databases answered to other workers.

        Raises:
            ConfigError: An option cannot work.
            PlacementAuthFailure: ``[placement]`` names no usable credentials.
        """
        placement = PlacementClient.from_conf(conf)
        hosts = Inventory(conf)
        mirror = make_mirror(conf, placement, hosts.partition.aggregates)
        stream = make_stream(conf, LocalState(hosts.pending, partial(hosts.snapshot, math.inf), mirror))
        return cls(
            hosts=hosts,
            placement=placement,
            candidates=CandidateSource.of(placement, conf.berth.searches_at_once, hosts.begin_reading),
            claimer=Claimer.of(placement, conf.berth.claims_at_once),
            network=NeutronNetwork.from_conf(conf),
            mirror=mirror,
            stream=stream,
            router=make_router(conf, stream, hosts.partitions),
        )


class SchedulerManager:
    """One scheduler: what it knows and keeps, and ``select_destinations``.

    Attributes:
        hosts: What is known of the hosts.
        notifications: Where requests are announced.
        parts: What the manager works with.
        decisions: The records of the latest requests.
        stream: What other schedulers decide, if it is shared.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        notifications: Notifications,
        journal: Journal | None = None,
        parts: ManagerParts | None = None,
        on_decision: Observe = ignore_decision,
    ) -> None:
        """Put the parts together; nothing is connected to yet.

        Args:
            conf: The options.
            notifications: Where requests are announced.
            journal: Outlives this process. Without one, claims of unanswered requests stay in Placement when
                the process is killed.
            parts: What to work with; by default what the options describe.
            on_decision: Called with the record of each decision.

        Raises:
            ConfigError: An option cannot work.
            HostFilterNotFound: An enabled filter does not exist.
            ClassNotFound: A configured class does not exist.
            PlacementAuthFailure: ``[placement]`` names no usable credentials.
        """
        parts = parts or ManagerParts.from_conf(conf, SharedAnswers())
        self.conf = conf
        self.notifications = notifications
        self.parts = parts
        self.hosts = parts.hosts
        self._placement = parts.placement
        self._candidates = parts.candidates
        self._claimer = parts.claimer
        self._prefilter_warnings = RateLimitedLogger(LOG, interval=PREFILTER_WARNING_INTERVAL)
        self._network = parts.network
        self._mirror = parts.mirror
        self.stream = parts.stream
        self._router = parts.router
        self._claim_observer = MirrorAndOthers(parts.mirror, parts.stream.sharing)
        self._mirrored_hosts = MirroredHosts(parts.mirror, parts.hosts.instances, parts.hosts.pending)
        self._clock = parts.clock
        self._journal = journal
        self._provider_aggregates = ProviderAggregates(parts.placement)
        self._groups = ServerGroups()
        placement = parts.placement
        self._partition_members = self._watch_members() if parts.hosts.partition.name else None
        self._empty_answers = EmptyAnswers(
            asking(placement), lambda: placement.answers is not False, parts.clock
        )
        self.decisions = DecisionRecorder(conf, parts.clock, on_decision, self._empty_answers.consider)
        self._checks = BackgroundLoop("placement-check", self._check_placement)
        self.use_rules()

    def use_rules(self) -> None:
        """Load the filters and weighers that the options name, and use them from the next request on."""
        chain, weighers = self._load_rules()
        # Conductors refuse server groups whose filter is missing in *their* options: for comparison.
        LOG.info("Filters: %s", ", ".join(each.name for each in chain.filters))
        LOG.info("Weighers: %s", ", ".join(each.name for each in weighers))

    def _load_rules(self) -> Rules:
        nova_modules.provide(self.conf)
        chain, weighers = load_rules(self.conf)
        fitter = fitter_of(chain.filters, self.conf)
        self._driver = FilterDriver(self.conf, chain, weighers, fitter, self.hosts.mapped, self.stream.owned)
        return Rules(chain, weighers)

    @property
    def message_runs(self) -> ClaimJournal:
        """Where this process records which redelivered messages it runs."""
        return self._claimer.journal

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read hosts and check that Placement answers. What is away is waited for in the background.

        Raises:
            PlacementAuthFailure: Keystone refuses the credentials.
        """
        self._placement.start()
        self._claimer.start()
        if self._journal:
            self._claimer.open_journal(self._journal)
        self.hosts.start()
        self._mirror.start()
        self.decisions.start()
        self._empty_answers.start()
        if self._partition_members:
            self._partition_members.start()
        if self.conf.berth.monitoring_listen:
            self._checks.start()

    def wait_until_ready(self, timeout: float) -> bool:
        """Wait until the API database has been read once, for at most ``timeout`` seconds.

        Returns:
            Whether it has been read. Without it every request would end with 'not enough hosts'.
        """
        return self.hosts.wait_until_ready(timeout)

    def catch_up(self) -> None:
        """Learn what other schedulers have decided in the last minutes, within a bounded time.

        To be called once the host table has been read, and before the first request.
        """
        self.stream.start()
        self.stream.wait_until_caught_up(self.conf.berth.decision_stream_start_timeout)

    def reset(self) -> None:
        """On SIGHUP: read cells and connections again, and take over changed options.

        Raises:
            ConfigError: An option cannot work; the rules stay as they were. So for the other errors of the
                constructor.
        """
        self.hosts.reset()
        self.use_rules()
        self.decisions.reset()

    def stop_claiming(self) -> None:
        """Claim nothing more. Requests that have not claimed all they need give back what they claimed.

        They end with ``SchedulerStopping``, and are returned to the broker.
        """
        self._claimer.stop_claiming()

    def stop(self, timeout: float) -> None:
        """After the last request: finish background work, in ``timeout`` seconds at most."""
        self._checks.stop(0)
        if self._partition_members:
            self._partition_members.stop()
        self._empty_answers.stop()
        self._claimer.stop_claiming()
        self._claimer.drain(timeout)
        self.stream.stop(min(timeout, STREAM_TIMEOUT))
        self.notifications.stop(min(timeout, NOTIFY_TIMEOUT))
        self.decisions.stop(min(timeout, DECISIONS_TIMEOUT))
        self._mirror.stop()
        self.hosts.stop()

    def state(self) -> WorkerState:
        """Return what health checks and metrics show of this scheduler, apart from its messages."""
        cells = self.hosts.cell_readings()[:MOST_CELLS]
        shared = self.stream.status()
        return WorkerState(
            cells=tuple(
                CellState(cell.uuid, cell.name or cell.uuid, cell.enabled, usable, age)
                for cell, usable, age in cells
            ),
            api_database=self.hosts.cells.readable,
            placement=self._placement.answers,
            decision_stream=shared.in_step if shared.wanted else None,
            schedulers=shared.schedulers,
            compute_nodes=self.hosts.compute_node_count(),
            pending=len(self.hosts.pending),
            cleanups=self._claimer.pending_cleanups(),
            mirror_age=self._mirror.age() if uses_mirror(self.conf) else None,
            stalled=self.hosts.refresh_overdue(),
        )

    def _watch_members(self) -> PartitionMembers:
        partition = self.hosts.partition
        return PartitionMembers(
            self._placement,
            partition.name,
            partition.aggregates,
            self._hosts_of_nodes,
            self.hosts.hosts_without_partition,
        )

    def _hosts_of_nodes(self) -> dict[str, str]:
        return {row.uuid: row.host for row in self.hosts.snapshot(math.inf).rows}

    def _check_placement(self) -> float:
        self._placement.check(unused_for=CHECK_INTERVAL)
        return CHECK_INTERVAL

    # -- a request -------------------------------------------------------------------------------------------

    def select_destinations(
        self,
        context: Any,
        spec: objects.RequestSpec,
        instance_uuids: Sequence[str] | None,
        return_objects: bool = True,
        return_alternates: bool = False,
    ) -> Reply:
        """Choose a host for each instance, and claim it.

        Args:
            context: The request context of the caller.
            spec: The request; pre-filters and the choice of hosts change it, as nova's do.
            instance_uuids: None: hosts are chosen for ``spec.num_instances`` and nothing is claimed.
            return_objects: Whether the reply consists of Selections; if not, of the older dicts.
            return_alternates: Whether alternates follow the chosen host of each instance.

        Returns:
            For each instance a list of Selections, the first of them claimed; or one dict.

        Raises:
            NoValidHost: An instance would be left without a host. Nothing stays claimed then.
            HostsUnknown: Placement offers hosts of cells that cannot be read, and no other one is left.
            SchedulerStopping: The process stops. Nothing stays claimed.
            Forwarded: Another scheduler answers the caller (``scheduler/rpc/delivery.py``).
            Postponed: It may have been sent on, and comes again.
        """
        LOG.debug("Starting to schedule for instances: %s", instance_uuids)
        arrived_at = self._clock()
        request = SchedulingRequest.of(
            spec,
            instance_uuids,
            context,
            with_alternates=return_objects and return_alternates,
            deadline=arrived_at + options.caller_patience(self.conf),
            arrived_at=arrived_at,
        )
        with limit_to(Deadline(request.deadline, self._clock)):
            routing = self._routing_of(request)
            if routing:
                routing.route()
            self._send_on_to_group_owner(request)
            return self._serve(request, list if return_objects else as_dicts, routing)

    def _serve(
        self,
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        routing: RequestRouting | None,
    ) -> Reply:
        decide = self._check_rebuild if request.is_rebuild else self._schedule
        trace = self.decisions.begin(request)
        if routing:
            trace.routed(routing.partition, routing.tried_before)
        with (
            self._logging(request, trace),
            self.decisions.recording(trace),
            routing.passing_on(trace.reason, trace) if routing else nullcontext(),
        ):
            return decide(request, as_reply, trace)

    def _routing_of(self, request: SchedulingRequest) -> RequestRouting | None:
        """Return how a request may be sent to other partitions; None if it may not."""
        call = getattr(request.context, "delivery", None)
        if self._router is None or call is None or not call.can_be_forwarded:
            return None
        facts = RoutingFacts.of(request)
        if request.was_redelivered and request.claims and facts.host is None:
            facts = replace(facts, host=self._host_held(request))
        return RequestRouting(self._router, facts, call)

    def _host_held(self, request: SchedulingRequest) -> str | None:
        """Return the host that an earlier delivery claimed for a request, be it of whatever partition."""
        try:
            held = self._claimer.get_held(request.instance_uuids[0], request.context).allocations
        except (PlacementSilent, IndexError):
            return None
        ignored = {host.lower() for host in request.spec.ignore_hosts or ()}
        hosts = self.hosts.hosts_of_nodes(held) if held else set()
        return min((host for host in hosts if host.lower() not in ignored), default=None)

    def _send_on_to_group_owner(self, request: SchedulingRequest) -> None:
        """Send a request on that places members of a server group, if another scheduler decides for that."""
        group = request.server_group
        if group is not None and group.uuid is not None and request.claims:
            self.stream.send_on_to_owner(group.uuid, getattr(request.context, "delivery", None))

    @contextmanager
    def _logging(self, request: SchedulingRequest, trace: Trace) -> Iterator[None]:
        """Log the decision on a request: a line for each instance that was placed, or one with the reason."""
        started, uuids, counts = self._clock(), request.instance_uuids, request.counts
        try:
            yield
        except BerthError as error:
            reason = with_summary(str(error), trace.record.summary)
            LOG.info("%s", refused_line(uuids, counts, self._clock() - started, reason))
            raise
        for line in placed_lines(uuids, counts, self._clock() - started, self.hosts.cell_names()):
            LOG.info("%s", line)

    def _schedule(
        self, request: SchedulingRequest, as_reply: Callable[[Selections], Reply], trace: Trace
    ) -> Reply:
        # What was decided for these instances before is void.
        self.hosts.pending.remove(request.instance_uuids if request.claims else ())
        queries = self._queries(request)
        trace.asked(queries)
        request.counts.amounts = amounts_of(queries[0].params)
        if request.claims and request.was_redelivered:
            again = self._answer_again(queries, request, as_reply, trace)
            if again is not None:
                return again
            if request.may_be_answered:
                text = "the request may have been answered, and its instances changed since"
                raise NoValidHost(text, final=True)
        try:
            return self._schedule_anew(queries, request, as_reply, trace)
        except AllocationUpdateFailed as error:
            if not error.held:
                raise
            again = self._answer_again(queries, request, as_reply, trace)
            if again is None:
                return self._schedule_beside(error, queries, request, as_reply, trace)
            self._announce_end(request)
            return again

    def _schedule_beside(
        self,
        error: AllocationUpdateFailed,
        queries: Sequence[query.Query],
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        trace: Trace,
    ) -> Reply:
        """Evacuate an instance that holds something on a further host which is of no use to the request.

        An earlier evacuation left it there: a host that is down gives its allocations back when it returns.

        Raises:
            AllocationUpdateFailed: It is no evacuation: the instance holds nothing on an ignored host.
        """
        ignored = self._ignored_nodes(self._table_with(error.held, request), request)
        if not ignored & error.held:
            raise error
        LOG.info(
            "Instance %s keeps what it holds on hosts that it cannot be evacuated to: %s",
            error.consumer_uuid,
            ", ".join(sorted(error.held - ignored)),
        )
        beside = replace(request.restarted(), kept_providers=error.held)
        return self._schedule_by_query(queries, beside, as_reply, trace, announced=True)

    def _schedule_anew(
        self,
        queries: Sequence[query.Query],
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        trace: Trace,
    ) -> Reply:
        table = partial(self._table_for, request)
        mirrored = self._mirrored_hosts.find(queries, table, request.cell_uuid)
        if mirrored is None:
            return self._schedule_by_query(queries, request, as_reply, trace)
        trace.mirrored(len(mirrored[0]), self._mirror.age())
        try:
            return self._schedule_by_mirror(*mirrored, request, as_reply, trace)
        except NoValidHost:
            LOG.info("No host of the mirror is left: Placement is asked")
            return self._schedule_by_query(queries, request.restarted(), as_reply, trace, announced=True)

    def _answer_again(
        self,
        queries: Sequence[query.Query],
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        trace: Trace,
    ) -> Reply | None:
        """Answer a request with the hosts that its instances hold already, without alternates.

        Its first delivery, or another request for the same instances, may have been answered with them; so
        their allocations must not be moved.

        Returns:
            The reply; None if not all instances hold what the request wants on a host that passes: then the
            first delivery was not answered, or not with hosts that would do.
        """
        views = self._views_of_held(queries, request)
        if views is None:
            return None
        table = views[0][0].table
        try:
            # Before anything is claimed: a claim of several is given back as a whole.
            for view, each in views:
                self._driver.select(view, each.restarted(), None)
        except NoValidHost:
            return None
        kind = "Redelivered request" if request.was_redelivered else "Request beside another one"
        LOG.info("%s is answered with the hosts that its instances hold: %s", kind, request.instance_uuids)
        with self._claim_session(table, request, confirms_held=True) as claims:
            trace.held(len(views))
            trace.claiming(claims)
            selections = [
                row for view, each in views for row in self._driver.select(view, each.restarted(), claims)
            ]
            trace.selected(selections)
            reply = as_reply(selections)
        if claims is not None:
            keep_until_answered(request.context, claims)
        return reply

    def _views_of_held(
        self, queries: Sequence[query.Query], request: SchedulingRequest
    ) -> list[tuple[HostView, SchedulingRequest]] | None:
        """Return for each instance the one host that it holds, and a request for it alone; or None."""
        held = {}
        for uuid in request.instance_uuids:
            held[uuid] = self._read_held(uuid, request.context)
            if not held[uuid]:
                return None
        table = self._table_with({provider for each in held.values() for provider in each}, request)
        ignored = self._ignored_nodes(table, request)
        views = []
        for uuid, allocations in held.items():
            candidate = held_candidate(allocations, table.row_of_uuid, ignored, queries)
            if candidate is None:
                return None
            rows = table.find([candidate.root], request.cell_uuid)
            lists = [[candidate]] * len(rows)
            view = HostView.of(table, rows, lists, self.hosts.instances, self.hosts.pending)
            views.append((view, replace(request, instance_uuids=(uuid,), with_alternates=False)))
        return views or None

    def _read_held(self, uuid: str, context: Any) -> Resources:
        """Return what an instance holds.

        Raises:
            NoValidHost: Placement does not tell; so it is not known whether a host may be chosen.
        """
        try:
            return self._claimer.get_held(uuid, context).allocations
        except PlacementSilent as error:
            text = f"Placement does not tell what an instance holds: {error}"
            raise NoValidHost(text, final=True) from error

    def _schedule_by_mirror(
        self,
        hosts: HostView,
        answer: MirrorAnswer,
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        trace: Trace,
    ) -> Reply:
        self.notifications.select_destinations_start(request.context, request.spec)
        with self._groups.serialized(request, self.hosts) as current:
            reply = self._choose(hosts, current, as_reply, trace, usages=answer.usage)
        self._announce_end(current)
        return reply

    def _schedule_by_query(
        self,
        queries: Sequence[query.Query],
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        trace: Trace,
        *,
        announced: bool = False,
    ) -> Reply:
        candidates = self._ask_placement(queries, request, trace)
        if not announced:
            self.notifications.select_destinations_start(request.context, request.spec)
        with self._groups.serialized(request, self.hosts) as current:
            return self._choose_offered(queries, candidates, current, as_reply, trace)

    def _choose_offered(
        self,
        queries: Sequence[query.Query],
        candidates: Candidates,
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        trace: Trace,
    ) -> Reply:
        """Choose among the hosts that Placement offers; once more if cells come back that were left out."""
        table = self._table_with(candidates.by_root, request)
        hosts = self._offered_hosts(table, candidates, request)
        more = partial(self._hosts_beyond_limit, table, queries, candidates, len(hosts), request)
        trace.mark("table")
        try:
            reply = self._choose(hosts, request, as_reply, trace, more, candidates.usage)
        except NoValidHost:
            lacks = any(uuid not in table.row_of_uuid for uuid in candidates.by_root)
            if not (lacks and self.hosts.recover(table, request.cell_uuid)):
                raise
        else:
            self._announce_end(request)
            return reply
        return self._choose_offered(queries, candidates, request.restarted(), as_reply, trace)

    def _choose(
        self,
        hosts: HostView,
        request: SchedulingRequest,
        as_reply: Callable[[Selections], Reply],
        trace: Trace,
        more: Callable[[], HostView | None] = lambda: None,
        usages: Usages = no_usages,
    ) -> Reply:
        # The reply is part of the session: if it cannot be made, the claims are released.
        with self._claim_session(hosts.table, request) as claims:
            trace.claiming(claims)
            reply = as_reply(self._driver.select(hosts, request, claims, more, usages, trace))
        if claims is not None:
            keep_until_answered(request.context, claims)
        return reply

    def _check_rebuild(
        self, request: SchedulingRequest, as_reply: Callable[[Selections], Reply], trace: Trace
    ) -> Reply:
        self.notifications.select_destinations_start(request.context, request.spec)
        hosts = self._hosts_to_check(request)
        trace.looked_up(hosts)
        reply = as_reply(self._driver.select(hosts, request, None, observer=trace))
        self._announce_end(request)
        return reply

    def _queries(self, request: SchedulingRequest) -> tuple[query.Query, ...]:
        """Run the pre-filters and return what to ask Placement for."""
        spec = request.spec
        prefilters.run(spec, request.context, self._prefilter_services())
        named = targets.named_target(spec)
        found = self.hosts.find_nodes(named) if named else ()
        where = targets.apply_lookup(spec, named, found)
        return query.build(spec, self.conf, replace(where, aggregates=self._partition_aggregates()))

    def _partition_aggregates(self) -> frozenset[str]:
        """Return the aggregates that the hosts of this scheduler's partition are in; none if it has none.

        Raises:
            NoValidHost: None of its aggregates exists, so it has no host.
        """
        uuids = self.hosts.partition.aggregates()
        if uuids is None:
            return frozenset()
        if not uuids:
            raise NoValidHost(f"None of the aggregates of partition {self.hosts.partition.name} exists")
        return uuids

    def _prefilter_services(self) -> prefilters.PrefilterServices:
        return prefilters.PrefilterServices(
            conf=self.conf,
            aggregates=self.hosts.aggregates,
            minimum_compute_version=self.hosts.minimum_compute_version,
            network=self._network,
            provider_aggregates=self._provider_aggregates,
            warnings=self._prefilter_warnings,
        )

    def _ask_placement(
        self, queries: Sequence[query.Query], request: SchedulingRequest, trace: Trace
    ) -> Candidates:
        """Return the allocation candidates.

        Raises:
            NoValidHost: There are none, or Placement does not answer.
        """
        candidates = self._candidates.fetch(queries, request.context)
        trace.answered(candidates)
        if not candidates.by_root:
            raise NoValidHost(PLACEMENT_UNKNOWN if candidates.failed else "", final=candidates.failed)
        return candidates

    def _table_with(self, node_uuids: Iterable[str], request: SchedulingRequest) -> HostTable:
        """Return a snapshot of the hosts in which none of these compute nodes is missing, if they exist."""
        return self.hosts.complete(self._table_for(request), node_uuids)

    def _table_for(self, request: SchedulingRequest) -> HostTable:
        """Return a snapshot of the hosts, read after the request arrived if it moves an instance.

        What an operator or a compute changed just before a move (a service forced down, for one) counts then.
        """
        max_age = 0.0 if request.moves_instance else None
        return self.hosts.snapshot(max_age, request.cell_uuid, request.arrived_at)

    def _offered_hosts(
        self, table: HostTable, candidates: Candidates, request: SchedulingRequest
    ) -> HostView:
        """Return the hosts that Placement offers."""
        rows = table.find(candidates.by_root, request.cell_uuid)
        by_root = candidates.by_root
        lists = CandidateLists(lambda position: by_root[table.rows[rows[position]].uuid])
        pending, asked_at = self.hosts.pending, candidates.sent_at
        return HostView.of(table, rows, lists, self.hosts.instances, pending, asked_at)

    def _hosts_beyond_limit(
        self,
        table: HostTable,
        queries: Sequence[query.Query],
        candidates: Candidates,
        known: int,
        request: SchedulingRequest,
    ) -> HostView | None:
        """Return all hosts if the limit cut Placement's answer and it named others than the ``known`` hosts.

        spec: host-state-and-cells 8 (5)
        """
        if not candidates.truncated or len(candidates.by_root) == known:
            return None
        LOG.info("None of the hosts that Placement offers up to the limit is left: asking for all")
        unlimited = [query.without_limit(each) for each in queries]
        found = self._candidates.fetch(unlimited, request.context)
        return self._offered_hosts(self.hosts.complete(table, found.by_root), found, request)

    def _hosts_to_check(self, request: SchedulingRequest) -> HostView:
        """Return the host that a rebuild check forces, or all of its cell."""
        cell_uuid = request.cell_uuid
        table = self.hosts.snapshot(cell_uuid=cell_uuid, arrived_at=request.arrived_at)
        target = targets.named_target(request.spec)
        nodes = table.nodes(target.host, target.node, cell_uuid) if target else table.rows
        rows = table.find((row.uuid for row in nodes), cell_uuid)
        if not len(rows) and self.hosts.recover(table, cell_uuid):
            return self._hosts_to_check(request)
        return HostView.of(table, rows, None, self.hosts.instances, self.hosts.pending)

    def _claim_session(
        self, table: HostTable, request: SchedulingRequest, *, confirms_held: bool = False
    ) -> AbstractContextManager[ClaimSession | None]:
        """Return what claims for the request; None in the context of one that claims nothing."""
        if not request.claims:
            return nullcontext()
        return ClaimSession(
            self._claimer,
            self.hosts.pending,
            request,
            # An evacuation names the failed host there.
            self._ignored_nodes(table, request) | request.kept_providers,
            table.row_of_uuid,
            host_name=partial(host_of_provider, table),
            clock=self._clock,
            confirms_held=confirms_held,
            keeps_claims=request.may_be_answered,
            observer=self._claim_observer,
            capacity=self._capacity_check(table, request),
        )

    def _ignored_nodes(self, table: HostTable, request: SchedulingRequest) -> frozenset[str]:
        return self.hosts.nodes_of_hosts(table, request.spec.ignore_hosts or ())

    def _capacity_check(self, table: HostTable, request: SchedulingRequest) -> CapacityCheck:
        """Return what checks the claims of a request; none while no other scheduler can claim."""
        others = self.conf.berth.overlapping_claims
        if others is None:
            others = 0 if self.stream.status().alone else OVERLAPPING_CLAIMS
        if not others:
            return NoCapacityCheck()
        read = partial(read_usage, self._placement, context=request.context)
        return OvercommitCheck(HostRoom(table, self.hosts.pending), read, others)

    def _announce_end(self, request: SchedulingRequest) -> None:
        request.write_progress()
        self.notifications.select_destinations_end(request.context, request.spec)

    # -- casts ----------------------------------------------------------------------------------------------

    def update_aggregates(self, context: Any, aggregates: Any) -> None:
        """Take over host aggregates that were made or changed."""
        self.hosts.update_aggregates(aggregates)

    def delete_aggregate(self, context: Any, aggregate: Any) -> None:
        """Remove a host aggregate."""
        self.hosts.delete_aggregate(aggregate)

    def update_instance_info(self, context: Any, host_name: str, instance_info: Any) -> None:
        """Note that a host has these instances, perhaps among others."""
        self.hosts.update_instance_info(host_name, instance_info)

    def delete_instance_info(self, context: Any, host_name: str, instance_uuid: str) -> None:
        """Note that an instance has left a host."""
        self.hosts.delete_instance_info(host_name, instance_uuid)
        self.stream.sharing.gone(instance_uuid)

    def sync_instance_info(self, context: Any, host_name: str, instance_uuids: Sequence[str]) -> None:
        """Note that a host has exactly these instances."""
        self.hosts.sync_instance_info(host_name, instance_uuids)


def keep_until_answered(context: Any, claims: ClaimSession) -> None:
    """Let the outcome of the reply decide on the claims; without a message that is answered they are kept."""
    delivery = getattr(context, "delivery", None)
    if delivery is None:
        claims.confirm()
    else:
        delivery.hold(claims)


def host_of_provider(table: HostTable, provider: str) -> str:
    """Return the service host of a compute node, or the provider's UUID if the table has no such node."""
    row = table.row_of_uuid.get(provider)
    return provider if row is None else table.rows[row].host
