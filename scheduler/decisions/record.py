"""What is kept of a decision until its document is wanted, and the hosts that the document names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from scheduler.decisions import document
from scheduler.decisions.document import FAILED, SCHEDULED, Best, Decision, Hosts, Out, Place, Weights
from scheduler.decisions.explanation import Explanation
from scheduler.decisions.failure import Failure
from scheduler.decisions.failure_cause import cause_of
from scheduler.decisions.words import group
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.objects import Selection
from scheduler.objects.base import DATA
from scheduler.placement.claim_events import ClaimEvent
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.narrowing import Narrowed
from scheduler.weights.scores import SomeWeights

#: Bytes of a request as received beyond which it is not kept, as with a server group of thousands.
LARGEST_SPEC = 64 * 1024

#: Hosts that are named for each filter or exclusion of a served request.
NAMED = 5

_NAMES = attrgetter("host", "nodename", "cell_uuid")


@dataclass(frozen=True)
class Names:
    """Names for the numbers and UUIDs of a table.

    Attributes:
        cells: The names of the cells by UUID.
        default_zone: The availability zone of hosts that no aggregate puts in one.
    """

    cells: Mapping[str, str | None] = field(default_factory=dict)
    default_zone: str = "nova"


class DecisionRecord:
    """What is kept of a decision.

    Attributes:
        spec: The envelope of the request as received.
        names: Returns the names of cells.
        notes: Sentences on what a user may not expect.
        times: Seconds by stage.
        queries: What Placement was asked for.
        candidates: Where the hosts come from.
        claims: The events of claims by instance.
        error: What ended a failed request.
        partition: The partition of the scheduler, if there are any.
        filters: What filters did.
        passed: The number of hosts that passed them for the first instance.
        reasons: Why they rejected the first hosts: pairs of host and reason, by the index of the filter.
        table: The table of the hosts of the last pass; None if there was none, or if they are packed.
        excluded: Its rows that each part of the request excludes.
        refused: The UUIDs of compute nodes that refused a claim.
        rejected: The index of each filter that rejected hosts, and their rows.
        best: The rows of the hosts with the largest weights, best first.
        totals: The total weights of the best hosts; float64.
        weights: What each weigher says of them.
        unexplained: What an incomplete explanation is to be completed from; None: it is complete.
        selections: For each instance its host and its alternates.
    """

    queries: Sequence[Query] = ()
    error: document.Error | None = None
    partition: str | None = None
    unexplained: Failure | None = None
    _chosen: Sequence[Sequence[Place]] = ()
    _hosts: "NamedHosts | None" = None

    def __init__(self, request: SchedulingRequest, began_at: float, names: Callable[[], Names]) -> None:
        """Begin with what the request says.

        Args:
            began_at: Seconds since the epoch.
        """
        self.began_at, self.names = began_at, names
        self.is_rebuild = request.is_rebuild
        self.request_id: str = getattr(request.context, "request_id", None) or ""
        self.instances = request.instance_uuids
        self.spec: Any = request.spec.as_received()  # pre-filters change it
        self.notes = request.notes
        self.times: dict[str, float] = {}
        self.candidates = document.CandidateOrigin()
        self.claims: dict[str, list[ClaimEvent]] = {}
        self.forget_pass()

    def forget_pass(self) -> None:
        """Forget what was noted of hosts."""
        self.filters: list[document.FilterStep] = []
        self.passed = 0
        self.reasons: dict[int, list[tuple[str, str]]] = {}
        self.table: HostTable | None = None
        self.excluded: list[np.ndarray] = []
        self.refused: Iterable[str] = ()
        self.rejected: list[tuple[int, np.ndarray]] = []
        self.best: np.ndarray | None = None
        self.totals: np.ndarray | None = None
        self.weights: Sequence[SomeWeights] = ()
        self.selections: Sequence[Sequence[Selection]] = ()

    def note_hosts(self, offered: HostView, narrowed: Narrowed) -> None:
        """Note what the request itself leaves of the hosts."""
        self.table = offered.table
        self.candidates.known, self.candidates.allowed = len(offered), len(narrowed.hosts)
        for each in narrowed.excluded:
            rows = each.hosts.table_rows
            self.excluded.append(rows)
            names = [offered.table.rows[row].host for row in rows[:NAMED]]
            self.candidates.excluded.append(Out(each.reason, len(rows), names))

    def pack(self, offered: np.ndarray | None = None) -> int:
        """Keep the hosts to name instead of the table, and text instead of objects; return its bytes.

        Args:
            offered: The rows of all hosts that were offered, to name all of them; None: some of them.
        """
        if not isinstance(self.spec, bytes):
            if self.table is not None:
                self._hosts = NamedHosts(self, self.table, offered)
            self._chosen = [
                [Place(each.service_host, each.nodename) for each in some] for some in self.selections
            ]
            self.table, self.excluded, self.rejected, self.best = None, [], [], None
            self.selections, self.spec = (), document.encode(self.spec)
        return len(self.spec)

    def note_why(self, explanation: Explanation | None = None) -> None:
        """Note why the request failed, and if it is known why no host suits, in the document."""
        decision = self.decision
        if explanation is not None:
            decision.why = explanation.why
            decision.hosts.failing = explanation.sets[self._hosts.rows].tolist() if self._hosts else []
        decision.cause = cause_of(decision)
        decision.summary = decision.cause.words if decision.cause else _other_end(decision)

    @cached_property
    def decision(self) -> Decision:
        """The document, made once the request has ended."""
        size = self.pack()
        data = msgspec.json.decode(self.spec)[DATA]
        flavor = data["flavor"][DATA]
        self.candidates.age = round(self.candidates.age, 3)
        for at, pairs in self.reasons.items():
            if at < len(self.filters):
                self.filters[at].out = group(pairs, NAMED)
        decision = Decision(
            time=document.time_text(self.began_at),
            request_id=self.request_id,
            kind="rebuild check" if self.is_rebuild else _kind(data),
            project_id=data.get("project_id"),
            instances=list(self.instances),
            flavor=document.RequestedFlavor(*map(flavor.get, document.RequestedFlavor.__struct_fields__)),
            availability_zone=data.get("availability_zone"),
            result=FAILED if self.error else SCHEDULED,
            error=self.error,
            candidates=self.candidates,
            chosen=[
                document.Chosen(uuid, first, others)
                for uuid, (first, *others) in zip(self.instances, self._chosen, strict=False)
            ],
            milliseconds={stage: int(seconds * 1e6) / 1e3 for stage, seconds in self.times.items()},
            spec=msgspec.Raw(self.spec if size <= LARGEST_SPEC else b"null"),
            notes=list(self.notes),
            partition=self.partition,
            queries=[query.querystring for query in self.queries],
            filters=self.filters,
            claims=self.claims,
        )
        if self._hosts is not None:
            decision.hosts = self._hosts.columns(self.names(), complete=self.error is not None)
            if self.totals is not None:
                best = list(map(self._hosts.rows.index, self._hosts.best))
                weights = [
                    Weights(weigher.name, raw.tolist(), low, high, np.asarray(factor, float).tolist())
                    for weigher, raw, low, high, factor in self.weights
                ]
                decision.best = Best(best, self.totals.tolist(), weights)
        return decision


class NamedHosts:
    """Hosts of a table in the order in which they are named. Neither the table nor the record is kept.

    Attributes:
        rows: Their rows.
        best: The rows of those with the largest weights, best first.
    """

    def __init__(self, record: DecisionRecord, table: HostTable, offered: np.ndarray | None) -> None:
        """Name the hosts of a record, the most important first.

        Args:
            offered: The rows of all that were offered, to name all of them; None: some of them.
        """
        row_of, rejected, excluded = table.row_of_uuid, record.rejected, record.excluded
        self.best: list[int] = [] if record.best is None else record.best.tolist()
        # of all instances the chosen hosts come first
        chosen, alternates = (
            [
                row_of[uuid]
                for some in record.selections
                for one in some[part]
                if (uuid := one.compute_node_uuid) in row_of
            ]
            for part in (slice(1), slice(1, None))
        )
        lost = [row_of[uuid] for uuid in record.refused if uuid in row_of]
        passed, most = self.best, NAMED if offered is None else None
        if offered is not None:
            out = [*(rows for _, rows in rejected), *excluded]
            rest = offered[~np.isin(offered, np.concatenate(out))] if out else offered
            passed = [row for row in self.best if row in rest] + rest.tolist()
        # Outcomes, the index of the filter that rejected hosts, and their rows; of a host the first counts.
        self._parts: list[tuple[str, int, Sequence[int]]] = [
            (document.CHOSEN, -1, chosen),
            (document.ALTERNATE, -1, alternates),
            (document.REFUSED, -1, lost),
            (document.PASSED, -1, passed),
            *((document.REJECTED, step, rows[:most].tolist()) for step, rows in reversed(rejected)),
            *((document.EXCLUDED, -1, rows[:most].tolist()) for rows in excluded),
        ]
        self.rows = list(dict.fromkeys(chain.from_iterable(rows for _, _, rows in self._parts)))
        # no rows: those of an old table have all that was parsed for them, and a decision is kept for long
        self._names = list(map(_NAMES, map(table.rows.__getitem__, self.rows)))
        aggregates = table.coded["aggregates"]
        codes = aggregates.codes[self.rows].tolist()
        self._zones = [aggregates.values[code].availability_zone("") for code in codes]

    def columns(self, names: Names, *, complete: bool) -> Hosts:
        """Return the hosts by name."""
        outcomes: dict[int, tuple[str, int]] = {}
        for outcome, step, rows in self._parts:  # thousands if many instances were requested
            for row in rows:
                outcomes.setdefault(row, (outcome, step))
        cells = {uuid: code for code, uuid in enumerate({cell: None for _, _, cell in self._names})}
        zones = {zone: code for code, zone in enumerate(dict.fromkeys(self._zones))}
        return Hosts(
            complete,
            [host for host, _, _ in self._names],
            [node for _, node, _ in self._names],
            [cells[cell] for _, _, cell in self._names],
            [zones[zone] for zone in self._zones],
            [outcome for outcome, _ in outcomes.values()],
            [step for _, step in outcomes.values()],
            [-1] * len(self._names),
            {code: names.cells.get(uuid) or uuid for uuid, code in cells.items()},
            {code: zone or names.default_zone for zone, code in zones.items()},
        )


def _kind(data: Mapping[str, Any]) -> str:
    """Return what is requested: a move names its cell, and an evacuation a host to ignore."""
    destination = data.get("requested_destination")
    if destination and destination[DATA].get("cell"):
        return "move"
    return "evacuation" if data.get("ignore_hosts") else "build"


def _other_end(decision: Decision) -> str:
    """Return what ended a request that was not refused, with what Placement has said."""
    found, lost = decision.candidates, decision.refused_claims
    detail = found.reason if found.failed else lost[-1].cause if lost else ""
    text = f"{decision.error.kind}: {decision.error.text.strip()}" if decision.error else ""
    return f"{text} ({detail})" if detail else text
