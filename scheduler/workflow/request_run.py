"""A request from its queries to its reply (spec: placement-and-workflow 5.2).

``decide`` chooses its hosts. What is claimed on the way is either in the reply or released; ``recovery`` sees
to that where others may write for the same instances.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
import math

from scheduler.claims.claim_session import Check, ClaimSession
from scheduler.decisions.trace import Trace
from scheduler.errors import NoValidHost
from scheduler.hosts.table import HostTable
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.selection.server_groups import AFFINITY
from scheduler.workflow.decide import decide, with_queries
from scheduler.workflow.live_world import LiveWorld
from scheduler.workflow.recovery import Recovery


class RequestRun:
    """One request on its way to its reply; the ``Claims`` of its decisions."""

    def __init__(self, world: LiveWorld, trace: Trace) -> None:
        """Begin."""
        self._world = world
        self._steps = world.steps
        self._trace = trace
        self._queries: tuple[Query, ...] = ()
        self._announced = False
        self._recovery = Recovery(world.steps, world.driver, trace)

    def reply_to(self, request: SchedulingRequest) -> Selections:
        """Return the reply.

        Raises:
            NoValidHost: An instance would be left without a host. Nothing stays claimed then.
            CallerLeft: Nobody waits for its instances any more. Nothing stays claimed.
            DependencyUnavailable: It is not known whether there is a host. Nothing stays claimed, and the
                request may be tried once more.
        """
        choose = partial(decide, world=self._world, claims=self, trace=self._trace)
        if request.is_rebuild:
            return choose(request)
        try:
            # They are known if the request is tried once more, after an outage.
            request = with_queries(replace(request, queries=self._queries), self._world, self._trace)
            self._queries = request.queries
            return self._recovery.serve(request, choose) if request.claims else choose(request)
        except NoValidHost as error:
            error.final = error.final or self._is_bound_to_hosts(request)
            raise

    @contextmanager
    def open(
        self, table: HostTable, request: SchedulingRequest, check: Check
    ) -> Iterator[ClaimSession | None]:
        """Announce the choice of hosts, and give what claims them."""
        notifications = self._steps.notifications
        if not self._announced:
            self._announced = True
            notifications.select_destinations_start(request.context, request.spec)
        with self._recovery.claiming(table, request, check) as claims:
            yield claims
            # In the session, which releases its claims if this fails: they are not in any reply
            request.write_progress()
        notifications.select_destinations_end(request.context, request.spec)

    def _is_bound_to_hosts(self, request: SchedulingRequest) -> bool:
        """Return whether a request must join members of its affinity group on a host that is known here."""
        with self._world.turn(request) as current:
            group = current.server_group
            if group is None or AFFINITY not in (group.policy, *group.policies):
                return False
            return bool(self._steps.hosts.snapshot(math.inf).nodes_of_hosts(group.hosts))
