"""The results of Placement and each filter on one host as of now, for a request that is kept.

This is for hosts that the document of a decision does not name. Nothing is claimed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import time
from typing import Any

import msgspec
import numpy as np

from scheduler import objects
from scheduler.decisions.document import REJECTED, time_text
from scheduler.decisions.explanation import FailureExplainer
from scheduler.decisions.failure_cause import remedy_of_constraint
from scheduler.decisions.rendering import ACCEPTED, NOT_APPLICABLE, FilterVerdict
from scheduler.decisions.trace import Names
from scheduler.decisions.why_not import with_reasons
from scheduler.errors import NoValidHost
from scheduler.filters.base import Judge
from scheduler.filters.chain import FilterChain
from scheduler.hosts.coordinates import TableRow, TableRows
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import InstanceSource
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.placement.candidates import AllocationCandidate, Candidates
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.narrowing import narrow

#: The reason if nothing more is known.
UNSUITABLE = "what it lacks is not known: the answer does not say"

#: Nodes of one service host that are explained.
MOST_NODES = 20


class NodeNow(msgspec.Struct):
    """One compute node as of now.

    Attributes:
        excluded: Why the request itself excludes it; "" if it does not.
        unoffered: Why Placement does not offer it; "" if it does.
        verdicts: The result of each filter.
        remedies: What helps against what keeps Placement from offering it.
    """

    host: str
    node: str
    cell: str
    zone: str
    excluded: str
    unoffered: str
    verdicts: list[FilterVerdict]
    remedies: list[str] = msgspec.field(default_factory=list)


class HostNow(msgspec.Struct):
    """All nodes of a host at a time."""

    time: str
    nodes: list[NodeNow]


@dataclass(frozen=True)
class HostsNow:
    """Explains single hosts.

    Attributes:
        queries: Returns the queries for a request, after its pre-filters.
        candidates: Returns what Placement offers for queries; raises NoValidHost if it offers nothing.
        pending: What other requests have decided.
    """

    table: Callable[[], HostTable]
    queries: Callable[[SchedulingRequest], Sequence[Query]]
    candidates: Callable[[Sequence[Query], SchedulingRequest], Candidates]
    explainer: FailureExplainer
    chain: Callable[[], FilterChain]
    instances: InstanceSource
    pending: PendingPlacements
    names: Callable[[], Names]

    def explain(self, spec: objects.RequestSpec, instances: list[str], name: str) -> HostNow:
        """Return the results on the compute nodes of a host.

        Args:
            name: A service host, a node name or the UUID of a node; it may have no node.

        Raises:
            InvalidRequest: The request cannot be read.
            PlacementUnavailable: Placement gives no usable answer.
        """
        table = self.table()
        received = spec.as_received()
        nodes = [
            self._node(table, row, objects.hydrate(received, None), instances)
            for row in table.rows_called(name)[:MOST_NODES]
        ]
        return HostNow(time_text(time.time()), nodes)

    def _node(self, table: HostTable, row: int, spec: objects.RequestSpec, instances: list[str]) -> NodeNow:
        request = SchedulingRequest.of(spec, instances)
        host, names = table.rows[row], self.names()
        rows = TableRows(np.array([row]))
        excluded = [each.reason for each in narrow(HostView.of(table, rows), request).excluded]
        offered, unoffered, remedies = self._offered(table, row, request)
        view = HostView.of(table, rows, [offered], self.instances, self.pending)
        chain = self.chain().prepare(request)
        view.load(chain.needs)
        return NodeNow(
            host.host,
            host.nodename,
            names.cells.get(host.cell_uuid) or host.cell_uuid,
            table.coded["aggregates"][row].availability_zone(names.default_zone),
            "; ".join(excluded),
            unoffered,
            [_verdict(rule.name, judge, view) for rule, judge in chain.rules],
            remedies,
        )

    def _offered(
        self, table: HostTable, row: int, request: SchedulingRequest
    ) -> tuple[tuple[AllocationCandidate, ...], str, list[str]]:
        """Return the candidates on one host, or why there are none and what helps."""
        host = table.rows[row]
        spec: Any = request.spec  # its fields are made at run time
        destination: Any = spec.requested_destination or objects.Destination()
        destination.host, destination.node = host.host, host.nodename
        spec.requested_destination = destination
        queries = self.queries(request)
        try:
            found = self.candidates(queries, request).by_root.get(host.uuid, ())
        except NoValidHost:
            found = ()
        if found:
            return found, "", []
        failed = self.explainer.explain_host(request, queries, table, TableRow(row)).of(0)
        texts = [with_reasons(constraint, reasons, 1) for constraint, reasons in failed]
        remedies = [remedy_of_constraint(constraint, reasons) for constraint, reasons in failed]
        return (), "; ".join(texts) or UNSUITABLE, remedies


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
