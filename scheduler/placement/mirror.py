"""What Placement knows of all compute nodes, as arrays: candidates without a GET for each request.

One wide question, ``GET /allocation_candidates?resources=MEMORY_MB:1``, returns capacity, usage and traits of
every compute node. A query is answered from that if the answer is exact as of then, which is so under the
conditions that ``plain_query`` checks, and if only compute nodes have mirrored classes; all other queries go
to Placement.

Each node has the *generation* that Placement is expected to name: the one that was read, and one more for
each write of this process. Another generation means that somebody else changed the node, so that it has to be
read again. An expected generation is never too high: where a write and a reading may have overlapped, it is
unknown. Claims that other schedulers announce change the usage, and not the expected generation.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
import math
import threading
import time
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import numpy as np

from scheduler.placement.answer import AllocationCandidate, Usage
from scheduler.placement.errors import QuestionRefused
from scheduler.placement.plain_query import CLASSES, PlainQuery
from scheduler.placement.providers import CLOCKS, MOST_AMOUNT, Inventory, ProviderState

WIDE_QUERY = "resources=MEMORY_MB%3A1"
"""The wide question about all compute nodes."""

NOT_READ = MOST_AMOUNT + 1
"""A ``max_unit`` that no inventory has: the unit limits of the node were not read."""

UNKNOWN = -1
"""A generation that no provider has: the node is read again before it is claimed."""

Allocations = Mapping[str, Mapping[str, Mapping[str, int]]]
"""provider uuid → ``{"resources": {class: amount}}``"""

_NUMBER = {name: number for number, name in enumerate(CLASSES)}

# The arrays of ``Nodes``: those by class with unit limits, and those with one value for each node.
_LIMITS = ("min_unit", "max_unit", "step_size")
_OF_NODES = ("generation", "heard", "read_from", "read_to", "written_at", "gone")

# Beyond all amounts that can be allocated, and small enough to be added up: a capacity is a total that was
# multiplied by an operator's ratio, and may have forty digits.
_UNBOUNDED = int(np.iinfo(np.int64).max // 2)


def wide_query(aggregates: Iterable[str] = ()) -> str:
    """Return the wide question; with aggregates, that for the nodes which are in one of them."""
    any_of = ",".join(sorted(aggregates))
    return f"{urlencode({'member_of': f'in:{any_of}'})}&{WIDE_QUERY}" if any_of else WIDE_QUERY


def is_mirrored(classes: Iterable[str]) -> bool:
    """Whether one of these resource classes is mirrored."""
    return not _NUMBER.keys().isdisjoint(classes)


class CodedSets:
    """A set of names for each row; few of them are distinct."""

    def __init__(self, rows: int) -> None:
        """Give each row the empty set."""
        self._sets: list[frozenset[str]] = [frozenset()]
        self._codes = np.zeros(rows, np.int32)
        self._code_of = {self._sets[0]: 0}

    def __getitem__(self, row: int) -> frozenset[str]:
        return self._sets[self._codes[row]]

    def __setitem__(self, row: int, names: frozenset[str]) -> None:
        self._codes[row] = self._code(names)

    def suits(self, test: Callable[[frozenset[str]], bool]) -> np.ndarray:
        """Return for which rows a set meets a test; bool, shape (rows,)."""
        return np.fromiter(map(test, self._sets), bool, len(self._sets))[self._codes]

    def copied(self) -> "CodedSets":
        """Return a copy that later changes do not change."""
        new = CodedSets(0)
        new._sets, new._codes, new._code_of = self._sets.copy(), self._codes.copy(), self._code_of.copy()
        return new

    def copy(self, rows: np.ndarray, source: "CodedSets", source_rows: np.ndarray) -> None:
        """Take over the sets of other rows."""
        codes = source._codes[source_rows]  # noqa: SLF001 - of the same class
        self._translate(rows, codes, lambda code: source._sets[code])  # noqa: SLF001

    def add_name(self, rows: np.ndarray, name: str) -> None:
        """Add a name to the sets of some rows."""
        self._translate(rows, self._codes[rows], lambda code: self._sets[code] | {name})

    def _translate(self, rows: np.ndarray, codes: np.ndarray, names: Callable[[int], frozenset[str]]) -> None:
        distinct, which = np.unique(codes, return_inverse=True)
        translated = np.array([self._code(names(code)) for code in distinct], np.int32)
        self._codes[rows] = translated[which]

    def _code(self, names: frozenset[str]) -> int:
        code = self._code_of.setdefault(names, len(self._sets))
        if code == len(self._sets):
            self._sets.append(names)
        return code


class Nodes:
    """Compute nodes, one row each.

    Attributes:
        uuids: Their uuids.
        row_of_uuid: The row of each.
        capacity: int64, shape (classes, nodes), overcommit and reservations included; -1 where a node has no
            inventory of the class.
        used: int64, shape (classes, nodes).
        min_unit, max_unit, step_size: int64, shape (classes, nodes); without limits until a node was read
        alone.
        traits: The traits of each.
        aggregates: Those aggregates of each that are known to the mirror, and perhaps others.
        generation: The generation that Placement is expected to name, or ``UNKNOWN``; int64, shape (nodes,).
        heard: Writes of others that were announced since the node was read; int64, shape (nodes,).
        read_from: When the reading of the node began, and ``read_to``, when it ended; seconds, (nodes,).
        written_at: When a write on the node ended last; seconds, shape (nodes,).
        gone: Whether Placement has the node no more; bool, shape (nodes,).
    """

    def __init__(self, uuids: Iterable[str] = ()) -> None:
        """Make rows without inventories, of unknown generation."""
        self.uuids = tuple(uuids)
        self.row_of_uuid = {uuid: row for row, uuid in enumerate(self.uuids)}
        shape = (len(CLASSES), len(self.uuids))
        self.capacity = np.full(shape, -1, np.int64)
        self.used = np.zeros(shape, np.int64)
        self.min_unit = np.ones(shape, np.int64)
        self.max_unit = np.full(shape, NOT_READ, np.int64)
        self.step_size = np.ones(shape, np.int64)
        self.traits = CodedSets(len(self.uuids))
        self.aggregates = CodedSets(len(self.uuids))
        self.generation = np.full(len(self.uuids), UNKNOWN, np.int64)
        self.heard = np.zeros(len(self.uuids), np.int64)
        self.read_from = np.full(len(self.uuids), -math.inf)
        self.read_to = np.full(len(self.uuids), -math.inf)
        self.written_at = np.full(len(self.uuids), -math.inf)
        self.gone = np.zeros(len(self.uuids), bool)

    def __len__(self) -> int:
        return len(self.uuids)

    def copy(self, rows: np.ndarray, source: "Nodes", source_rows: np.ndarray) -> None:
        """Take over all that is known of some nodes, by rows here and there; int64."""
        for name in ("capacity", "used", *_LIMITS, *_OF_NODES):
            getattr(self, name)[..., rows] = getattr(source, name)[..., source_rows]
        self.traits.copy(rows, source.traits, source_rows)
        self.aggregates.copy(rows, source.aggregates, source_rows)

    def copied(self) -> "Nodes":
        """Return a copy that later changes do not change."""
        new = copy(self)
        for name in ("capacity", "used", *_LIMITS, "generation", "gone"):
            setattr(new, name, getattr(self, name).copy())
        new.traits, new.aggregates = self.traits.copied(), self.aggregates.copied()
        return new

    def copy_limits(self, rows: np.ndarray, source: "Nodes", source_rows: np.ndarray) -> None:
        """Take over the unit limits of some nodes."""
        for name in _LIMITS:
            getattr(self, name)[:, rows] = getattr(source, name)[:, source_rows]

    def with_more(self, uuids: Iterable[str]) -> "Nodes":
        """Return these nodes, and further ones without inventories."""
        nodes, known = Nodes((*self.uuids, *uuids)), np.arange(len(self))
        nodes.copy(known, self, known)
        return nodes

    def rows(self, uuids: Collection[str]) -> np.ndarray:
        """Return the row of each node, -1 for one that is not here; int64, shape (uuids,)."""
        return np.fromiter((self.row_of_uuid.get(uuid, -1) for uuid in uuids), np.int64, len(uuids))

    def set_inventory(self, row: int, state: ProviderState) -> None:
        """Set what a node has and what of it is used."""
        for name, number in _NUMBER.items():
            inventory = state.inventories.get(name)
            self.capacity[number, row] = -1 if inventory is None else min(inventory.capacity, _UNBOUNDED)
            self.used[number, row] = state.used.get(name, 0)
        self.set_limits(row, state.inventories)

    def set_limits(self, row: int, inventories: Mapping[str, Inventory]) -> None:
        """Set the unit limits of a node."""
        for name, number in _NUMBER.items():
            if (inventory := inventories.get(name)) is not None:
                self.min_unit[number, row] = min(inventory.min_unit, _UNBOUNDED)
                self.max_unit[number, row] = min(inventory.max_unit, MOST_AMOUNT)
                self.step_size[number, row] = min(inventory.step_size, _UNBOUNDED)

    def set_state(self, row: int, state: ProviderState) -> None:
        """Set what a node has, what of it is used, its traits and its aggregates."""
        self.set_inventory(row, state)
        self.traits[row], self.aggregates[row] = state.traits, state.aggregates

    def limits_known(self) -> np.ndarray:
        """Return which unit limits are known; bool, shape (classes, nodes)."""
        is_known: np.ndarray = self.max_unit != NOT_READ
        return is_known

    def state(self, row: int) -> ProviderState:
        """Return what is known of a node; its inventories have what can be allocated as their totals."""
        inventories = {
            name: Inventory(
                total=int(self.capacity[number, row]),
                min_unit=int(self.min_unit[number, row]),
                max_unit=int(self.max_unit[number, row]),
                step_size=int(self.step_size[number, row]),
            )
            for name, number in _NUMBER.items()
            if self.capacity[number, row] >= 0
        }
        used = {name: int(self.used[number, row]) for name, number in _NUMBER.items()}
        begun = self.read_from[row]
        return ProviderState(
            self.uuids[row],
            int(self.generation[row]),
            inventories,
            used,
            self.traits[row],
            self.aggregates[row],
            since=float(begun) if self.written_at[row] < begun - CLOCKS else -math.inf,
        )

    def add_used(self, row: int, amounts: Mapping[str, int], sign: int) -> None:
        """Count amounts as used, or as no longer used with ``sign`` -1."""
        for name, amount in amounts.items():
            if name in _NUMBER:
                self.used[_NUMBER[name], row] += sign * amount

    def admit(self, query: PlainQuery) -> np.ndarray:
        """Return which nodes meet a query; bool, shape (nodes,)."""
        suits = ~self.gone & self.traits.suits(query.traits_suit)
        if query.aggregates:
            suits &= self.aggregates.suits(query.aggregates_suit)
        for name, amount in query.amounts.items():
            number = _NUMBER[name]
            suits &= self.used[number] + amount <= self.capacity[number]
        return suits & self.limits_admit(query.amounts)

    def limits_admit(self, amounts: Mapping[str, int]) -> np.ndarray:
        """Return the nodes whose unit limits admit the amounts; bool, shape (nodes,)."""
        suits = np.ones(len(self), bool)
        for name, amount in amounts.items():
            number = _NUMBER[name]
            suits &= (self.min_unit[number] <= amount) & (amount <= self.max_unit[number])
            odd = np.flatnonzero(self.step_size[number] > 1)  # few: to divide takes longer than all the rest
            suits[odd] &= amount % self.step_size[number, odd] == 0
        return suits


class _Provider(msgspec.Struct, gc=False):
    root_provider_uuid: str
    resources: dict[str, Usage]
    traits: msgspec.Raw


class _WideBody(msgspec.Struct):
    provider_summaries: dict[str, _Provider]


_wide = msgspec.json.Decoder(_WideBody)
_traits = msgspec.json.Decoder(frozenset[str])


class WideAnswer(NamedTuple):
    """The answer to the wide question.

    Attributes:
        nodes: The roots of the trees that it names.
        children: For each other provider, whether it has a mirrored class.
    """

    nodes: Nodes
    children: Mapping[str, bool]


def read_wide(body: bytes) -> WideAnswer:
    """Read the answer to the wide question.

    Raises:
        QuestionRefused: It is no such answer.
    """
    try:
        providers = _wide.decode(body).provider_summaries
        # Most nodes have the traits of many others: as texts they take little time and memory.
        traits = {text: _traits.decode(text) for text in {bytes(one.traits) for one in providers.values()}}
    except msgspec.DecodeError as error:
        raise QuestionRefused(f"the response of Placement cannot be read: {error}") from error
    roots = {uuid: one for uuid, one in providers.items() if one.root_provider_uuid == uuid}
    nodes = Nodes(roots)
    for row, provider in enumerate(roots.values()):
        nodes.traits[row] = traits[bytes(provider.traits)]
        for name, number in _NUMBER.items():
            amounts = provider.resources.get(name)
            if amounts is not None:
                nodes.capacity[number, row] = min(amounts.capacity, _UNBOUNDED)
                nodes.used[number, row] = amounts.used
    children = {uuid: is_mirrored(one.resources) for uuid, one in providers.items() if uuid not in roots}
    return WideAnswer(nodes, children)


@dataclass(slots=True)
class MirrorAnswer:
    """The compute nodes that a query may have.

    Attributes:
        nodes: All nodes that are mirrored.
        rows: Rows of those that suit; int64.
        query: The query.
        offered: The nodes whose traits and aggregates suit by a later list of Placement; None: there is none.
    """

    nodes: Nodes
    rows: np.ndarray
    query: PlainQuery
    offered: Container[str] | None = None

    @property
    def uuids(self) -> tuple[str, ...]:
        """The uuids of all nodes that are mirrored; ``rows`` are positions in it."""
        return self.nodes.uuids

    def usage(self, provider: str) -> Mapping[str, Usage]:
        """Return capacity and usage of a node by class, as they are known now."""
        row = self.nodes.row_of_uuid.get(provider)
        if row is None:
            return {}
        return {
            name: Usage(int(self.nodes.capacity[number, row]), int(self.nodes.used[number, row]))
            for name, number in _NUMBER.items()
            if self.nodes.capacity[number, row] >= 0
        }

    def candidates(self, uuid: str) -> Sequence[AllocationCandidate]:
        """Make the candidate of one node, which gives all amounts itself; none if it is offered no more."""
        if self.offered is not None and uuid not in self.offered:
            return ()
        allocations = {uuid: {"resources": dict(self.query.amounts)}}
        return (AllocationCandidate.of(uuid, (uuid,), allocations, {"": [uuid]}),)


class Reading(NamedTuple):
    """The begin of a reading of generations.

    Attributes:
        begun: When it began, in seconds of the clock.
        least: The generation that each node has at least if only known writes were carried out; int64
        (nodes,). Nodes that are added later have later rows.
    """

    begun: float
    least: np.ndarray


class Mirror:
    """What is known of the compute nodes. Any thread may use it; one of them publishes and compares.

    Attributes:
        clock: Seconds that only grow.
        known_aggregates: The aggregates whose nodes are known.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet."""
        self.clock = clock
        self._lock = threading.Lock()
        self._nodes = Nodes()
        self.known_aggregates: frozenset[str] = frozenset()
        self._published_at = -math.inf

    def __len__(self) -> int:
        """Return the number of nodes that are mirrored."""
        return len(self._nodes)

    def __contains__(self, uuid: str) -> bool:
        """Whether a node is mirrored."""
        return uuid in self._nodes.row_of_uuid

    # -- answers ---------------------------------------------------------------------------------------------

    def find(self, query: PlainQuery) -> MirrorAnswer:
        """Return the nodes that a query may have; its aggregates are known."""
        with self._lock:
            return MirrorAnswer(self._nodes, np.flatnonzero(self._nodes.admit(query)), query)

    def nodes(self) -> Nodes:
        """Return a copy of all that is known."""
        with self._lock:
            return self._nodes.copied()

    def state(self, uuid: str, query: PlainQuery) -> ProviderState | None:
        """Return what is known of a node, with the generation that Placement is expected to name.

        Returns:
            Its state, of mirrored classes; None: the node has to be read.
        """
        with self._lock:
            row = self._nodes.row_of_uuid.get(uuid)
            if row is None or self._nodes.generation[row] == UNKNOWN:
                return None
            if not query.aggregates <= self.known_aggregates:
                return None
            return self._nodes.state(row)

    # -- what was read ---------------------------------------------------------------------------------------

    def begin_reading(self) -> Reading:
        """Return the generations to compare the next list with."""
        with self._lock:
            known = self._nodes.generation != UNKNOWN
            least = np.where(known, self._nodes.generation + self._nodes.heard, UNKNOWN)
            return Reading(self.clock(), least)

    def publish(
        self,
        nodes: Nodes,
        reading: Reading,
        generations: Mapping[str, int],
        members: Mapping[str, Collection[str]],
    ) -> None:
        """Use the nodes of a wide answer from now on.

        What was learnt of a node since the reading began is kept. A node that the answer does not name, such
        as a full one, stays as it was known if Placement still has it.

        Args:
            reading: The begin of all reading; the list of generations was requested first.
            generations: The generation of each root that Placement has.
            members: The members of each aggregate that is to be known.
        """
        # Nodes that are added meanwhile come behind these, as they are known; the rows of these stay.
        old, listed = self._nodes, len(reading.least)
        absent = [
            uuid for uuid in old.uuids[:listed] if uuid in generations and uuid not in nodes.row_of_uuid
        ]
        new = nodes.with_more(absent) if absent else nodes
        new.generation[:] = [generations.get(uuid, UNKNOWN) for uuid in new.uuids]
        new.read_from[:] = reading.begun
        for aggregate, uuids in members.items():
            rows = new.rows(uuids)
            new.aggregates.add_name(rows[rows >= 0], aggregate)
        old_rows = old.rows(new.uuids)
        known = np.flatnonzero((old_rows >= 0) & (old_rows < listed))
        of_known = old_rows[known]
        with self._lock:
            old = self._nodes
            new.read_to[:] = now = self.clock()
            new.written_at[known] = old.written_at[of_known]
            kept = (known >= len(nodes)) | (old.read_from[of_known] >= reading.begun)
            written = old.written_at[of_known] >= reading.begun
            expected = self._expected(reading, of_known, new.generation[known])
            new.copy_limits(known[expected], old, of_known[expected])  # a wide answer has none
            new.generation[known[written & ~expected]] = UNKNOWN
            kept |= written & expected
            new.copy(known[kept], old, of_known[kept])
            if added := old.uuids[listed:]:
                new = new.with_more(uuid for uuid in added if uuid not in new.row_of_uuid)
                new.copy(new.rows(added), old, np.arange(listed, len(old)))
            self._nodes, self._published_at = new, now
            self.known_aggregates = frozenset(members)

    def _expected(self, reading: Reading, rows: np.ndarray, generations: np.ndarray) -> np.ndarray:
        """Return for which rows known writes explain the generations; bool. The caller holds the lock."""
        nodes, least = self._nodes, reading.least[rows]
        most = nodes.generation[rows] + nodes.heard[rows]
        known = (nodes.generation[rows] != UNKNOWN) & (least != UNKNOWN) & ~nodes.gone[rows]
        return known & (least <= generations) & (generations <= most)

    def compare(self, reading: Reading, listed: Mapping[str, int]) -> list[str]:
        """Return which nodes changed for an unknown reason. Those that the list lacks are not offered.

        Args:
            listed: Root uuid -> generation.
        """
        everywhere = np.arange(len(reading.least))  # a node that was added since may be newer than the list
        uuids = self._nodes.uuids[: len(everywhere)]
        generations = np.fromiter((listed.get(uuid, UNKNOWN) for uuid in uuids), np.int64, len(uuids))
        missing = generations == UNKNOWN
        with self._lock:
            moved = np.flatnonzero(~self._expected(reading, everywhere, generations) & ~missing)
            self._nodes.gone[everywhere] |= missing
        return [uuids[row] for row in moved]

    def correct(self, state: ProviderState, begun: float) -> None:
        """Set what is known of a node to what was read of it alone.

        Args:
            begun: When the reading began, in seconds of the clock.
        """
        with self._lock:
            row = self._nodes.row_of_uuid.get(state.uuid)
            if row is None:
                return
            nodes = self._nodes
            nodes.set_state(row, state)
            overlapped = nodes.written_at[row] >= begun
            nodes.generation[row] = UNKNOWN if overlapped else state.generation
            nodes.heard[row], nodes.gone[row] = 0, False
            nodes.read_from[row], nodes.read_to[row] = begun, self.clock()

    def learn_limits(self, nodes: Nodes) -> None:
        """Take over the unit limits of nodes that are mirrored."""
        with self._lock:
            rows = self._nodes.rows(nodes.uuids)
            known = np.flatnonzero(rows >= 0)
            self._nodes.copy_limits(rows[known], nodes, known)

    def add(self, uuids: Collection[str]) -> None:
        """Mirror further nodes. Each is corrected next."""
        with self._lock:
            more = [uuid for uuid in uuids if uuid not in self._nodes.row_of_uuid]
            if more:
                self._nodes = self._nodes.with_more(more)

    def learn_members(self, aggregate: str, members: Collection[str], begun: float) -> None:
        """Note which nodes are in an aggregate, by a list that was requested at ``begun``."""
        with self._lock:
            nodes = self._nodes
            if self._published_at >= begun:
                return  # the nodes were read later, and without this aggregate
            rows = nodes.rows(members)
            rows = rows[rows >= 0]
            nodes.aggregates.add_name(rows[nodes.read_from[rows] < begun], aggregate)
            self.known_aggregates |= {aggregate}

    # -- what happened ---------------------------------------------------------------------------------------

    def forget(self, uuid: str) -> None:
        """Offer a node no more: Placement says that it does not exist."""
        with self._lock:
            row = self._nodes.row_of_uuid.get(uuid)
            if row is not None:
                self._nodes.gone[row] = True

    def doubt(self, uuids: Iterable[str]) -> None:
        """Let nodes be read again before they are claimed, and in the next round."""
        with self._lock:
            for uuid in uuids:
                row = self._nodes.row_of_uuid.get(uuid)
                if row is not None:
                    self._nodes.generation[row] = UNKNOWN

    def written(self, bodies: Iterable[Mapping[str, Any]], begun: float, *, done: bool | None) -> None:
        """Count a write of allocations of this process.

        Args:
            bodies: What was written for each consumer; see ``allocations.allocations_body``.
            begun: When it was sent, in seconds of the clock.
            done: Whether Placement has carried it out; None: that is not known.
        """
        if done is False:
            return
        with self._lock:
            now = self.clock()
            known: dict[int, bool] = {}
            for body in bodies:
                is_new = not body["consumer_generation"]  # it held nothing before
                for provider, entry in body["allocations"].items():
                    row = self._nodes.row_of_uuid.get(provider)
                    if row is not None:
                        known[row] = known.get(row, True) and bool(done) and is_new
                        if known[row]:
                            self._nodes.add_used(row, entry["resources"], 1)
            for row, is_known in known.items():
                self._nodes.written_at[row] = now
                if not is_known or begun <= self._nodes.read_to[row]:
                    self._nodes.generation[row] = UNKNOWN
                elif self._nodes.generation[row] != UNKNOWN:
                    self._nodes.generation[row] += 1

    def released(self, allocations: Allocations) -> None:
        """Take away what a claim of this process took; the write that releases it follows."""
        with self._lock:
            for provider, entry in allocations.items():
                row = self._nodes.row_of_uuid.get(provider)
                if row is not None:
                    self._nodes.add_used(row, entry["resources"], -1)

    def heard(self, allocations: Allocations, age: float, sign: int) -> None:
        """Count a claim of another scheduler, or with ``sign`` -1 its release.

        Args:
            age: Seconds since it was announced; what was read later has it already.
            sign: 1 or -1.
        """
        with self._lock:
            now = self.clock()
            for provider, entry in allocations.items():
                row = self._nodes.row_of_uuid.get(provider)
                if row is not None and now - age >= self._nodes.read_from[row]:
                    self._nodes.add_used(row, entry["resources"], sign)
                    self._nodes.heard[row] += sign > 0
                    self._nodes.written_at[row] = now
