"""The steps of a request, in order (spec: placement-and-workflow 5.2).

Nothing is decided here: each step is a line, and is implemented in the package that it names. What is claimed
on the way is either in the reply or released.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
import math
import time
from typing import Any, Protocol

from oslo_log import log as logging

from scheduler import objects
from scheduler.claims.claim_session import SOON, Check, ClaimSession, Overtaken, check_nothing
from scheduler.claims.held import AlreadyHeld
from scheduler.claims.spool import Kept
from scheduler.errors import AllocationUpdateFailed, DependencyUnavailable, NoValidHost, PlacementUnavailable
from scheduler.explain.trace import Trace
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.candidates import Candidates
from scheduler.placement.mirror import MirrorAnswer
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.request import query
from scheduler.request.decision_line import amounts_of
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.selection.driver import FilterDriver
from scheduler.selection.headroom import Usages, no_usages
from scheduler.selection.host_claiming import final_refusal
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.server_groups import AFFINITY, ServerGroups
from scheduler.workflow.callers import Callers
from scheduler.workflow.candidate_hosts import CandidateHosts, MoreHosts
from scheduler.workflow.claim_sessions import ClaimSessions, keep_until_answered
from scheduler.workflow.held_hosts import HeldHost, HeldHosts

LOG = logging.getLogger(__name__)

#: How often a request is begun when another run of it, or another request for its instances, was first.
ROUNDS = 4

Reply = list[Any]
"""For each instance its Selections; or, for callers that want no objects, the dict of the first of them."""

AsReply = Callable[[Selections], Reply]
"""Makes the reply of the hosts that were chosen."""


class Notifications(Protocol):
    """Where requests are announced."""

    def select_destinations_start(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that hosts are being chosen for a request."""

    def select_destinations_end(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that the hosts of a request were chosen."""

    def stop(self, timeout: float) -> None:
        """Send what still waits, in ``timeout`` seconds at most."""


@dataclass(frozen=True)
class Steps:
    """What takes the steps; shared by all requests.

    Attributes:
        hosts: What is known of the hosts.
        candidate_hosts: Finds the hosts of a request.
        held_hosts: Finds what its instances hold already.
        mirror: What is known of Placement's compute nodes.
        mirrored_hosts: Finds its hosts by the mirror.
        groups: Serves the requests of one affinity or soft-affinity group one after the other.
        claims: Opens its claim session.
        callers: Asks whether its caller still waits.
        notifications: Where it is announced.
        clock: Seconds that only grow.
    """

    hosts: Inventory
    candidate_hosts: CandidateHosts
    held_hosts: HeldHosts
    mirror: CandidateMirror
    mirrored_hosts: MirroredHosts
    groups: ServerGroups
    claims: ClaimSessions
    callers: Callers
    notifications: Notifications
    clock: Callable[[], float] = time.monotonic


class RequestRun:
    """One request on its way to its reply."""

    def __init__(self, steps: Steps, driver: FilterDriver, as_reply: AsReply, trace: Trace) -> None:
        """Begin."""
        self._steps = steps
        self._driver = driver
        self._as_reply = as_reply
        self._trace = trace
        self._queries: Sequence[query.Query] = ()
        self._past = False
        self._begun = steps.clock()
        self._sessions: list[ClaimSession] = []

    def note_earlier_runs(self, request: SchedulingRequest) -> None:
        """Let it be looked at later what earlier runs of a request have written, however this one ends."""
        if request.claims and request.was_redelivered:
            self._steps.callers.note_unknown(request, self._kept(request))

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
            return self._serve(request) if request.claims else self._schedule_anew(request)
        except NoValidHost as error:
            error.final = error.final or self._is_bound_to_hosts(request)
            raise

    def _is_bound_to_hosts(self, request: SchedulingRequest) -> bool:
        """Return whether a request must join members of its affinity group on a host that is known here."""
        with self._steps.groups.serialized(request, self._steps.hosts) as current:
            group = current.server_group
            if group is None or AFFINITY not in (group.policy, *group.policies):
                return False
            return bool(self._steps.hosts.snapshot(math.inf).nodes_of_hosts(group.hosts))

    def _serve(self, request: SchedulingRequest) -> Reply:
        """Serve a request; begin again when another run of it, or another request, was first."""
        for _ in range(ROUNDS):
            # What was decided for these instances before is void.
            self._steps.hosts.pending.remove(request.instance_uuids)
            try:
                return self._schedule(request)
            except DependencyUnavailable:
                self._past = True  # when it is tried once more
                raise
            except Overtaken:
                pass
            except NoValidHost:
                if not self._is_answered_elsewhere(request):
                    raise
            self._past, request = True, request.restarted()
        self._steps.callers.note_unknown(request, self._kept(request))
        raise AllocationUpdateFailed(request.instance_uuids[0], "other requests change it all the time")

    def _schedule(self, request: SchedulingRequest) -> Reply:
        if self._past or request.has_past:
            self._past = True
            self._steps.callers.check(request, self._kept(request))
            held = self._find_held(request)
            if 0 < len(held) < len(request.instance_uuids):
                # They are read one by one, and another run may have claimed for all meanwhile, in one write.
                held = self._find_held(request)
            if len(held) == len(request.instance_uuids):
                return self._answer_with(held, request)
            if held:
                self._steps.callers.release(held, self._kept(request), request)
        try:
            return self._schedule_anew(request)
        except AllocationUpdateFailed as error:
            if not error.held or self._find_held(request):
                raise Overtaken from error
            return self._schedule_beside(error, request)

    def _find_held(self, request: SchedulingRequest) -> Mapping[str, HeldHost]:
        """Return the host of each instance that holds one which would do."""
        try:
            held = self._steps.held_hosts.of_each(self._queries, request)
        except DependencyUnavailable:
            # What an earlier run wrote for them is not known.
            self._steps.callers.note_unknown(request, self._kept(request))
            raise
        if request.spec.ignore_hosts:
            # An earlier evacuation may have left something on a host that is down now.
            return {uuid: one for uuid, one in held.items() if self._passes(one)}
        return held

    def _passes(self, held: HeldHost) -> bool:
        try:
            self._driver.select(held.host, held.request.restarted(), AlreadyHeld())
        except NoValidHost:
            return False
        finally:
            self._steps.hosts.pending.remove(held.request.instance_uuids)
        return True

    def _is_answered_elsewhere(self, request: SchedulingRequest) -> bool:
        """Return whether another run or request may be answered with what the instances hold."""
        overtaken = any(claims.overtaken for claims in self._sessions)
        self._sessions.clear()
        return overtaken or (
            not self._past and self._steps.held_hosts.is_any_held(request, self._kept(request).providers)
        )

    def _ask_queries(self, request: SchedulingRequest) -> None:
        if not self._queries:  # they are known if the request is tried once more, after an outage
            self._queries = self._steps.candidate_hosts.queries(request)
            self._trace.asked(self._queries)
        request.counts.amounts = amounts_of(self._queries[0].params)

    def _kept(self, request: SchedulingRequest) -> Kept:
        """Return what the instances keep when their claims are released."""
        if not (request.spec.ignore_hosts or request.kept_providers):
            return Kept()
        return self._steps.claims.kept(self._steps.hosts.snapshot(math.inf), request)

    def _schedule_beside(self, error: AllocationUpdateFailed, request: SchedulingRequest) -> Reply:
        """Evacuate an instance that holds something on a further host which is of no use to the request.

        An earlier evacuation left it there: a host that is down gives its allocations back when it returns.

        Raises:
            AllocationUpdateFailed: It is no evacuation: the instance holds nothing on an ignored host.
        """
        candidate_hosts = self._steps.candidate_hosts
        ignored = candidate_hosts.ignored_nodes(candidate_hosts.table_with(error.held, request), request)
        if not ignored & error.held:
            raise error
        LOG.info(
            "Instance %s keeps its allocations on hosts that it cannot be evacuated to: %s",
            error.consumer_uuid,
            ", ".join(sorted(error.held - ignored)),
        )
        return self._schedule_by_query(replace(request.restarted(), kept_providers=error.held), again=True)

    def _schedule_anew(self, request: SchedulingRequest) -> Reply:
        table = partial(self._steps.candidate_hosts.table, request)
        # Hosts of the mirror are checked when they are claimed.
        find = self._steps.mirrored_hosts.find
        mirrored = find(self._queries, table, request.cell_uuid) if request.claims else None
        if mirrored is None:
            return self._schedule_by_query(request)
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
        with self._open(hosts.table, request, check) as claims:
            reply = self._as_reply(self._driver.select(hosts, request, claims, more, usages, self._trace))
            self._secure(claims, request)
        keep_until_answered(request, claims)
        return reply

    def _answer_with(self, held: Mapping[str, HeldHost], request: SchedulingRequest) -> Reply:
        """Answer a request with the hosts that its instances hold already, without alternates.

        An earlier run of it, or another request for the same instances, may have been answered with them; so
        they are not filtered again.
        """
        LOG.info(
            "Answering a request with the hosts that its instances already hold: %s", request.instance_uuids
        )
        each = [held[uuid] for uuid in request.instance_uuids]
        with self._open(each[0].host.table, request) as claims:
            self._trace.held(len(each))
            if claims is not None:
                claims.hold({uuid: one.held for uuid, one in held.items()})
            driver, chosen = self._driver.without_rules(), AlreadyHeld()
            selections = [
                row for one in each for row in driver.select(one.host, one.request.restarted(), chosen)
            ]
            self._trace.selected(selections)
            reply = self._as_reply(selections)
            self._secure(claims, request)
        keep_until_answered(request, claims)
        return reply

    @contextmanager
    def _open(
        self, table: HostTable, request: SchedulingRequest, check: Check = check_nothing
    ) -> Iterator[ClaimSession | None]:
        with self._steps.claims.open(table, request, check) as claims:
            self._trace.claiming(claims)
            if claims is not None:
                self._sessions.append(claims)
            yield claims

    def _secure(self, claims: ClaimSession | None, request: SchedulingRequest) -> None:
        """Make sure that the caller still waits, and that nobody can release its claims.

        Another run of the request may have read some before all were there. And what was released and claimed
        again may have the generation that a late try of the release expects: it begins again with a consumer.

        Raises:
            CallerLeft: It does not.
            Overtaken: Another run was first.
            NoValidHost: Placement refuses it.
            PlacementUnavailable: Placement does not tell.
        """
        if claims is None:
            return
        past = self._past or request.has_past
        if past or claims.took_several_writes or any(each.released for each in self._sessions):
            for uuid, result in claims.fence().items():
                if not result.claimed:
                    raise final_refusal(uuid, result)
        # After the fence, which may take long.
        if past or self._steps.clock() > min(self._begun, request.received_at) + SOON:
            self._steps.callers.check(request, claims.nodes.kept)

    def _check_rebuild(self, request: SchedulingRequest) -> Reply:
        self._announce_start(request)
        hosts = self._steps.candidate_hosts.to_check(request)
        self._trace.looked_up(hosts)
        reply = self._as_reply(self._driver.select(hosts, request, None, observer=self._trace))
        self._announce_end(request)
        return reply

    def _announce_start(self, request: SchedulingRequest) -> None:
        self._steps.notifications.select_destinations_start(request.context, request.spec)

    def _announce_end(self, request: SchedulingRequest) -> None:
        request.write_progress()
        self._steps.notifications.select_destinations_end(request.context, request.spec)
