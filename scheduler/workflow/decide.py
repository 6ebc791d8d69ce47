"""One decision: the hosts of all instances of a request, and their alternates.

    pre-filters -> queries -> hosts of the mirror -> turn in the server group
                                                       -> narrow -> filter -> weigh -> claim -> alternates
    and if no host is left: Placement's answer -> the same again

This is the only place where a decision is composed. Its callers differ in two things, the ``World`` that it
reads and what claims the hosts, which it returns with the choice:

    caller                       world                             claims
    manager (``run``)            as it is now (``world``)          in Placement, secured before the reply
    shadow                       as it is now (``world``)          none: each is granted
    berth-plan                   a snapshot (``planned_cloud``)    none: the plan charges them later

What happens on the way is noted in the ``Trace``, which becomes the document of the decision.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from oslo_log import log as logging

from scheduler.claims.claims import Winners, all_win
from scheduler.claims.session import Session
from scheduler.decisions.trace import Trace
from scheduler.errors import AllocationUpdateFailed, NoValidHost, PlacementUnavailable
from scheduler.hosts.view import HostView
from scheduler.placement.answer import Candidates
from scheduler.request.query import Query, without_limit
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection import host_claiming
from scheduler.selection.alternates import Selections
from scheduler.selection.driver import FilterDriver
from scheduler.selection.headroom import Usages, no_usages

LOG = logging.getLogger(f"nova.{__name__}")


@dataclass(frozen=True)
class Offer:
    """Hosts that a request may have, before any rule.

    Attributes:
        usages: What is used of their providers.
        is_cut: Whether the limit of the query may hide further hosts.
        winners: Checks the chosen hosts before they are claimed.
        recover: Returns whether other hosts are known now, so that the same answer offers others.
        recount: Returns whether hosts have more now, as what was pending on them came to nothing.
        exact: Whether no host is missing. If not, Placement is queried before a request fails.
        age: How old the answer is, in seconds.
    """

    hosts: HostView
    usages: Usages = no_usages
    is_cut: bool = False
    winners: Winners = all_win
    recover: Callable[[], bool] = lambda: False
    recount: Callable[[], bool] = lambda: False
    exact: bool = True
    age: float = 0.0


class World(Protocol):
    """What a decision reads.

    Attributes:
        driver: Narrows, filters and weighs hosts, and chooses among them.
    """

    @property
    def driver(self) -> FilterDriver: ...

    def queries(self, request: SchedulingRequest) -> tuple[Query, ...]:
        """Run the pre-filters, which change the request, and return the queries for Placement.

        Raises:
            NoValidHost: A pre-filter refuses the request.
            PlacementUnavailable: A pre-filter needs Placement.
        """

    def mirrored(self, request: SchedulingRequest) -> Offer | None:
        """Return the hosts by the mirror of Placement; None if it cannot answer the queries."""

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        """Return Placement's answer to the queries."""

    def offered(self, found: Candidates, request: SchedulingRequest, *, late: bool) -> Offer:
        """Return the hosts of an answer.

        Args:
            late: Whether the mirror had no host, so that hosts must be as they are now.
        """

    def to_check(self, request: SchedulingRequest) -> HostView:
        """Return the hosts that a rebuild check forces."""

    def turn(self, request: SchedulingRequest) -> AbstractContextManager[SchedulingRequest]:
        """Wait for the turn of the request in its server group; give it with the group as it is then."""

    def now(self) -> float:
        """Return the time, in seconds of the arrival of requests."""


class Decided(NamedTuple):
    """What was decided.

    Attributes:
        selections: For each instance the chosen host, then its alternates.
        request: The request, with its progress.
        session: What has claimed the hosts.
        held: Whether the instances held them already.
    """

    selections: Selections
    request: SchedulingRequest
    session: Session
    held: bool = False


Begin = Callable[[SchedulingRequest], Session]
"""Returns what claims the hosts of a request. It is called once, when hosts are about to be chosen."""


def decide(request: SchedulingRequest, world: World, begin: Begin, trace: Trace) -> Decided:
    """Choose hosts, and claim them; after an error nothing stays claimed.

    Raises:
        NoValidHost: An instance would be left without a host.
        DependencyUnavailable: It is not known whether there is a host.
        AllocationUpdateFailed: Another run or request was first.
        BerthError: What the claims raise.
    """
    if request.is_rebuild:
        forced = world.to_check(request)
        trace.found("table", len(forced))
        return _choose(Offer(forced), request, world, begin(request), trace)
    request, session = with_queries(request, world, trace), None
    trace.step = "mirror"
    mirrored = world.mirrored(request)
    late = mirrored is not None or bool(request.kept_providers)
    if mirrored is not None:
        trace.found("mirror", len(mirrored.hosts), mirrored.age)
        try:
            if not (len(mirrored.hosts) or mirrored.exact):
                raise NoValidHost(host_claiming.NOT_ENOUGH)
            session = begin(request)
            return _choose(mirrored, request, world, session, trace)
        except (NoValidHost, PlacementUnavailable) as error:
            # Each host needs what a provider that all of them share has refused: further hosts do not help
            if mirrored.exact or (isinstance(error, NoValidHost) and error.final):
                raise
            LOG.info("No host of the mirror is left (%s); querying Placement", error)
        request = replace(request.restarted(), arrived_at=world.now())
    return _by_placement(request, world, session, begin, trace, late=late)


def _by_placement(
    request: SchedulingRequest,
    world: World,
    session: Session | None,
    begin: Begin,
    trace: Trace,
    *,
    late: bool,
) -> Decided:
    found = candidates(request, world, trace)
    recounted = False
    while True:
        trace.step = "table"
        offer = world.offered(found, request, late=late)
        trace.mark("table")
        session = session or begin(request)
        try:
            return _choose(offer, request.restarted(), world, session, trace)
        except NoValidHost as error:
            if offer.is_cut and not error.final:
                LOG.info("No host of Placement's limited answer is left; querying Placement without a limit")
                request = replace(request, queries=tuple(map(without_limit, request.queries)))
                found = candidates(request, world, trace)
            elif not offer.recover():
                if recounted or not offer.recount():
                    raise
                recounted = True


@contextmanager
def offered(
    request: SchedulingRequest, world: World, trace: Trace
) -> Iterator[tuple[Offer, SchedulingRequest]]:
    """Give the hosts that a request may have, and the request as it is decided: a decision without a choice.

    Raises:
        NoValidHost: There are none, or a pre-filter refuses the request.
        DependencyUnavailable: They are not known.
    """
    request = with_queries(request, world, trace)
    offer = world.mirrored(request)
    if offer is not None:
        with world.turn(request) as current:
            yield offer, current
        return
    found = candidates(request, world, trace)
    with world.turn(request) as current:
        yield world.offered(found, current, late=False), current


def with_queries(request: SchedulingRequest, world: World, trace: Trace) -> SchedulingRequest:
    """Return the request with its queries, for which pre-filters are run; once, as they change its spec."""
    if not request.queries:
        trace.step = "query"
        request = replace(request, queries=world.queries(request))
        trace.asked(request.queries)
    return request


def candidates(request: SchedulingRequest, world: World, trace: Trace) -> Candidates:
    """Return Placement's answer, if it offers a host."""
    trace.step = "placement"
    found = world.ask_placement(request)
    trace.answered(found)
    if found.rejection:  # a mistake of a flavor, an image or a port, not an outage
        raise NoValidHost(f"Placement rejected the request: {found.rejection}", final=True)
    if found.failed and not found.by_root:
        raise PlacementUnavailable(found.reason, timed_out=found.timed_out)
    if not found.by_root:
        raise NoValidHost
    return found


def _choose(
    offer: Offer, request: SchedulingRequest, world: World, session: Session, trace: Trace
) -> Decided:
    trace.step = "selection"
    claims = session if request.claims else None
    try:
        # Until a host is reserved, which the next member sees: Placement takes as long as it takes.
        with ExitStack() as turn:
            current = turn.enter_context(world.turn(request))
            session.begin(offer.hosts.table, current, offer.winners)
            with session:
                choosing = world.driver.plan(offer.hosts, current, claims, offer.usages, trace)
                group = current.server_group
                # Those after the first one have no host but its own: if that is refused, they have none.
                if not (group and group.is_affinity and not group.hosts):
                    turn.close()
                chosen = choosing.choose_all()
    except NoValidHost as error:
        if session.overtaken:
            raise AllocationUpdateFailed(request.instance_uuids[0], "another request was first") from error
        raise
    trace.selected(chosen)
    return Decided(chosen, current, session)
