"""What is kept of a decision until its document is wanted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from scheduler.decisions import document
from scheduler.decisions.document import FAILED, SCHEDULED, Best, Decision, Place, Weights, refused
from scheduler.decisions.named_hosts import NamedHosts, Names, Outcomes
from scheduler.hosts.table import HostTable
from scheduler.objects import Selection
from scheduler.objects.base import DATA
from scheduler.placement.claim_events import ClaimEvent
from scheduler.request.query import Query
from scheduler.weights.scores import SomeWeights

#: Bytes of a request as received beyond which it is not kept, as with a server group of thousands.
LARGEST_SPEC = 64 * 1024


@dataclass
class DecisionRecord:
    """What is kept of a decision.

    Attributes:
        spec: The envelope of the request as received.
        names: Returns the names of cells.
        notes: Sentences on what a user may not expect.
        times: Seconds by stage.
        candidates: Where the hosts come from.
        filters: What filters did.
        passed: The number of hosts that passed them for the first instance.
        claims: The events of claims by instance.
        error: What ended a failed request.
        partition: The partition of the scheduler, if there are any.
        outcomes: What became of the hosts of the last pass; None if there was none.
        selections: For each instance its host and its alternates.
        totals: The total weights of the best hosts; float64.
        weights: What each weigher says of them.
    """

    began_at: float
    is_rebuild: bool
    request_id: str
    instances: Sequence[str]
    spec: Any
    names: Callable[[], Names]
    notes: Sequence[str]
    times: dict[str, float] = field(default_factory=dict)
    queries: Sequence[Query] = ()
    candidates: document.CandidateOrigin = field(default_factory=document.CandidateOrigin)
    filters: list[document.FilterStep] = field(default_factory=list)
    passed: int = 0
    claims: dict[str, list[ClaimEvent]] = field(default_factory=dict)
    error: document.Error | None = None
    partition: str | None = None
    outcomes: Outcomes | None = None
    selections: Sequence[Sequence[Selection]] = ()
    totals: np.ndarray | None = None
    weights: Sequence[SomeWeights] = ()
    _chosen: Sequence[Sequence[Place]] = ()
    _hosts: NamedHosts | None = None

    @property
    def table(self) -> HostTable | None:
        """The table that it refers to."""
        return None if self.outcomes is None else self.outcomes.table

    def pack(self, offered: np.ndarray | None = None) -> int:
        """Keep the hosts to name instead of the table, and text instead of objects; return its bytes.

        Args:
            offered: The rows of all hosts that were offered, to name all of them; None: some of them.
        """
        if not isinstance(self.spec, bytes):
            outcomes, lost = self.outcomes, [event.host for event in refused(self.claims)]
            self._hosts = outcomes.named(self.selections, lost, offered) if outcomes else None
            self._chosen = [
                [Place(each.service_host, each.nodename) for each in some] for some in self.selections
            ]
            self.outcomes, self.selections, self.spec = None, (), document.encode(self.spec)
        return len(self.spec)

    def failing(self, sets: np.ndarray) -> list[int]:
        """Return the set of constraints that each named host fails, by that of each row of the table."""
        return self._hosts.failing(sets) if self._hosts else []

    @cached_property
    def decision(self) -> Decision:
        """The document, made once the request has ended."""
        size = self.pack()
        data = msgspec.json.decode(self.spec)[DATA]
        flavor = data["flavor"][DATA]
        self.candidates.age = round(self.candidates.age, 3)
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
                decision.best = Best(
                    self._hosts.best, self.totals.tolist(), list(map(_weights, self.weights))
                )
        return decision


def _kind(data: Mapping[str, Any]) -> str:
    """Return what is requested: a move names its cell, and an evacuation a host to ignore."""
    destination = data.get("requested_destination")
    if destination and destination[DATA].get("cell"):
        return "move"
    return "evacuation" if data.get("ignore_hosts") else "build"


def _weights(of: SomeWeights) -> Weights:
    name, raw, low, high, factor = of
    return Weights(name, raw.tolist(), low, high, np.asarray(factor).tolist())
