"""The steps of a request, in order (spec: placement-and-workflow 5.2).

Nothing is decided here: each step is a line, and is implemented in the package that it names. What is claimed
on the way is either in the reply or released; ``recovery`` sees to that where others may write for the same
instances.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
import math

from oslo_log import log as logging

from scheduler.claims.claim_session import Check, check_nothing
from scheduler.decisions.trace import Trace
from scheduler.errors import NoValidHost, PlacementUnavailable
from scheduler.hosts.view import HostView
from scheduler.placement.candidates import Candidates
from scheduler.placement.mirror import MirrorAnswer
from scheduler.request import query
from scheduler.request.decision_line import amounts_of
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.driver import FilterDriver
from scheduler.selection.headroom import Usages, no_usages
from scheduler.selection.server_groups import AFFINITY
from scheduler.workflow.candidate_hosts import MoreHosts
from scheduler.workflow.recovery import Recovery
from scheduler.workflow.steps import AsReply, Reply, Steps

LOG = logging.getLogger(__name__)


class RequestRun:
    """One request on its way to its reply."""

    def __init__(self, steps: Steps, driver: FilterDriver, as_reply: AsReply, trace: Trace) -> None:
        """Begin."""
        self._steps = steps
        self._driver = driver
        self._as_reply = as_reply
        self._trace = trace
        self._queries: Sequence[query.Query] = ()
        self._recovery = Recovery(steps, driver, as_reply, trace)

    def reply_to(self, request: SchedulingRequest) -> Reply:
        """Return the reply.

        Raises:
            NoValidHost: An instance would be left without a host. Nothing stays claimed then.
            CallerLeft: Nobody waits for its instances any more. Nothing stays claimed.
            DependencyUnavailable: It is not known whether there is a host. Nothing stays claimed, and the
                request may be tried once more.
        """
        if request.is_rebuild:
            return self._check_rebuild(request)
        try:
            self._ask_queries(request)
            if request.claims:
                return self._recovery.serve(request, self._queries, self._schedule)
            return self._schedule(request)
        except NoValidHost as error:
            error.final = error.final or self._is_bound_to_hosts(request)
            raise

    def _ask_queries(self, request: SchedulingRequest) -> None:
        if not self._queries:  # they are known if the request is tried once more, after an outage
            self._queries = self._steps.candidate_hosts.queries(request)
            self._trace.asked(self._queries)
        request.counts.amounts = amounts_of(self._queries[0].params)

    def _schedule(self, request: SchedulingRequest) -> Reply:
        # Hosts of the mirror are checked when they are claimed, so it is of no use without claims. A request
        # that keeps what it holds on further hosts has tried the mirror's before.
        table, again = partial(self._steps.candidate_hosts.table, request), bool(request.kept_providers)
        mirrored = None
        if request.claims and not again:
            mirrored = self._steps.mirrored_hosts.find(self._queries, table, request.cell_uuid)
        if mirrored is None:
            return self._schedule_by_query(request, again=again)
        self._trace.mirrored(len(mirrored[0]), self._steps.mirror.age())
        try:
            return self._schedule_by_mirror(*mirrored, request)
        except (NoValidHost, PlacementUnavailable) as error:
            LOG.info("No host of the mirror is left (%s); querying Placement", error)
        second = replace(request.restarted(), arrived_at=self._steps.clock())
        return self._schedule_by_query(second, again=True)

    def _schedule_by_mirror(self, hosts: HostView, answer: MirrorAnswer, request: SchedulingRequest) -> Reply:
        self._announce_start(request)
        with self._steps.groups.serialized(request, self._steps.hosts) as current:
            check = self._steps.mirror.check(answer.query, request.context)
            reply = self._choose(hosts, current, usages=answer.usage, check=check)
        self._announce_end(current)
        return reply

    def _schedule_by_query(self, request: SchedulingRequest, *, again: bool = False) -> Reply:
        candidates = self._steps.candidate_hosts.ask_placement(self._queries, request, self._trace)
        if not again:
            self._announce_start(request)
        with self._steps.groups.serialized(request, self._steps.hosts) as current:
            return self._choose_offered(candidates, current, 0.0 if again else None)

    def _choose_offered(
        self, candidates: Candidates, request: SchedulingRequest, max_age: float | None
    ) -> Reply:
        """Choose among the hosts that Placement offers; once more if cells come back that were left out."""
        hosts, more = self._steps.candidate_hosts.offered(self._queries, candidates, request, max_age)
        self._trace.mark("table")
        try:
            reply = self._choose(hosts, request, more, candidates.usage)
        except NoValidHost:
            if not self._steps.candidate_hosts.recover(candidates, hosts, request):
                raise
        else:
            self._announce_end(request)
            return reply
        return self._choose_offered(candidates, request.restarted(), max_age)

    def _choose(
        self,
        hosts: HostView,
        request: SchedulingRequest,
        more: MoreHosts = lambda: None,
        usages: Usages = no_usages,
        check: Check = check_nothing,
    ) -> Reply:
        # The reply is part of the session: if it cannot be made, the claims are released.
        with self._recovery.claiming(hosts.table, request, check) as claims:
            return self._as_reply(self._driver.select(hosts, request, claims, more, usages, self._trace))

    def _check_rebuild(self, request: SchedulingRequest) -> Reply:
        self._announce_start(request)
        hosts = self._steps.candidate_hosts.to_check(request)
        self._trace.looked_up(hosts)
        reply = self._as_reply(self._driver.select(hosts, request, None, observer=self._trace))
        self._announce_end(request)
        return reply

    def _is_bound_to_hosts(self, request: SchedulingRequest) -> bool:
        """Return whether a request must join members of its affinity group on a host that is known here."""
        with self._steps.groups.serialized(request, self._steps.hosts) as current:
            group = current.server_group
            if group is None or AFFINITY not in (group.policy, *group.policies):
                return False
            return bool(self._steps.hosts.snapshot(math.inf).nodes_of_hosts(group.hosts))

    def _announce_start(self, request: SchedulingRequest) -> None:
        self._steps.notifications.select_destinations_start(request.context, request.spec)

    def _announce_end(self, request: SchedulingRequest) -> None:
        request.write_progress()
        self._steps.notifications.select_destinations_end(request.context, request.spec)
