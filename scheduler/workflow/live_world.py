"""What decisions of a manager read: the host table, the mirror and Placement, as they are now."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from scheduler.hosts.view import HostView
from scheduler.placement.candidates import Candidates
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.driver import FilterDriver
from scheduler.workflow.decide import Offer
from scheduler.workflow.steps import Steps


@dataclass(frozen=True)
class LiveWorld:
    """A ``decide.World``. Any thread may use it."""

    steps: Steps
    driver: FilterDriver

    def queries(self, request: SchedulingRequest) -> tuple[Query, ...]:
        return self.steps.candidate_hosts.queries(request)

    def mirrored(self, request: SchedulingRequest) -> Offer | None:
        """Return the hosts of the mirror, which a claim must check: without claims it is of no use.

        ``kept_providers`` is set only after a first attempt, which used the mirror.
        """
        if not request.claims or request.kept_providers:
            return None
        steps = self.steps
        table = partial(steps.candidate_hosts.table, request)
        found = steps.mirrored_hosts.find(request.queries, table, request.cell_uuid)
        if found is None:
            return None
        hosts, answer = found
        check = steps.mirror.check(answer, request.context)
        return Offer(hosts, answer.usage, check=check, exact=False, age=steps.mirror.age())

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        return self.steps.candidate_hosts.ask_placement(request)

    def offered(self, found: Candidates, request: SchedulingRequest, *, late: bool) -> Offer:
        candidate_hosts = self.steps.candidate_hosts
        hosts, more = candidate_hosts.offered(found, request, 0.0 if late else None)
        judged = [hosts]

        def others() -> HostView | None:
            further = more()
            judged.extend([further] if further else [])
            return further

        return Offer(
            hosts,
            found.usage,
            others,
            recover=partial(candidate_hosts.recover, found, hosts, request),
            recount=lambda: candidate_hosts.recount(judged[-1], request),
        )

    def to_check(self, request: SchedulingRequest) -> HostView:
        return self.steps.candidate_hosts.to_check(request)

    def turn(self, request: SchedulingRequest) -> AbstractContextManager[SchedulingRequest]:
        return self.steps.groups.serialized(request, self.steps.hosts)

    def now(self) -> float:
        return self.steps.clock()
