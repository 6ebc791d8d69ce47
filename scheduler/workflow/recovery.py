"""What a request needs as others may write for its instances: earlier runs of it, and other requests.

No process owns a message: any process that the broker gives a call may run it, and Placement's generations
decide which run wins (``doc/source/outages.rst``). A call with a past first finds out whether a caller waits,
and what its instances hold. Before a reply that another run could contradict, the claims are fenced.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from oslo_log import log as logging

from scheduler.claims.claim_session import Check, ClaimSession, Overtaken, check_nothing
from scheduler.claims.held import AlreadyHeld
from scheduler.claims.held_claims import SOON
from scheduler.decisions.trace import Trace
from scheduler.errors import AllocationUpdateFailed, DependencyUnavailable, NoValidHost
from scheduler.hosts.table import HostTable
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.selection.driver import FilterDriver
from scheduler.selection.host_claiming import final_refusal
from scheduler.workflow.claiming import keep_until_answered
from scheduler.workflow.held_hosts import HeldHost
from scheduler.workflow.steps import Steps

LOG = logging.getLogger(f"nova.{__name__}")

#: How often a request is begun when another writer was first. Two runs of a call need two rounds: the one
#: that lost reads what the other one holds. After four, writers go on changing it, and no reply would hold.
ROUNDS = 4

Schedule = Callable[[SchedulingRequest], Selections]
"""Chooses and claims hosts for all instances of a request."""


class Recovery:
    """One request, among others that may write for its instances."""

    def __init__(self, steps: Steps, driver: FilterDriver, trace: Trace) -> None:
        """Begin with a request that has no past, unless its message says otherwise."""
        self._steps = steps
        self._driver = driver
        self._trace = trace
        self._past = False
        self._begun = steps.clock()
        self._sessions: list[ClaimSession] = []

    def serve(self, request: SchedulingRequest, schedule: Schedule) -> Selections:
        """Reply with what its instances hold, or schedule them; begin again when another writer was first."""
        for _ in range(ROUNDS):
            # What was decided for these instances before is void.
            self._steps.hosts.pending.remove(request.instance_uuids)
            try:
                return self._run(request, schedule)
            except DependencyUnavailable:
                self._past = True  # when it is tried once more
                raise
            except Overtaken:
                pass
            except NoValidHost:
                if not self._is_answered_elsewhere(request):
                    raise
            self._past, request = True, request.restarted()
        self._steps.callers.note_unknown(request)
        raise AllocationUpdateFailed(request.instance_uuids[0], "other requests change it all the time")

    def _run(self, request: SchedulingRequest, schedule: Schedule) -> Selections:
        if self._past or request.has_past:
            self._past, self._trace.step = True, "held"
            # Nova is read first: a backlog whose callers have left costs no query to Placement.
            self._steps.callers.check(request)
            held = self._find_held(request)
            if 0 < len(held) < len(request.instance_uuids):
                # They are read one by one, and another run may claim and fence them meanwhile. If it fenced
                # before the first reading, the second one finds all; if later, what is released by the
                # generations of the first one is not released.
                again = self._find_held(request)
                held = again if len(again) == len(request.instance_uuids) else held
            if len(held) == len(request.instance_uuids):
                return self._answer_with(held, request)
            if held:
                self._steps.callers.release(held, request)
        try:
            return schedule(request)
        except AllocationUpdateFailed as error:
            if not error.held or self._find_held(request):
                raise Overtaken from error
            if further := self._on_further_hosts(error, request):
                return schedule(replace(request.restarted(), kept_providers=further))
            # Two runs at the same time can release everything, as each met the claims of the other one.
            if self._steps.held_hosts.is_any_held(request) and not self._find_held(request):
                raise
            raise Overtaken from error

    def _find_held(self, request: SchedulingRequest) -> Mapping[str, HeldHost]:
        """Return the host of each instance that holds one which would do."""
        try:
            held = self._steps.held_hosts.of_each(request)
        except DependencyUnavailable:
            # What an earlier run wrote for them is not known.
            self._steps.callers.note_unknown(request)
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
        overtaken = any(claims.held.overtaken for claims in self._sessions)
        self._sessions.clear()
        return overtaken or (not self._past and self._steps.held_hosts.is_any_held(request))

    def _on_further_hosts(self, error: AllocationUpdateFailed, request: SchedulingRequest) -> frozenset[str]:
        """Return what an evacuated instance holds, also on further hosts; nothing for another request.

        An earlier evacuation left that there: a host that is down releases its allocations when it returns.
        """
        candidate_hosts = self._steps.candidate_hosts
        ignored = candidate_hosts.ignored_nodes(candidate_hosts.table_with(error.held, request), request)
        if not ignored & error.held:
            return frozenset()
        LOG.info(
            "Instance %s keeps its allocations on hosts that it cannot be evacuated to: %s",
            error.consumer_uuid,
            ", ".join(sorted(error.held - ignored)),
        )
        return error.held

    def _answer_with(self, held: Mapping[str, HeldHost], request: SchedulingRequest) -> Selections:
        """Answer a request with the hosts that its instances hold already, without alternates.

        An earlier run of it, or another request for the same instances, may have been answered with them; so
        they are not filtered again.
        """
        LOG.info(
            "Answering a request with the hosts that its instances already hold: %s", request.instance_uuids
        )
        each = [held[uuid] for uuid in request.instance_uuids]
        with self.claiming(each[0].host.table, request) as claims:
            self._trace.held(len(each))
            if claims is not None:
                claims.held.hold({uuid: one.held for uuid, one in held.items()})
            driver, chosen = self._driver.without_rules(), AlreadyHeld()
            selections = [
                row for one in each for row in driver.select(one.host, one.request.restarted(), chosen)
            ]
            self._trace.selected(selections)
            return selections

    @contextmanager
    def claiming(
        self, table: HostTable, request: SchedulingRequest, check: Check = check_nothing
    ) -> Iterator[ClaimSession | None]:
        """Open what claims for a request, and secure its claims at the end; None if it claims nothing."""
        with self._steps.claims.open(table, request, check) as claims:
            self._trace.claiming(claims)
            if claims is not None:
                self._sessions.append(claims)
            yield claims
            if claims is not None:
                self._secure(claims, request)
        keep_until_answered(request, claims)

    def _secure(self, claims: ClaimSession, request: SchedulingRequest) -> None:
        """Make sure that the caller still waits, and that nobody can release its claims.

        Another run of the request may have read some before all were there. And what was released and claimed
        again may have the generation that a late try of the release expects: it begins again with a consumer.

        Raises:
            CallerLeft: It does not.
            Overtaken: Another run was first.
            NoValidHost: Placement refuses it.
            PlacementUnavailable: Placement gives no answer.
        """
        past = self._past or request.has_past
        if past or claims.took_several_writes or any(each.held.released for each in self._sessions):
            for uuid, result in claims.fence().items():
                if not result.claimed:
                    raise final_refusal(uuid, result)
        # After the fence, which may take long.
        if past or self._steps.clock() > min(self._begun, request.received_at) + SOON:
            self._steps.callers.check(request)
