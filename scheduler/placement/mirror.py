"""What Placement knows of all compute nodes, as arrays: candidates without a GET for each request.

One wide question, ``GET /allocation_candidates?resources=MEMORY_MB:1``, tells capacity, usage and traits of
every compute node. A query is answered from that if the answer is exact as of then, which is so under the
conditions that ``plain_query`` and ``MirrorSnapshot`` check; all other queries go to Placement.

What is learnt after the wide question was sent is added to its answer, in the order in which it was learnt:
above all what this scheduler claims and releases. So the mirror does not forget it when it is refreshed. A
claim still decides: the mirror may be wrong, and costs a refused claim then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
import math
import threading
import time
from urllib.parse import urlencode

import msgspec
import numpy as np

from scheduler.placement.answer import SHARING, AllocationCandidate, Usage
from scheduler.request.query import Query

CLASSES = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")
"""The resource classes that are mirrored: those of compute nodes themselves."""

WIDE_QUERY = "resources=MEMORY_MB%3A1"
"""The wide question about all compute nodes."""

MOST_AMOUNT = 2**31 - 1
"""The largest amount that Placement lets one allocation have."""

_NUMBER = {name: number for number, name in enumerate(CLASSES)}

# Beyond all amounts that can be allocated, and small enough to be added up: a capacity is a total that was
# multiplied by an operator's ratio, and may have forty digits.
_UNBOUNDED = int(np.iinfo(np.int64).max // 2)


def wide_query(aggregates: Iterable[str] = ()) -> str:
    """Return the wide question; with aggregates, that for the nodes which are in one of them."""
    any_of = ",".join(sorted(aggregates))
    return f"{urlencode({'member_of': f'in:{any_of}'})}&{WIDE_QUERY}" if any_of else WIDE_QUERY


# A query with any other parameter (suffixed groups, same_subtree, in_tree, group_policy) goes to Placement.
_KNOWN = {"resources", "required", "root_required", "member_of", "limit"}


@dataclass(frozen=True, slots=True)
class PlainQuery:
    """A query of which the compute node alone decides.

    Attributes:
        amounts: Wanted amount by resource class, all of them in ``CLASSES``.
        required: Traits that the compute node must have.
        forbidden: Traits that it must not have.
        member_of: Sets of aggregate uuids; it must be in one of each.
        not_member_of: Aggregates that it must not be in.
    """

    amounts: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = frozenset()


def plain_query(query: Query) -> PlainQuery | None:
    """Return what a query asks of compute nodes; None if more than the compute node decides.

    The query has one unnumbered group of mirrored classes, memory among them, and no condition on trees. An
    amount that no provider can have is for Placement to refuse.
    """
    amounts: dict[str, int] = {}
    required: set[str] = set()
    forbidden: set[str] = set()
    member_of: list[frozenset[str]] = []
    not_member_of: set[str] = set()
    for name, value in query.params:
        if name not in _KNOWN:
            return None
        if name == "resources":
            pairs = (part.partition(":") for part in value.split(","))
            amounts = {resource: int(amount) for resource, _, amount in pairs}
        elif name in {"required", "root_required"}:
            for trait in value.split(","):
                (forbidden if trait.startswith("!") else required).add(trait.removeprefix("!"))
        elif name == "member_of" and value.startswith("!in:"):
            not_member_of.update(value.removeprefix("!in:").split(","))
        elif name == "member_of":
            member_of.append(frozenset(value.removeprefix("in:").split(",")))
    if "MEMORY_MB" not in amounts or not _NUMBER.keys() >= amounts.keys():
        return None
    if max(amounts.values()) > MOST_AMOUNT:
        return None
    return PlainQuery(
        amounts, frozenset(required), frozenset(forbidden), tuple(member_of), frozenset(not_member_of)
    )


class MirrorSnapshot:
    """The compute nodes of one wide answer, in its order.

    Attributes:
        uuids: Compute node uuids, shape (nodes,).
        capacity: int64, shape (classes, nodes), overcommit and reservations included; -1 where a node has no
            inventory of the class.
        used: int64, shape (classes, nodes).
        traits: The distinct sets of traits, and ``trait_codes``, which of them each node has, int32 (nodes,).
        alone: Whether no other provider of the node's tree has a mirrored class, bool (nodes,).
    """

    def __init__(
        self,
        uuids: tuple[str, ...],
        capacity: np.ndarray,
        used: np.ndarray,
        traits: tuple[frozenset[str], ...],
        trait_codes: np.ndarray,
        alone: np.ndarray,
    ) -> None:
        self.uuids = uuids
        self.capacity = capacity
        self.used = used
        self.traits = traits
        self.trait_codes = trait_codes
        self.alone = alone
        self.row_of_uuid = {uuid: row for row, uuid in enumerate(uuids)}

    def __len__(self) -> int:
        return len(self.uuids)

    def has_traits(self, required: frozenset[str], forbidden: frozenset[str]) -> np.ndarray:
        """Return which nodes have all required traits and no forbidden one; bool, shape (nodes,)."""
        suits = [required <= traits and not forbidden & traits for traits in self.traits]
        return np.array(suits, dtype=bool)[self.trait_codes]


class _Provider(msgspec.Struct, gc=False):
    root_provider_uuid: str
    resources: dict[str, Usage]
    traits: tuple[str, ...]


class _WideBody(msgspec.Struct):
    provider_summaries: dict[str, _Provider]


_wide = msgspec.json.Decoder(_WideBody)


def read_snapshot(body: bytes) -> MirrorSnapshot:
    """Read the answer to the wide question.

    Raises:
        msgspec.DecodeError: It is no such answer.
    """
    providers = _wide.decode(body).provider_summaries
    below: set[str] = set()
    roots: list[tuple[str, _Provider]] = []
    for uuid, provider in providers.items():
        if provider.root_provider_uuid == uuid:
            roots.append((uuid, provider))
        elif not _NUMBER.keys().isdisjoint(provider.resources):
            below.add(provider.root_provider_uuid)
    capacity = np.full((len(CLASSES), len(roots)), -1, dtype=np.int64)
    used = np.zeros((len(CLASSES), len(roots)), dtype=np.int64)
    sets: dict[tuple[str, ...], int] = {}
    codes = np.empty(len(roots), dtype=np.int32)
    for row, (_, provider) in enumerate(roots):
        codes[row] = sets.setdefault(provider.traits, len(sets))
        for name, number in _NUMBER.items():
            amounts = provider.resources.get(name)
            if amounts is not None:
                capacity[number, row] = min(amounts.capacity, _UNBOUNDED)
                used[number, row] = amounts.used
    alone = np.array([uuid not in below for uuid, _ in roots], dtype=bool)
    traits = tuple(map(frozenset, sets))
    return MirrorSnapshot(tuple(uuid for uuid, _ in roots), capacity, used, traits, codes, alone)


def shares_mirrored_class(traits: Iterable[str], classes: Iterable[str]) -> bool:
    """Whether a provider with these traits and inventories shares a mirrored class with other trees."""
    return SHARING in traits and not _NUMBER.keys().isdisjoint(classes)


@dataclass(frozen=True, slots=True)
class _Change:
    """What was learnt of a provider.

    Attributes:
        at: As of when, in seconds of the clock.
        provider: Its uuid.
        amounts: Amounts by class.
        sign: 1: they are used in addition; -1: no longer; 0: they are all that is used.
    """

    at: float
    provider: str
    amounts: Mapping[str, int]
    sign: int


@dataclass(frozen=True, slots=True)
class MirrorAnswer:
    """The compute nodes that a query may have.

    Attributes:
        snapshot: What was asked.
        rows: Rows of the snapshot that suit, in its order; int64.
        query: The query.
        used: What is used of each class on each node, int64 (classes, nodes).
    """

    snapshot: MirrorSnapshot
    rows: np.ndarray
    query: PlainQuery
    used: np.ndarray

    def usage(self, provider: str) -> Mapping[str, Usage]:
        """Return capacity and usage of a node by class, as they were when the query was answered."""
        row = self.snapshot.row_of_uuid.get(provider)
        if row is None:
            return {}
        return {
            name: Usage(int(self.snapshot.capacity[number, row]), int(self.used[number, row]))
            for name, number in _NUMBER.items()
            if self.snapshot.capacity[number, row] >= 0
        }

    def candidate(self, uuid: str) -> AllocationCandidate:
        """Make the allocation candidate of one node: all that is asked for, from the node itself."""
        allocations = {uuid: {"resources": dict(self.query.amounts)}}
        return AllocationCandidate.of(uuid, (uuid,), allocations, {"": [uuid]})


@dataclass
class Mirror:
    """The latest snapshot, and what was learnt since it was asked for. Any thread may use it.

    ``member_of`` is asked of the caller: which nodes are in one of some aggregates is nova's to say.

    Attributes:
        clock: Seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _snapshot: MirrorSnapshot | None = None
    _used: np.ndarray = field(default_factory=lambda: np.zeros((len(CLASSES), 0), np.int64))
    _changes: list[_Change] = field(default_factory=list)
    _asked_at: float = math.inf
    _refused: dict[tuple[str, str, int], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def drop_changes(self, before: float) -> None:
        """Keep no changes for snapshots that were asked for before a moment.

        So refreshes that fail one after the other let nothing grow.
        """
        with self._lock:
            self._changes = [change for change in self._changes if change.at >= before]

    @property
    def kept_changes(self) -> int:
        """The number of changes and refusals kept for the snapshot that is published next."""
        with self._lock:
            return len(self._changes) + len(self._refused)

    def publish(self, snapshot: MirrorSnapshot, asked_at: float) -> None:
        """Use a snapshot from now on, with all that was learnt since its question was sent."""
        with self._lock:
            self._changes = [change for change in self._changes if change.at >= asked_at]
            self._refused = {refused: at for refused, at in self._refused.items() if at >= asked_at}
            self._snapshot, self._asked_at = snapshot, asked_at
            self._used = snapshot.used.copy()
            for change in self._changes:
                self._apply(change)

    def withdraw(self) -> None:
        """Answer no query until the next snapshot."""
        with self._lock:
            self._snapshot = None
            self._refused.clear()  # they were to hold until the next snapshot

    def claimed(self, allocations: Mapping[str, Mapping[str, Mapping[str, int]]], age: float = 0.0) -> None:
        """Add a claim: provider uuid → ``{"resources": {class: amount}}``, made known ``age`` seconds ago."""
        self._change(allocations, 1, age)

    def released(self, allocations: Mapping[str, Mapping[str, Mapping[str, int]]], age: float = 0.0) -> None:
        """Take away a claim that was added before."""
        self._change(allocations, -1, age)

    def set_used(self, provider: str, usages: Mapping[str, int], asked_at: float) -> None:
        """Set what is used of a provider to what Placement said when it was asked."""
        with self._lock:
            self._learn(_Change(asked_at, provider, usages, 0))

    def refuse(self, provider: str, resource_class: str, amount: int) -> None:
        """Remember until the next snapshot that Placement refused an amount for another reason than usage."""
        with self._lock:
            self._refused[provider, resource_class, amount] = self.clock()

    def forget_provider(self, provider: str) -> None:
        """Offer a provider no more until the next snapshot: Placement says that it does not exist."""
        everything = dict.fromkeys(CLASSES, _UNBOUNDED)
        with self._lock:
            self._learn(_Change(self.clock(), provider, everything, 0))

    def find(self, query: PlainQuery) -> MirrorAnswer | None:
        """Return the nodes that a query may have, aggregates not looked at; None: ask Placement.

        Which is so if there is no snapshot, or if a node that could have it is not alone in its tree.
        """
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None:
                return None
            suits = snapshot.has_traits(query.required, query.forbidden)
            if not snapshot.alone.all():
                return None
            for name, amount in query.amounts.items():
                number = _NUMBER[name]
                suits &= self._used[number] + amount <= snapshot.capacity[number]
            for provider, name, amount in self._refused:
                if query.amounts.get(name) == amount and provider in snapshot.row_of_uuid:
                    suits[snapshot.row_of_uuid[provider]] = False
            return MirrorAnswer(snapshot, np.flatnonzero(suits), query, self._used)

    def _change(
        self, allocations: Mapping[str, Mapping[str, Mapping[str, int]]], sign: int, age: float
    ) -> None:
        with self._lock:
            at = self.clock() - age
            for provider, entry in allocations.items():
                self._learn(_Change(at, provider, entry["resources"], sign))

    def _row_of(self, provider: str) -> int | None:
        return None if self._snapshot is None else self._snapshot.row_of_uuid.get(provider)

    def _learn(self, change: _Change) -> None:
        """Keep a change for the next snapshot, and apply it unless the snapshot has it already."""
        self._changes.append(change)
        if change.at >= self._asked_at:
            self._apply(change)

    def _apply(self, change: _Change) -> None:
        row = self._row_of(change.provider)
        if row is None:
            return
        for name, amount in change.amounts.items():
            if name in _NUMBER:
                used = self._used[_NUMBER[name]]
                used[row] = used[row] + change.sign * amount if change.sign else amount
