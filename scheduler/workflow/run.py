"""A request from its queries to its reply (spec: placement-and-workflow 5.2).

``decide`` chooses its hosts. What is claimed on the way is either in the reply or released. Others may write
for the same instances: earlier runs of the request, and other requests. No process owns a message: any
process that the broker gives a call may run it, and Placement's generations decide which run wins
(``doc/source/outages.rst``). A call with a past first finds out whether a caller waits, and what its
instances hold (``past``). Before a reply that another run could contradict, the claims are fenced.
"""

from dataclasses import replace
import math

from scheduler.claims.session import Session
from scheduler.decisions.trace import Trace
from scheduler.errors import AgainstGroupPolicy, AllocationUpdateFailed, NoValidHost
from scheduler.placement.outcomes import Outcome
from scheduler.request.past import SOON
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.selection.host_claiming import final_refusal
from scheduler.workflow.decide import Decided, decide, with_queries
from scheduler.workflow.past import Recovery
from scheduler.workflow.world import LiveWorld

#: How often a request is begun when another writer was first. Two runs of a call need two attempts: the one
#: that lost reads what the other one holds. After four, writers go on changing it, and no reply would hold.
ATTEMPTS = 4


class RequestRun:
    """One request on its way to its reply."""

    def __init__(self, world: LiveWorld, trace: Trace) -> None:
        """Begin; what earlier runs have written is looked at later, however this one ends."""
        self._world = world
        self._trace = trace
        self._recovery = Recovery(world)
        self._latest: SchedulingRequest | None = None  # as it is to be tried next, with what it found out
        self._announced = False
        self._recovery.note_earlier_runs(trace.request)

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
            # Queries are known if the request is tried once more, after an outage.
            request = self._latest = with_queries(self._latest or request, self._world, self._trace)
            return self._with_claims(request) if request.claims else self._without_claims(request)
        except NoValidHost as error:
            error.final = error.final or self._is_bound_to_hosts(request)
            raise

    def _with_claims(self, request: SchedulingRequest) -> Selections:
        """Return the reply; begin again when another writer was first."""
        for _ in range(ATTEMPTS):
            # What was decided for these instances before is void.
            self._world.hosts.pending.remove(request.instance_uuids)
            again = self._latest = replace(request.restarted(), was_begun=True)
            try:
                decided = self._held(request) or decide(request, self._world, self._begin, self._trace)
                if self._secure(decided):
                    return decided.selections if decided.held else self._announce(decided)
            except AgainstGroupPolicy as error:
                if again.server_group and error.hosts:
                    again = again.with_group(again.server_group.members, error.hosts)
            except AllocationUpdateFailed as error:
                further = self._recovery.further_hosts(error, request)
                again = replace(again, kept_providers=again.kept_providers | further)
            except NoValidHost:
                if request.past or not self._recovery.is_any_held(request):
                    raise
            request = again
        self._recovery.note_unknown(request)
        raise AllocationUpdateFailed(request.instance_uuids[0], "other requests change it all the time")

    def _without_claims(self, request: SchedulingRequest) -> Selections:
        decided = decide(request, self._world, self._begin, self._trace)
        decided.request.write_progress()
        return self._announce(decided)

    def _begin(self, request: SchedulingRequest) -> Session:
        """Announce that hosts are being chosen, once, and return what claims them."""
        if not self._announced:
            self._announced = True
            self._world.notifications.select_destinations_start(request.context, request.spec)
        return self._session(request)

    def _announce(self, decided: Decided) -> Selections:
        request = decided.request
        self._world.notifications.select_destinations_end(request.context, request.spec)
        return decided.selections

    def _session(self, request: SchedulingRequest) -> Session:
        session = self._world.session(request)
        if request.claims:
            self._trace.claiming(session)
        return session

    def _held(self, request: SchedulingRequest) -> Decided | None:
        """Return the hosts that the instances of a request with a past hold; None unless each holds one."""
        if not request.past:
            return None
        self._trace.step = "held"
        held = self._recovery.find(request)
        if not held:
            return None
        session = self._session(request)
        session.begin(held[request.instance_uuids[0]].host.table, request)
        with session:
            self._trace.found("held", len(held))
            session.adopt({uuid: one.held for uuid, one in held.items()})
            selections = self._recovery.selections(held, request)
            self._trace.selected(selections)
        return Decided(selections, request, session, held=True)

    # -- before the reply ------------------------------------------------------------------------------------

    def _secure(self, decided: Decided) -> bool:
        """Make sure that the caller still waits, and that nobody can release the claims of the reply.

        Returns:
            Whether no other run was first, and Placement does not refuse what it had granted.

        Raises:
            CallerLeft: The caller does not wait.
            NoValidHost: Placement refuses what an instance keeps, or the deadline has passed.
            PlacementUnavailable: Placement gives no answer.
        """
        session, request = decided.session, decided.request
        try:
            if not self._fence(decided):
                return False
            # After the fence, which may take long.
            slow = self._world.clock() > request.received_at + SOON
            self._recovery.check_caller(request, ask_nova=bool(request.past) or slow)
            if not decided.held:
                request.write_progress()
        except BaseException:
            session.release()
            raise
        session.close()
        if request.call is None:
            session.keep()
        else:
            request.call.hold(session)  # the outcome of the reply decides
        return True

    def _fence(self, decided: Decided) -> bool:
        """Fence the claims if others may release them; return whether they hold.

        Another run of the request may have read some before all were there. And what was released and claimed
        again may have the generation that a late try of the release expects: it begins again with a consumer.
        """
        session = decided.session
        if not (decided.request.past or session.took_several_writes or session.released):
            return True
        for uuid, refused in session.fence().items():
            if refused.outcome is Outcome.CHANGED:
                return False
            error = final_refusal(uuid, refused)
            if decided.held or not isinstance(error, NoValidHost) or error.final:
                raise error
            session.release()  # of a host that has less than before; another one may do
            return False
        return True

    def _is_bound_to_hosts(self, request: SchedulingRequest) -> bool:
        """Return whether a request must join members of its affinity group on a host that is known here.

        Only a router of partitions wants to know.
        """
        if request.server_group is None or not self._world.hosts.partition.name:
            return False
        with self._world.turn(request) as current:
            group = current.server_group
            if group is None or not group.is_affinity:
                return False
            return bool(self._world.hosts.snapshot(math.inf).nodes_of_hosts(group.hosts))
