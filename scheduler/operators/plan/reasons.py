"""How many hosts each step of a planned decision left, and why."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.filters.chain import Filtered, PreparedChain
from scheduler.hosts.coordinates import ViewIndex
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import PlainQuery, plain_query
from scheduler.request.decision_line import amounts_of
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.host_claiming import NOT_ENOUGH
from scheduler.selection.narrowing import Narrowed
from scheduler.selection.observer import DecisionObserver
from scheduler.weights.scores import Scores

Document = dict[str, Any]

#: Causes that are named of one step, and hosts whose weights are shown.
MOST_CAUSES = 4
BEST = 10


@dataclass
class Stage:
    """What one step left.

    Attributes:
        name: ``Placement``, ``request``, ``plan`` or the name of a filter.
        causes: Why hosts were dropped, the cause of most hosts first.
    """

    name: str
    before: int
    after: int
    causes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        causes = f" ({', '.join(self.causes)})" if self.causes else ""
        return f"{self.name} leaves {self.after} of {self.before} hosts{causes}"


@dataclass
class Why:
    """What was noted of one decision.

    Attributes:
        stages: The steps that dropped hosts, in order.
        error: What ended it; "" if each instance has a host.
        amounts: What was requested from Placement.
        best: The best hosts with their weights, for the first instance.
        selections: For each instance the chosen host and the alternates.
        notes: Sentences on what a user may not expect.
    """

    stages: list[Stage]
    error: str = ""
    amounts: str = ""
    best: list[Document] = field(default_factory=list)
    selections: Sequence[Sequence[objects.Selection]] = ()
    notes: Sequence[str] = ()

    @property
    def text(self) -> str:
        """One line: what left no host."""
        parts = [str(stage) for stage in self.stages if stage.after < stage.before]
        return (
            "; ".join([*parts, *([self.error] if self.error and not parts else [])])
            or "no host was looked at"
        )

    def document(self) -> Document:
        return {"text": self.text, "error": self.error, "stages": [vars(stage) for stage in self.stages]}


class Watcher(DecisionObserver):
    """Notes one decision.

    Attributes:
        chosen: What ``make`` returned for each host that was consumed from, in order.
        selections: For each instance the chosen host and the alternates.
    """

    def __init__(self, request: SchedulingRequest, table: HostTable, make: Callable[..., Any]) -> None:
        """Note nothing yet.

        Args:
            make: Called with an instance, the hosts, the index of the chosen one, and whether a topology was
                fitted.
        """
        self._request = request
        self._fitted = bool(request.guest or request.pci_requests)
        self._table = table
        self._make = make
        self._stages: list[Stage] = []
        self._filtered: Filtered | None = None
        self._error: BerthError | None = None
        self._queries: Sequence[Query] = ()
        self._mirror: CandidateMirror | None = None
        self._best: list[Document] = []
        self.chosen: list[Any] = []
        self.selections: Sequence[Sequence[objects.Selection]] = ()

    def asked(self, queries: Sequence[Query], mirror: CandidateMirror) -> None:
        self._queries, self._mirror = queries, mirror

    def offered(self, hosts: HostView, closed: np.ndarray) -> HostView:
        """Note which hosts are offered; return those that the plan does not close."""
        self._stages = [Stage("Placement", len(self._table), len(hosts))]
        open_hosts = hosts.where(~closed[hosts.table_rows]) if len(hosts) else hosts
        if len(open_hosts) < len(hosts):
            self._stages.append(
                Stage("plan", len(hosts), len(open_hosts), ["hosts to empty, or failed hosts"])
            )
        return open_hosts

    def begin_ranking(
        self, offered: HostView, narrowed: Narrowed, chain: PreparedChain, request: SchedulingRequest
    ) -> None:
        left = len(offered)
        for each in narrowed.excluded:
            self._stages.append(Stage("request", left, left - len(each.hosts), [each.reason]))
            left -= len(each.hosts)

    def filtered(self, number: int, hosts: HostView, filtered: Filtered) -> None:
        self._filtered = filtered

    def weighed(self, number: int, hosts: HostView, scores: Scores, totals: np.ndarray) -> None:
        if self._best or number:
            return
        parts = scores.parts() if len(hosts) > 1 else []
        for index in np.argsort(-totals, kind="stable")[:BEST].tolist():
            row = hosts.row(ViewIndex(index))
            weights = {name: round(float(part[index]), 6) for name, part in parts}
            total = round(float(totals[index]), 6)
            self._best.append({"host": row.host, "node": row.nodename, "weight": total, "weights": weights})

    def consumed(self, number: int, hosts: HostView, index: ViewIndex) -> None:
        """Note a host that was chosen; the build ends before the next instance comes."""
        uuid = self._request.instance_uuids[number]
        self.chosen.append(self._make(uuid, hosts, index, fitted=self._fitted))
        hosts.consume(int(index), num_io_ops=-1)

    def failed(self, error: BerthError) -> None:
        self._error = error

    def why(self) -> Why:
        """Return what was noted; to be called before anything is charged."""
        stages = [*self._stages, *self._filters()]
        for stage in stages:
            if stage.name == "Placement" and not stage.causes and stage.after < stage.before:
                stage.causes = self._placement_causes()
        error = "" if self._error is None else getattr(self._error, "reason", "") or str(self._error)
        amounts = amounts_of(self._queries[0].params) if self._queries else ""
        error = "" if error == NOT_ENOUGH and stages else error
        return Why(stages, error, amounts, self._best, self.selections, self._request.counts.notes)

    def _filters(self) -> Iterator[Stage]:
        if self._filtered is None:
            return
        for step in self._filtered.steps:
            before, after = step.counts
            if after < before:
                yield Stage(step.filter.name, before, after, list(step.summary(MOST_CAUSES, lambda: False)))

    def _placement_causes(self) -> list[str]:
        plain = plain_query(self._queries[0]) if len(self._queries) == 1 else None
        answer = None if plain is None or self._mirror is None else self._mirror.find(self._queries)
        if plain is None or answer is None:
            return []
        wanted = {row.uuid for row in self._table.rows if self._request.cell_uuid in (None, row.cell_uuid)}
        nodes = [
            row for row, uuid in enumerate(answer.uuids) if uuid in wanted and not answer.nodes.gone[row]
        ]
        causes = Counter(refusals(answer.nodes, np.array(nodes, np.int64), plain))
        others = len(self._table) - len(wanted)
        return [
            *(f"{cause}: {count}" for cause, count in causes.most_common(MOST_CAUSES)),
            *([f"in another cell: {others}"] if others else []),
        ]


def refusals(nodes: Any, rows: np.ndarray, query: PlainQuery) -> Iterator[str]:
    """Yield the first reason of each node that does not meet a query.

    Args:
        nodes: ``mirror.Nodes``.
        rows: The nodes to look at.
    """
    for row in rows.tolist():
        traits = nodes.traits[row]
        if missing := query.required - traits:
            yield f"without trait {min(missing)}"
        elif unwanted := query.forbidden & traits:
            yield f"with trait {min(unwanted)}"
        elif query.aggregates and not query.aggregates_suit(nodes.aggregates[row]):
            yield "not in the zone or aggregates"
        else:
            state = nodes.state(row)
            for name, amount in query.amounts.items():
                inventory = state.inventories.get(name)
                if inventory is None or not inventory.admits(amount):
                    yield f"never {amount} {name}"
                    break
                if state.used.get(name, 0) + amount > inventory.capacity:
                    yield f"less than {amount} {name} free"
                    break
