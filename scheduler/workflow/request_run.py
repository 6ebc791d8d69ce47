"""A request from its queries to its reply (spec: placement-and-workflow 5.2).

``decide`` chooses its hosts. What is claimed on the way is either in the reply or released. Others may write
for the same instances: earlier runs of the request, and other requests. No process owns a message: any
process that the broker gives a call may run it, and Placement's generations decide which run wins
(``doc/source/outages.rst``). A call with a past first finds out whether a caller waits, and what its
instances hold (``recovery``). Before a reply that another run could contradict, the claims are fenced.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
import math

from scheduler.claims.claim_session import Check, ClaimSession, check_nothing
from scheduler.decisions.trace import Trace
from scheduler.errors import AgainstGroupPolicy, AllocationUpdateFailed, DependencyUnavailable, NoValidHost
from scheduler.hosts.table import HostTable
from scheduler.request.past import SOON
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.selection.host_claiming import final_refusal
from scheduler.selection.server_groups import AFFINITY
from scheduler.workflow.claiming import keep_until_answered
from scheduler.workflow.decide import decide, with_queries
from scheduler.workflow.live_world import LiveWorld
from scheduler.workflow.recovery import Recovery

#: How often a request is begun when another writer was first. Two runs of a call need two attempts: the one
#: that lost reads what the other one holds. After four, writers go on changing it, and no reply would hold.
ATTEMPTS = 4


class RequestRun:
    """One request on its way to its reply; the ``Claims`` of its decisions."""

    def __init__(self, world: LiveWorld, trace: Trace) -> None:
        """Begin with a request that has no past, unless its message says otherwise."""
        self._world = world
        self._steps = world.steps
        self._trace = trace
        self._queries: tuple[Query, ...] = ()
        self._announced = False
        self._past = False
        self._begun = world.steps.clock()
        self._sessions: list[ClaimSession] = []
        self._decided: SchedulingRequest | None = None
        self._joins: Sequence[str] = ()

    def reply_to(self, request: SchedulingRequest) -> Selections:
        """Return the reply.

        Raises:
            NoValidHost: An instance would be left without a host. Nothing stays claimed then.
            CallerLeft: Nobody waits for its instances any more. Nothing stays claimed.
            DependencyUnavailable: It is not known whether there is a host. Nothing stays claimed, and the
                request may be tried once more.
        """
        if request is not self._trace.request:
            self._trace.mark("outage")  # for which it has waited
        if request.is_rebuild:
            return self._without_claims(request)
        try:
            # They are known if the request is tried once more, after an outage.
            request = with_queries(replace(request, queries=self._queries), self._world, self._trace)
            self._queries = request.queries
            return self._with_claims(request) if request.claims else self._without_claims(request)
        except NoValidHost as error:
            error.final = error.final or self._is_bound_to_hosts(request)
            raise

    @contextmanager
    def open(
        self, table: HostTable, request: SchedulingRequest, check: Check
    ) -> Iterator[ClaimSession | None]:
        """Announce the choice of hosts, and give what claims them."""
        if not self._announced:
            self._announced = True
            self._steps.notifications.select_destinations_start(request.context, request.spec)
        with self._claiming(table, request, check) as claims:
            yield claims
        self._decided = request

    @contextmanager
    def _claiming(
        self, table: HostTable, request: SchedulingRequest, check: Check = check_nothing
    ) -> Iterator[ClaimSession | None]:
        with self._steps.claims.open(table, request, check) as claims:
            self._trace.claiming(claims)
            if claims is not None:
                self._sessions.append(claims)
            yield claims

    def _without_claims(self, request: SchedulingRequest) -> Selections:
        reply = decide(request, self._world, self, self._trace)
        if self._decided is not None:
            self._decided.write_progress()
        self._announce_end()
        return reply

    def _with_claims(self, request: SchedulingRequest) -> Selections:
        """Return the reply; begin again when another writer was first."""
        for _ in range(ATTEMPTS):
            # What was decided for these instances before is void.
            self._steps.hosts.pending.remove(request.instance_uuids)
            try:
                if (reply := self._attempt(request)) is not None:
                    return reply
            except DependencyUnavailable:
                self._past = True  # when it is tried once more
                raise
            except AgainstGroupPolicy as error:
                self._joins = error.hosts
            except NoValidHost:
                if not self._is_answered_elsewhere(request):
                    raise
            self._past, request = True, self._joining(request.restarted())
        self._steps.callers.note_unknown(request)
        raise AllocationUpdateFailed(request.instance_uuids[0], "other requests change it all the time")

    def _attempt(self, request: SchedulingRequest) -> Selections | None:
        """Return the reply; None if another run or request was first."""
        if self._past or request.past:
            self._past, self._trace.step = True, "held"
            if (reply := self._answer_with_held(request)) is not None:
                return reply if self._secure(request) else None
        try:
            reply = decide(request, self._world, self, self._trace)
        except AllocationUpdateFailed as error:
            further = self._recovery().on_further_hosts(error, request)
            if not further:
                return None
            further_request = replace(request.restarted(), kept_providers=further)
            reply = decide(further_request, self._world, self, self._trace)
        if not self._secure(request, self._decided):
            return None
        self._announce_end()
        return reply

    def _joining(self, request: SchedulingRequest) -> SchedulingRequest:
        """Return the request with the hosts of its affinity group that no table has, if a claim met some."""
        group = request.server_group
        return request.with_group(group.members, self._joins) if group and self._joins else request

    def _recovery(self) -> Recovery:
        return Recovery(self._steps, self._world.driver)

    def _answer_with_held(self, request: SchedulingRequest) -> Selections | None:
        """Return the hosts that the instances hold already; None unless each holds one."""
        recovery = self._recovery()
        held = recovery.find(request)
        if not held:
            return None
        with self._claiming(held[request.instance_uuids[0]].host.table, request) as claims:
            self._trace.held(len(held))
            if claims is not None:
                claims.adopt({uuid: one.held for uuid, one in held.items()})
            selections = recovery.selections(held, request)
            self._trace.selected(selections)
            return selections

    def _secure(self, request: SchedulingRequest, decided: SchedulingRequest | None = None) -> bool:
        """Make sure that the caller still waits, and that nobody can release the claims of the reply.

        Another run of the request may have read some before all were there. And what was released and claimed
        again may have the generation that a late try of the release expects: it begins again with a consumer.

        Args:
            decided: The request whose progress is written into its spec; None for hosts that were held.

        Returns:
            Whether no other run was first, and Placement does not refuse what it had granted.

        Raises:
            CallerLeft: The caller does not wait.
            NoValidHost: Placement refuses what an instance keeps, or the deadline has passed.
            PlacementUnavailable: Placement gives no answer.
        """
        claims = self._sessions[-1]
        past = self._past or bool(request.past)
        fenced = past or claims.took_several_writes or any(each.released for each in self._sessions)
        try:
            if fenced:
                results = claims.fence()
                if results is None:
                    return False
                for uuid, result in results.items():
                    if not result.claimed:
                        raise final_refusal(uuid, result)
            # After the fence, which may take long. And as it was decided: it may keep more than ``request``.
            slow = self._steps.clock() > min(self._begun, request.received_at) + SOON
            self._steps.callers.check(decided or request, ask_nova=past or slow)
            if decided is not None:
                decided.write_progress()
        except BaseException as error:
            claims.release()
            if decided is not None and isinstance(error, NoValidHost) and not error.final:
                return False  # of a host that has less than before; another one may do
            raise
        claims.close()
        keep_until_answered(request, claims)
        return True

    def _announce_end(self) -> None:
        if self._decided is not None:
            context, spec = self._decided.context, self._decided.spec
            self._steps.notifications.select_destinations_end(context, spec)

    def _is_answered_elsewhere(self, request: SchedulingRequest) -> bool:
        """Return whether another run or request may be answered with what the instances hold."""
        overtaken = any(claims.overtaken for claims in self._sessions)
        self._sessions.clear()
        return overtaken or (not self._past and self._steps.held_hosts.is_any_held(request))

    def _is_bound_to_hosts(self, request: SchedulingRequest) -> bool:
        """Return whether a request must join members of its affinity group on a host that is known here.

        Only a router of partitions wants to know.
        """
        if request.server_group is None or not self._steps.hosts.partition.name:
            return False
        with self._world.turn(request) as current:
            group = current.server_group
            if group is None or AFFINITY not in (group.policy, *group.policies):
                return False
            return bool(self._steps.hosts.snapshot(math.inf).nodes_of_hosts(group.hosts))
