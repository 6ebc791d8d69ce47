"""One host as of now, for a request that is kept: ``decide`` in a world of this host alone.

It goes as far as the filters. Nothing is chosen, reserved or claimed.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
import time
from typing import Any

import numpy as np

from scheduler import objects
from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.document import REJECTED, time_text
from scheduler.decisions.explanation import FailureExplainer
from scheduler.decisions.failure_cause import remedy_of_constraint
from scheduler.decisions.host_verdicts import Names
from scheduler.decisions.hosts_now import MOST_NODES, HostNow, NodeNow
from scheduler.decisions.rendering import ACCEPTED, NOT_APPLICABLE, FilterVerdict
from scheduler.decisions.trace import Trace
from scheduler.decisions.why_not import with_reasons
from scheduler.errors import NoValidHost
from scheduler.filters.base import Judge
from scheduler.filters.chain import PreparedChain
from scheduler.hosts.coordinates import TableRow, TableRows
from scheduler.hosts.rows import HostRow
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.placement.candidates import Candidates
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.driver import FilterDriver
from scheduler.selection.narrowing import Narrowed
from scheduler.selection.observer import DecisionObserver
from scheduler.workflow.decide import Offer, World, offered

#: The reason if nothing more is known.
UNSUITABLE = "what it lacks is not known: the answer does not say"

#: Why a host is excluded by its cell.
DISABLED_CELL, OTHER_CELL = "its cell is disabled", "not in the cell of the instance"

#: Constraints that are no matter of Placement.
OF_REQUEST = frozenset({ConstraintKind.IGNORED, ConstraintKind.CELL})

#: Seconds that a question waits for requests of the same server group.
TURN_TIMEOUT = 1.0


@dataclass(frozen=True)
class HostsNow:
    """Explains single hosts.

    Attributes:
        table: Returns the hosts, to find those of a name.
        world: Returns what decisions read.
    """

    table: Callable[[], HostTable]
    world: Callable[[], World]
    explainer: FailureExplainer
    names: Callable[[], Names]

    def explain(self, spec: objects.RequestSpec, instances: list[str], name: str) -> HostNow:
        """Return the results on the compute nodes of a host.

        Args:
            name: A service host, a node name or the UUID of a node; it may have no node.

        Raises:
            InvalidRequest: The request cannot be read.
            DependencyUnavailable: Placement or a cell gives no usable answer.
        """
        table = self.table()
        received = spec.as_received()
        nodes = [
            self._node(table, row, SchedulingRequest.of(objects.hydrate(received, None), instances))
            for row in table.rows_called(name)[:MOST_NODES]
        ]
        return HostNow(time_text(time.time()), nodes)

    def _node(self, table: HostTable, row: TableRow, request: SchedulingRequest) -> NodeNow:
        host, names = table.rows[row], self.names()
        node = NodeNow(
            host.host,
            host.nodename,
            names.cells.get(host.cell_uuid) or host.cell_uuid,
            table.coded["aggregates"][row].availability_zone(names.default_zone),
        )
        if len(table.in_cell(TableRows(np.array([row])), request.cell_uuid)):
            self._decide(node, table, row, request)
        else:
            # the query would name a host that the cell does not have
            node.excluded = DISABLED_CELL if request.cell_uuid is None else OTHER_CELL
            node.asked = False
        return node

    def _decide(self, node: NodeNow, table: HostTable, row: TableRow, request: SchedulingRequest) -> None:
        world, seen = _OneHost(self.world(), table.rows[row]), _Seen()
        try:
            with offered(request, world, Trace(request)) as (offer, current):
                world.driver.rank(offer.hosts, current, seen)
        except NoValidHost as error:
            node.excluded, node.asked = error.reason, False
            return
        node.excluded, node.verdicts = seen.excluded, seen.verdicts
        if not world.offers:
            failed = [
                one
                for one in self.explainer.explain_host(request, world.asked, table, row).of(0)
                if one[0].kind not in OF_REQUEST
            ]
            texts = [with_reasons(constraint, reasons, 1) for constraint, reasons in failed]
            node.unoffered = "; ".join(texts) or UNSUITABLE
            node.remedies = [remedy_of_constraint(constraint, reasons) for constraint, reasons in failed]


class _OneHost:
    """A ``decide.World`` with one host, whether Placement offers it or not.

    Attributes:
        asked: The queries.
        offers: Whether Placement offers the host.
    """

    def __init__(self, world: World, host: HostRow) -> None:
        self._world = world
        self._host = host
        self.asked: tuple[Query, ...] = ()
        self.offers = False

    @property
    def driver(self) -> FilterDriver:
        return self._world.driver

    def queries(self, request: SchedulingRequest) -> tuple[Query, ...]:
        """Return the queries for this host; the request keeps the destination that it names."""
        spec: Any = objects.hydrate(request.spec.as_received(), None)  # its fields are made at run time
        destination: Any = spec.requested_destination or objects.Destination()
        destination.host, destination.node = self._host.host, self._host.nodename
        spec.requested_destination = destination
        self.asked = self._world.queries(replace(request, spec=spec))
        return self.asked

    def mirrored(self, request: SchedulingRequest) -> Offer | None:
        return None

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        found = self._world.ask_placement(request)
        if found.failed:
            return found
        candidates = found.by_root.get(self._host.uuid, ())
        self.offers = bool(candidates)
        return replace(found, by_root={self._host.uuid: candidates})

    def offered(self, found: Candidates, request: SchedulingRequest, *, late: bool) -> Offer:
        return self._world.offered(found, request, late=late)

    def to_check(self, request: SchedulingRequest) -> HostView:
        return self._world.to_check(request)

    @contextmanager
    def turn(self, request: SchedulingRequest) -> Iterator[SchedulingRequest]:
        with ExitStack() as stack:
            with limit_to(Deadline.after(TURN_TIMEOUT)):
                current = stack.enter_context(self._world.turn(request))
            yield current

    def now(self) -> float:
        return self._world.now()


class _Seen(DecisionObserver):
    """Notes what a decision says of its only host.

    Attributes:
        excluded: Why the request itself excludes it.
        verdicts: The result of each filter.
    """

    def __init__(self) -> None:
        self.excluded = ""
        self.verdicts: list[FilterVerdict] = []

    def begin_ranking(
        self, offered: HostView, narrowed: Narrowed, chain: PreparedChain, request: SchedulingRequest
    ) -> None:
        self.excluded = "; ".join(each.reason for each in narrowed.excluded)
        if len(offered):
            offered.load(chain.needs)
            self.verdicts = [_verdict(rule.name, judge, offered) for rule, judge in chain.rules]


def _verdict(name: str, judge: Judge | None, view: HostView) -> FilterVerdict:
    if judge is None:
        return FilterVerdict(name, NOT_APPLICABLE)
    try:
        verdict = judge.passes(view)
        passes = verdict is not None and bool(verdict[0])
        return (
            FilterVerdict(name, ACCEPTED)
            if passes
            else FilterVerdict(name, REJECTED, judge.reason(view.host(0)))
        )
    except Exception as error:  # noqa: BLE001 - as the request would end
        return FilterVerdict(name, REJECTED, f"{type(error).__name__}: {error}")
