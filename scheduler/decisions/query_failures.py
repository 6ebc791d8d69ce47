"""Which hosts fail a query: by the mirror, and by Placement where trees or numbered groups decide."""

from collections.abc import Callable, Sequence
from functools import partial, reduce

import msgspec
import numpy as np

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import (
    MORE_THAN_ONE,
    ONE_OR_MORE,
    UNKNOWN,
    Part,
    listed,
    unsynchronized,
    without,
)
from scheduler.decisions.document import Constraint, Limit, Reason
from scheduler.decisions.failed_constraints import NAMED, FailedConstraints
from scheduler.decisions.failure import KnownHosts
from scheduler.decisions.providers import OfferedHosts, RecentAnswers
from scheduler.placement.mirror import Nodes
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES

#: Compute nodes of one kind that are read for one explanation, and queries that are sent.
MOST_READ = 48
MOST_QUESTIONS = 16

#: Tests the names of a set: of traits, or of aggregates.
Test = Callable[[frozenset[str]], bool]


class MirrorJudge:
    """Judges all hosts by what the mirror has of compute nodes: traits, aggregates, amounts and their limits.

    Attributes:
        doubtful: Which hosts may refuse an amount by unit limits that are not known, as of the last
            judgement; bool, shape (hosts,).
        is_exact: Whether the mirror shows all constraints of all queries.
        unjudged: The constraints of the first query that only Placement can judge.
    """

    def __init__(self, known: KnownHosts, queries: Sequence[Sequence[Part]], mirror: CandidateMirror) -> None:
        """Read some nodes that the mirror lacks, if they may be read.

        Args:
            queries: The constraints of each query of the request.
        """
        self._known = known
        self._queries = queries
        self._mirror = mirror
        self.doubtful = known.none()
        aggregates = {
            uuid
            for part in (part for parts in queries for part in parts)
            for parameter, value in part.gone
            if parameter == "member_of"
            for uuid in listed(value)
        }
        # None if the mirror does not show what nodes have
        self._nodes = mirror.known_nodes(aggregates, reads=known.answers is not None) if queries else None
        unjudged = [
            [part for part in parts if part.kind is not ConstraintKind.HOST and not self._shows(part)]
            for parts in queries
        ]
        self.is_exact, self.unjudged = not any(unjudged), unjudged[0] if unjudged else []
        if self._nodes is None:
            return
        uuids = [row.uuid for row in known.table.rows]
        if more := [uuid for uuid in uuids if uuid not in self._nodes.row_of_uuid]:
            self._nodes = self._nodes.with_more(more)
        self._at = self._nodes.rows(uuids)
        self._is_known = ~self._nodes.gone[self._at] & np.isfinite(self._nodes.read_to[self._at])
        unknown = ~self._is_known
        if np.count_nonzero(unknown) > MOST_READ:
            unknown &= ~known.among(mirror.reader.full_nodes)
        if known.answers is None:
            known.incomplete |= bool(unknown.any())
        else:
            self._read(known.answers, unknown)

    def _read(self, answers: RecentAnswers, hosts: np.ndarray, *, again: bool = False) -> bool:
        """Read some hosts; bool, shape (hosts,); return whether one was read."""
        uuids = self._known.uuids(hosts)[:MOST_READ]
        states = answers.states(uuids, again=again)
        for row, uuid in zip(np.flatnonzero(hosts).tolist(), uuids, strict=False):
            if self._nodes is not None and uuid in states:
                self._nodes.set_state(self._at[row], states[uuid])
                self._is_known[row] = True
        return bool(states)

    def _shows(self, part: Part) -> bool:
        if self._nodes is None or part.kind in {ConstraintKind.GROUP, ConstraintKind.HOST}:
            return False
        return part.kind is not ConstraintKind.AMOUNT or part.amounts[0][0] in CLASSES

    def failed(self) -> FailedConstraints:
        """Return what hosts fail of the query that they fail least of."""
        self.doubtful[:] = False
        found = map(self._failed, self._queries)
        return reduce(FailedConstraints.or_easier, found, next(found, FailedConstraints(len(self._known))))

    def _failed(self, parts: Sequence[Part]) -> FailedConstraints:
        failed, known = FailedConstraints(len(self._known)), self._known
        if self._nodes is not None:
            doubtful = known.none()
            for part in filter(self._shows, parts):
                self._judge(self._nodes, part, failed, doubtful)
            self._note_unknown(parts, failed)
            failed.add(UNKNOWN, doubtful)
            self.doubtful |= doubtful
        return failed.among(~known.offered | known.charged)

    def _judge(self, nodes: Nodes, part: Part, failed: FailedConstraints, doubtful: np.ndarray) -> None:
        """Note which hosts fail a part of a query; those that are not known fail nothing."""
        if part.kind is ConstraintKind.AMOUNT:
            name, amount = part.amounts[0]
            refusals = Refusals(nodes, self._at, name, amount, self._known.taken(name, amount))
            refused, has_limits = refusals.mask, nodes.limits_known()[CLASSES.index(name), self._at]
            doubtful |= ~has_limits & ~refused & self._is_known
            failed.add(part.constraint, refused & self._is_known, refusals.reasons)
            return
        is_aggregate = part.parameter == "member_of"
        sets = nodes.aggregates if is_aggregate else nodes.traits
        suits, in_nova = np.ones(len(self._at), bool), np.full(len(self._at), is_aggregate)
        for _, element in part.gone:
            suits &= sets.suits(_test(element))[self._at]
            if is_aggregate:
                in_nova &= self._in_nova(_test(element))
        failed.add(part.constraint, ~suits & ~in_nova & self._is_known)
        failed.add(unsynchronized(part.constraint), ~suits & in_nova & self._is_known)

    def _in_nova(self, test: Test) -> np.ndarray:
        return self._known.table.coded["aggregates"].spread(lambda of_host: test(of_host.uuids))

    def _note_unknown(self, parts: Sequence[Part], failed: FailedConstraints) -> None:
        """Note hosts that the mirror has not: those without free memory, and those without a provider."""
        full = self._known.among(self._mirror.reader.full_nodes) & ~self._is_known
        unread = self._known.among(self._mirror.reader.unread_nodes) & ~self._is_known
        for part in parts:
            if part.kind is ConstraintKind.AMOUNT and part.amounts[0][0] == "MEMORY_MB":
                failed.add(part.constraint, full)
        failed.add(UNKNOWN, full | unread)
        missing = Constraint("a resource provider in Placement", ConstraintKind.PROVIDER)
        failed.add(missing, ~self._is_known & ~full & ~unread)

    def read_again(self, answers: RecentAnswers, suitable: np.ndarray) -> bool:
        """Read hosts of unknown limits, and some that the mirror shows nothing against; bool, shape (hosts,).

        The mirror is older than Placement's answer, by a claim of another scheduler for one.

        Returns:
            Whether one was read.
        """
        return self._read(answers, self.doubtful | suitable if self.is_exact else self.doubtful, again=True)

    def leave_open(self, query: FailedConstraints, suitable: np.ndarray) -> None:
        """Note what hosts may fail of what the mirror does not show: only Placement knows it.

        Args:
            suitable: Hosts that the mirror shows nothing against, and that were not offered.
        """
        known, unjudged = self._known, self.unjudged
        is_open = suitable | self.doubtful
        if unjudged:
            before, answer = query.counts(), known.failure.answer
            certain = len(unjudged) == 1 and self._nodes is not None and not (answer and answer.truncated)
            query.add(unjudged[0].constraint if certain else ONE_OR_MORE, ~known.offered & (before == 0))
            is_open = ~known.offered & (before > 0)
        elif not self.is_exact:
            return
        query.add(UNKNOWN, is_open)
        known.incomplete |= bool(unjudged or is_open.any())


def _test(element: str) -> Test:
    any_of = frozenset(listed(element))
    if element.startswith("!"):
        return any_of.isdisjoint
    return lambda names: not any_of.isdisjoint(names)


class Refusals:
    """Which hosts refuse an amount of one resource class, and by which limit.

    Attributes:
        mask: Which hosts refuse it; bool, shape (hosts,).
    """

    def __init__(self, nodes: Nodes, at: np.ndarray, name: str, amount: int, taken: np.ndarray) -> None:
        number = CLASSES.index(name)
        self._name = name
        capacity, used = nodes.capacity[number][at], nodes.used[number][at] + taken
        step, least, most = (
            limits[number][at] for limits in (nodes.step_size, nodes.min_unit, nodes.max_unit)
        )
        free = capacity - used
        self._most = np.minimum(free, most)
        self._most -= self._most % np.maximum(step, 1)
        self._most[self._most < least] = 0
        # of several limits that refuse it the last one counts
        self._limits = (
            (Limit.FREE, free < amount, free),
            (Limit.CAPACITY, capacity < amount, capacity),
            (Limit.STEP_SIZE, amount % np.maximum(step, 1) != 0, step),
            (Limit.MIN_UNIT, least > amount, least),
            (Limit.MAX_UNIT, most < amount, most),
            (Limit.ABSENT, capacity < 0, capacity),
        )
        self.mask = np.logical_or.reduce([refuses for _, refuses, _ in self._limits])

    def reasons(self, positions: np.ndarray) -> list[Reason]:
        """Return by which limits hosts refuse it."""
        found: list[Reason] = []
        for limit, refuses, value in reversed(self._limits):
            if refuses[positions].any():
                found.insert(0, self._reason(limit, value, positions[refuses[positions]]))
            positions = positions[~refuses[positions]]
        return found

    def _reason(self, limit: Limit, value: np.ndarray, positions: np.ndarray) -> Reason:
        values, hosts = value[positions], len(positions)
        least, most = max(0, int(values.min())), max(0, int(values.max()))
        if limit is Limit.ABSENT:
            return Reason(f"no {self._name}", hosts, limit)
        text = f"{self._name} {limit} {least}" + (f"-{most}" if most > least else "")
        if limit is Limit.FREE:
            text = f"at most {most} {self._name} free"
        if limit not in {Limit.STEP_SIZE, Limit.MIN_UNIT}:  # what another limit refuses is no help
            most = max(0, int(self._most[positions].max()))
        return Reason(text, hosts, limit, most)


class Asking:
    """Finds by queries without one part which hosts fail that part alone, where arrays do not show it."""

    def __init__(self, known: KnownHosts, answers: RecentAnswers, queries: Sequence[Sequence[Part]]) -> None:
        """Query nothing yet.

        Args:
            queries: The constraints of each query of the request.
        """
        self._known = known
        self._answers = answers
        self._queries = queries
        parts = {part.constraint.text: part for parts in queries for part in parts}.values()
        self._parts = [part for part in parts if part.kind is not ConstraintKind.HOST]
        self._questions = 0
        # of one host it is asked in any case
        self._only = known.table.rows[0].uuid if len(known) == 1 else None
        self._named_part = next((part for part in parts if part.kind is ConstraintKind.HOST), None)
        self._named = known.none()
        if self._named_part and not self._only:
            self._named = known.among([self._named_part.value])

    def ask(self, unjudged: Sequence[Part], query: FailedConstraints) -> None:
        """Note which hosts fail a part alone.

        Args:
            unjudged: The parts that the mirror does not show.
        """
        before, fitting, left = query.counts(), self._known.offered.copy(), list[Part]()
        if self._named_part and self._named.any():
            # other hosts may lack nothing but to be the named one, and that one nothing but what others share
            anywhere = self._offered(self._named_part)
            if anywhere is not None:
                fitting |= anywhere & ~self._named
                alternative = anywhere & self._named & ~self._known.offered
                query.add_alternative(self._named_part.constraint, alternative)
        explained = fitting.copy()
        for part in self._parts:
            fails = before == 0 if part in unjudged else query.failed(part.constraint.text) & (before == 1)
            fails &= ~fitting
            if not fails.any():
                continue
            offered = self._offered(part)
            if offered is None:
                left.append(part)
                continue
            if self._named.any():
                # a query for one host leaves out what other providers share with it
                here = self._offered(part, host=self._known.uuids(self._named)[0])
                offered = np.where(self._named, False if here is None else here, offered)
            helped = fails & offered
            is_amount = part.kind is ConstraintKind.AMOUNT and part.amounts[0][0] in CLASSES
            reasons = partial(self._reasons_by_reading, *part.amounts[0]) if is_amount else None
            query.add(part.constraint, helped & ~explained, reasons)
            query.add_alternative(part.constraint, helped & explained, reasons)
            explained |= helped
        rest = (before <= 1) & ~explained
        if len(unjudged) == 1:
            query.add(unjudged[0].constraint, rest)
            query.add(UNKNOWN, rest & (before == 0))
        else:
            query.add(ONE_OR_MORE if left else MORE_THAN_ONE, rest)
        if left:
            words = ", ".join(part.constraint.text for part in left)
            self._known.notes.append(f"Placement was not queried without {words}")

    def _offered(self, part: Part, host: str | None = None) -> np.ndarray | None:
        """Return which hosts Placement offers without a part; None if it has not answered.

        Args:
            host: The one compute node that it is for; None: all that are known.
        """
        known, nodes, is_cut = self._known, frozenset[str](), False
        for query, parts in zip(known.failure.queries, self._queries, strict=True):
            for each in parts:
                if each.constraint == part.constraint:
                    offer = self._offer(without(query, each, host=host or self._only))
                    if offer is None:
                        return None
                    nodes, is_cut = nodes | offer[0], is_cut or offer[1]
        if host is None:
            known.cut[part.constraint.text] = is_cut
        return known.among(nodes)

    def _offer(self, text: str | None) -> OfferedHosts | None:
        if text is None or self._questions >= MOST_QUESTIONS:
            return None
        self._questions += 1
        # what instances took of providers that hosts share, Placement does not count yet
        placed = [one for _, one in self._known.failure.placed if one is not None and len(one.roots) > 1]
        return self._answers.offer(text, placed)

    def _reasons_by_reading(self, name: str, amount: int, rows: np.ndarray) -> Sequence[Reason]:
        """Return the limits by which some hosts refuse an amount; they are read."""
        uuids = [self._known.table.rows[row].uuid for row in rows[:NAMED].tolist()]
        having = [one for one in self._answers.states(uuids).values() if name in one.inventories]
        nodes, here = Nodes(state.uuid for state in having), np.arange(len(having))
        for row, state in enumerate(having):
            nodes.set_state(row, state)
        reasons = Refusals(nodes, here, name, amount, np.zeros(len(having), np.int64)).reasons(here)
        reasons.sort(key=lambda reason: -reason.hosts)  # those of some hosts are not counted
        return [msgspec.structs.replace(each, hosts=0) for each in reasons] if len(rows) > NAMED else reasons
