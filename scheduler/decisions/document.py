"""The document of a decision: what is kept in memory, written to the decision log, and rendered.

It is made once after the end of the request (``record``). doc/source/explain.rst has all keys; the classes
describe what a reader of that page does not need.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from typing import Any

import msgspec

from scheduler import objects
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.placement.claim_events import ClaimEvent

#: The version of the schema; it grows if a key changes its meaning or goes away.
VERSION = 4

SCHEDULED, FAILED = "scheduled", "failed"

CHOSEN, ALTERNATE, PASSED = "chosen", "alternate", "passed"
REFUSED, REJECTED, EXCLUDED = "claim refused", "rejected", "excluded by the request"


class RequestedFlavor(msgspec.Struct, gc=False):
    """Name, amounts and extra specs of the flavor, as the caller sent them."""

    name: Any = None
    vcpus: Any = None
    memory_mb: Any = None
    root_gb: Any = None
    ephemeral_gb: Any = None
    swap: Any = None
    extra_specs: Any = None


class Error(msgspec.Struct, gc=False):
    """The name of the exception's class, and its text."""

    kind: str = msgspec.field(name="class")
    text: str


class Limit(StrEnum):
    """What refuses an amount, the mildest first."""

    FREE = "free"
    CAPACITY = "capacity"
    STEP_SIZE = "step_size"
    MIN_UNIT = "min_unit"
    MAX_UNIT = "max_unit"
    ABSENT = "absent"


class Reason(msgspec.Struct, gc=False):
    """Why hosts fail a constraint, in words.

    Attributes:
        hosts: The number of hosts; 0: it is not counted.
        limit: For an amount what refuses it (``Limit``), otherwise "".
        most: The most that one of these hosts can give; None if that does not apply.
    """

    text: str
    hosts: int = 0
    limit: str = ""
    most: int | None = None


class Constraint(msgspec.Struct, gc=False):
    """One condition that a host has to meet, such as ``required trait CUSTOM_GPU``.

    Attributes:
        kind: A ``ConstraintKind``.
        source: Such as ``flavor``; "" if that is not known.
        filter: The name of a filter that is the condition.
    """

    text: str
    kind: str
    source: str = ""
    filter: str = ""

    @property
    def words(self) -> str:
        return f"{self.text} ({self.source})" if self.source else self.text


class Failing(msgspec.Struct, gc=False):
    """Hosts that fail the same constraints (indices of ``Why.constraints``), and no others."""

    constraints: list[int]
    hosts: int
    names: list[str] = msgspec.field(default_factory=list)
    reasons: list[list[Reason]] = msgspec.field(default_factory=list)
    cut: bool = False

    @property
    def first_reasons(self) -> list[Reason]:
        """Why they fail the first constraint, the only one of most sets that matter."""
        return self.reasons[0] if self.reasons else []


class Why(msgspec.Struct, gc=False):
    """For which constraints each host does not suit a request that found no valid host.

    Attributes:
        failing: The sets, those of one constraint first, then by number of hosts.
        incomplete: Whether Placement is still to be queried.
    """

    hosts: int
    number: int = 1
    instances: int = 1
    placed: int = 0
    suitable: int = 0
    constraints: list[Constraint] = msgspec.field(default_factory=list)
    failing: list[Failing] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    incomplete: bool = False

    def of(self, failing: Failing) -> list[Constraint]:
        """Return the constraints that these hosts fail."""
        return [self.constraints[index] for index in failing.constraints]

    def explained(self, failing: Failing) -> Iterator[tuple[Constraint, list[Reason]]]:
        """Yield the constraints that these hosts fail, each with the reasons."""
        yield from zip(self.of(failing), failing.reasons or [[] for _ in failing.constraints], strict=True)

    def alone(self) -> Iterator[tuple[Constraint, Failing]]:
        """Yield each constraint that hosts fail alone, with these hosts."""
        for each in self.failing:
            first, *others = self.of(each)
            if not others and first.kind != ConstraintKind.SEVERAL:
                yield first, each


class Cause(msgspec.Struct, gc=False):
    """Why a request found no valid host.

    Attributes:
        code: The code (``cause_code.CauseCode``), by which requests are counted.
        subject: A constraint of the query, or the name of a filter: the same for requests that fail for the
            same reason; "" if the code says all.
        words: The cause of this request, in one line.
        remedy: What helps in this case.
    """

    code: str
    subject: str
    words: str
    remedy: str


class Out(msgspec.Struct, gc=False):
    """Hosts that did not pass for the same reason, in words that have a range where numbers differ."""

    text: str
    hosts: int
    names: list[str]


class CandidateOrigin(msgspec.Struct, gc=False):
    """Where the candidates came from.

    Attributes:
        known: How many of the hosts the table has in cells that take part; None if it was not used.
        allowed: How many of these the request itself allows.
    """

    source: str = ""
    hosts: int = 0
    known: int | None = None
    allowed: int | None = None
    age: float = 0.0
    requests: int = 1
    truncated: bool = False
    excluded: list[Out] = msgspec.field(default_factory=list)
    reason: str = ""
    failed: bool = False

    @property
    def origin(self) -> str:
        """The source, however many requests shared the answer."""
        return "placement" if self.source == "coalesced" else self.source


class FilterStep(msgspec.Struct, gc=False):
    """One filter for one instance: the hosts before and after it, and why it rejected some."""

    instance: str
    filter: str
    start: int
    end: int
    applies: bool
    out: list[Out] = msgspec.field(default_factory=list)


class Hosts(msgspec.Struct, gc=False):
    """Hosts that are named, the most important first: one entry for each in all columns."""

    complete: bool = False
    host: list[str] = msgspec.field(default_factory=list)
    node: list[str] = msgspec.field(default_factory=list)
    cell: list[int] = msgspec.field(default_factory=list)
    zone: list[int] = msgspec.field(default_factory=list)
    outcome: list[str] = msgspec.field(default_factory=list)
    step: list[int] = msgspec.field(default_factory=list)
    failing: list[int] = msgspec.field(default_factory=list)
    cells: dict[int, str] = msgspec.field(default_factory=dict)
    zones: dict[int, str] = msgspec.field(default_factory=dict)


class Weights(msgspec.Struct, gc=False):
    """The weights of the best hosts by one weigher, in their order; raw ones are clamped."""

    weigher: str
    raw: Sequence[float | None]
    low: float | None
    high: float | None
    multiplier: float | Sequence[float | None] | None

    def added(self, index: int) -> float:
        raw, factor = self.raw[index], self.multiplier
        if isinstance(factor, Sequence):
            factor = factor[index]
        if raw is None or factor is None or self.low is None or self.high is None:
            return 0.0
        return factor * (raw - self.low) / (self.high - self.low)


class Best(msgspec.Struct, gc=False):
    """The best hosts of the first instance; the total of a host that refused a claim before is None."""

    host: list[int] = msgspec.field(default_factory=list)
    total: list[float | None] = msgspec.field(default_factory=list)
    weights: list[Weights] = msgspec.field(default_factory=list)


class Place(msgspec.Struct, frozen=True, gc=False):
    """A service host and its node."""

    host: str
    node: str


class Chosen(msgspec.Struct, gc=False):
    """The host of an instance, and its alternates."""

    instance: str
    host: Place
    alternates: list[Place]


class DecisionEntry(msgspec.Struct, kw_only=True, gc=False):
    """The part of a document that a list of decisions needs."""

    version: int = VERSION
    time: str
    request_id: str
    kind: str
    project_id: str | None
    instances: list[str]
    flavor: RequestedFlavor
    availability_zone: str | None
    result: str = SCHEDULED
    summary: str = ""
    error: Error | None = None
    cause: Cause | None = None
    candidates: CandidateOrigin = msgspec.field(default_factory=CandidateOrigin)
    chosen: list[Chosen] = msgspec.field(default_factory=list)
    milliseconds: dict[str, float] = msgspec.field(default_factory=dict)

    def is_wanted(self, *, failed: bool, since: float, project: str | None) -> bool:
        """Return whether it passes the conditions: failed, begun at ``since`` or later, of a project."""
        if (failed and self.result == SCHEDULED) or project not in (None, self.project_id):
            return False
        return seconds_of(self.time) >= since

    def values(self) -> dict[str, Any]:
        return {
            "time": self.time,
            "request_id": self.request_id,
            "kind": self.kind,
            "project_id": self.project_id,
            "instances": self.instances,
            "flavor": msgspec.to_builtins(self.flavor),
            "availability_zone": self.availability_zone,
            "result": self.result,
            "summary": self.summary,
            "hosts": [one.host.host for one in self.chosen],
            "milliseconds": self.milliseconds.get("total", 0.0),
            "error": self.error and self.error.kind,
            "cause": msgspec.to_builtins(self.cause),
        }


class Decision(DecisionEntry, kw_only=True, gc=False):
    """All that is kept of one decision."""

    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    notes: list[str] = msgspec.field(default_factory=list)
    partition: str | None = None
    queries: list[str] = msgspec.field(default_factory=list)
    filters: list[FilterStep] = msgspec.field(default_factory=list)
    hosts: Hosts = msgspec.field(default_factory=Hosts)
    best: Best = msgspec.field(default_factory=Best)
    why: Why | None = None
    claims: dict[str, list[ClaimEvent]] = msgspec.field(default_factory=dict)

    @property
    def first_filters(self) -> list[FilterStep]:
        """The filters of the first instance that has any."""
        return [step for step in self.filters if step.instance == self.filters[0].instance]

    @property
    def refused_claims(self) -> list[ClaimEvent]:
        """The last events of claims that were not granted."""
        events = chain.from_iterable(self.claims.values())
        return [event for event in events if event.ended and not event.granted]

    def request_spec(self) -> objects.RequestSpec | None:
        """Return the request as received; None if it was not kept."""
        envelope = msgspec.json.decode(self.spec)
        return envelope and objects.hydrate(envelope, None)


#: Return the text of a document, or of a part.
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Decision).decode
decode_entry = msgspec.json.Decoder(DecisionEntry).decode


def time_text(seconds: float) -> str:
    """Return a time in UTC, to the millisecond, from seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def seconds_of(text: str) -> float:
    """Return the seconds since the epoch of a time in ISO format; one without a zone is UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
