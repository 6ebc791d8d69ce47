"""Which hosts fail a query: by the mirror, and by Placement where trees or numbered groups decide."""

from collections.abc import Callable, Collection, Sequence
from functools import reduce

import numpy as np

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import MORE_THAN_ONE, ONE_OR_MORE, UNKNOWN, Part, listed, without
from scheduler.decisions.document import Constraint, Reason
from scheduler.decisions.failed_constraints import NAMED, Explain, FailedConstraints, no_reasons
from scheduler.decisions.failure import Failure, Gaps, KnownHosts
from scheduler.decisions.plain_judge import PlainJudge, Refusals
from scheduler.decisions.providers import OfferedHosts, RecentAnswers
from scheduler.placement.mirror import Nodes
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES

#: Compute nodes of one kind that are read for one explanation, and queries that are sent.
MOST_READ = 48
MOST_QUESTIONS = 16


class MirrorJudging:
    """Judges all hosts by what the mirror has of compute nodes."""

    def __init__(
        self,
        known: KnownHosts,
        queries: Sequence[Sequence[Part]],
        mirror: CandidateMirror,
        answers: RecentAnswers | None,
        gaps: Gaps,
    ) -> None:
        """Prepare to judge.

        Args:
            queries: The constraints of each query of the request.
            answers: Reads some nodes that the mirror lacks; None: nothing may be read.
        """
        self._known = known
        self._queries = queries
        self._mirror = mirror
        self._answers = answers
        self._gaps = gaps
        self._judges = [self._judge(parts) for parts in queries]

    @property
    def is_exact(self) -> bool:
        """Whether the mirror shows all constraints of all queries."""
        return not any(map(_unjudged, self._judges, self._queries))

    @property
    def unjudged(self) -> list[Part]:
        """The constraints of the first query that only Placement can judge."""
        return _unjudged(self._judges[0], self._queries[0])

    @property
    def has_nodes(self) -> bool:
        """Whether the mirror shows what nodes have, for the first query."""
        return self._judges[0] is not None

    @property
    def doubtful(self) -> np.ndarray:
        """Which hosts may fail an amount by unit limits that are not known, as of the last judgement."""
        return np.any(
            [judge.doubtful for judge in self._judges if judge is not None] or [self._known.none()], 0
        )

    def failed(self) -> FailedConstraints:
        """Return what hosts fail of the query that they fail least of."""
        found = []
        for judge, parts in zip(self._judges, self._queries, strict=True):
            failed = FailedConstraints(len(self._known))
            if judge is not None:
                judge.doubtful[:] = False
                for part in filter(judge.can_judge, parts):
                    judge.judge(part, failed)
                self._note_unknown(judge.unknown, parts, failed)
                failed.add(UNKNOWN, judge.doubtful)
            found.append(failed.without(self._known.offered & (self._known.charged == 0)))
        return reduce(FailedConstraints.or_easier, found) if found else FailedConstraints(len(self._known))

    def read_again(self, hosts: np.ndarray) -> bool:
        """Read some hosts: of unknown limits, or not offered although the mirror shows nothing against them.

        The mirror is older than Placement's answer, by a claim of another scheduler for one.

        Returns:
            Whether one was read.
        """
        if self._answers is None:
            return False
        uuids = self._known.uuids(hosts)[:MOST_READ]
        states = self._answers.states(uuids, again=True)
        for judge in filter(None, self._judges):
            for row, uuid in zip(np.flatnonzero(hosts).tolist(), uuids, strict=False):
                if state := states.get(uuid):
                    judge.learn(row, state)
        return bool(states)

    def _judge(self, parts: Sequence[Part]) -> PlainJudge | None:
        """Return what judges hosts without a question; None if the mirror does not show what they have."""
        aggregates = {
            uuid
            for part in parts
            for parameter, value in part.gone
            if parameter == "member_of"
            for uuid in listed(value)
        }
        nodes = self._mirror.known_nodes(aggregates, reads=self._answers is not None)
        if nodes is None:
            return None
        uuids = [row.uuid for row in self._known.table.rows]
        at = _known_rows(nodes, uuids)
        full = set(self._mirror.reader.full_nodes)
        unknown = self._known.uuids(at < 0)
        absent = [uuid for uuid in unknown if uuid not in full]
        to_read = unknown if len(unknown) <= MOST_READ else absent[:MOST_READ]
        if self._answers is None:
            self._gaps.incomplete |= bool(absent)
        elif to_read and (states := self._answers.states(to_read)):
            rows = range(len(nodes), len(nodes) + len(states))
            nodes = nodes.with_more(states)
            nodes.read_to[rows.start :] = 0.0
            for row, state in zip(rows, states.values(), strict=True):
                nodes.set_state(row, state)
            at = _known_rows(nodes, uuids)
        return PlainJudge(nodes, at, self._known.charged, self._in_nova)

    def _in_nova(self, test: Callable[[frozenset[str]], bool]) -> np.ndarray:
        return self._known.table.coded["aggregates"].spread(lambda of_host: test(of_host.uuids))

    def _note_unknown(self, unknown: np.ndarray, parts: Sequence[Part], failed: FailedConstraints) -> None:
        """Note hosts that the mirror has not: those without free memory, and those without a provider."""
        full = self._with(self._mirror.reader.full_nodes) & unknown
        unread = self._with(self._mirror.reader.unread_nodes) & unknown
        for part in parts:
            if part.kind is ConstraintKind.AMOUNT and part.amounts[0][0] == "MEMORY_MB":
                failed.add(part.constraint, full)
        failed.add(UNKNOWN, full | unread)
        missing = Constraint("a resource provider in Placement", ConstraintKind.PROVIDER)
        failed.add(missing, unknown & ~full & ~unread)

    def _with(self, uuids: Collection[str]) -> np.ndarray:
        found, row_of = self._known.none(), self._known.table.row_of_uuid
        found[[row_of[uuid] for uuid in uuids if uuid in row_of]] = True
        return found


def _known_rows(nodes: Nodes, uuids: Sequence[str]) -> np.ndarray:
    """Return the row of each node, -1 for one that is gone, or was not read yet; int64, shape (uuids,)."""
    at = nodes.rows(uuids)
    if len(nodes):
        at[(at >= 0) & (nodes.gone[at] | np.isinf(nodes.read_to[at]))] = -1
    return at


def _unjudged(judge: PlainJudge | None, parts: Sequence[Part]) -> list[Part]:
    return [
        part
        for part in parts
        if part.kind is not ConstraintKind.HOST and (judge is None or not judge.can_judge(part))
    ]


def leave_open(query: FailedConstraints, hosts: np.ndarray, gaps: Gaps) -> None:
    """Leave open what hosts fail, bool, shape (hosts,): only Placement knows it."""
    query.add(UNKNOWN, hosts)
    gaps.incomplete |= bool(hosts.any())


def eliminate(
    known: KnownHosts, failure: Failure, judging: MirrorJudging, query: FailedConstraints, gaps: Gaps
) -> None:
    """Note of hosts that were not offered what they may fail of what the mirror does not show."""
    unjudged, answer, before = judging.unjudged, failure.answer, query.counts()
    certain = len(unjudged) == 1 and judging.has_nodes and not (answer and answer.truncated)
    query.add(unjudged[0].constraint if certain else ONE_OR_MORE, ~known.offered & (before == 0))
    leave_open(query, ~known.offered & (before > 0), gaps)
    gaps.incomplete = True


class Asking:
    """Finds by queries without one part which hosts fail that part alone, where arrays do not show it."""

    def __init__(
        self,
        known: KnownHosts,
        failure: Failure,
        parts: Sequence[Part],
        answers: RecentAnswers,
        gaps: Gaps,
    ) -> None:
        """Ask nothing yet.

        Args:
            parts: The constraints of the first query.
        """
        self._known = known
        self._failure = failure
        self._parts = [part for part in parts if part.kind is not ConstraintKind.HOST]
        self._named_part = next((part for part in parts if part.kind is ConstraintKind.HOST), None)
        self._answers = answers
        self._gaps = gaps
        self._questions = 0
        # of one host it is asked in any case
        self._only = known.table.rows[0].uuid if len(known) == 1 else None

    def ask(self, unjudged: Sequence[Part], query: FailedConstraints) -> None:
        """Note which hosts fail a part alone.

        Args:
            unjudged: The parts that the mirror does not show.
        """
        before, fitting, left = query.counts(), self._known.offered.copy(), list[Part]()
        named = self._named()
        if named is not None and self._named_part is not None:
            # other hosts may lack nothing but to be the named one, and that one nothing but what others share
            anywhere = self._offered(self._named_part)[0]
            fitting |= anywhere & ~named
            query.add_alternative(self._named_part.constraint, anywhere & named & ~self._known.offered)
        explained = fitting.copy()
        for part in self._parts:
            fails = before == 0 if part in unjudged else query.failed(part.constraint.text) & (before == 1)
            fails &= ~fitting
            if not fails.any():
                continue
            helped, is_answered = self._helped(part, fails, named)
            if not is_answered:
                left.append(part)
                continue
            reasons = self._reasons_by_reading(part)
            query.add(part.constraint, helped & ~explained, reasons)
            query.add_alternative(part.constraint, helped & explained, reasons)
            explained |= helped
        self._note_rest(unjudged, query, (before <= 1) & ~explained, before, left)

    def _helped(self, part: Part, fails: np.ndarray, named: np.ndarray | None) -> tuple[np.ndarray, bool]:
        """Return which hosts would be offered without a part, and whether Placement was asked."""
        offered, is_answered = self._offered(part)
        helped = fails & offered
        if is_answered and named is not None:
            # a query for one host leaves out what other providers share with it
            here, _ = self._offered(part, host=self._known.uuids(named)[0])
            helped = (helped & ~named) | (fails & named & here)
        return helped, is_answered

    def _note_rest(
        self,
        unjudged: Sequence[Part],
        query: FailedConstraints,
        rest: np.ndarray,
        before: np.ndarray,
        left: Sequence[Part],
    ) -> None:
        """Note hosts that no query has offered."""
        if len(unjudged) == 1:
            query.add(unjudged[0].constraint, rest)
            query.add(UNKNOWN, rest & (before == 0))
        else:
            query.add(ONE_OR_MORE if left else MORE_THAN_ONE, rest)
        if left:
            words = ", ".join(part.constraint.text for part in left)
            self._gaps.notes.append(f"Placement was not queried without {words}")

    def _named(self) -> np.ndarray | None:
        """Return which host the query is for; None if it names none, or if only one host is known."""
        if self._named_part is None or self._only:
            return None
        named = self._known.among([self._named_part.value])
        return named if named.any() else None

    def _offered(self, part: Part, host: str | None = None) -> tuple[np.ndarray, bool]:
        """Return which hosts Placement offers without a part, and whether it was asked and has answered.

        Args:
            host: The one compute node that it is for; None: all that are known.
        """
        text = without(self._failure.queries[0], part, host=host or self._only)
        if text is None or self._questions >= MOST_QUESTIONS:
            return self._known.none(), False
        self._questions += 1
        offer: OfferedHosts | None = self._answers.offer(text, self._failure.shared)
        if offer is None:
            return self._known.none(), False
        if host is None:
            self._gaps.cut[part.constraint.text] = offer.cut
        return self._known.among(offer.nodes), True

    def _reasons_by_reading(self, part: Part) -> Explain:
        """Return what reads some hosts for the limits by which they refuse an amount."""
        if part.kind is not ConstraintKind.AMOUNT or part.amounts[0][0] not in CLASSES:
            return no_reasons
        name, amount = part.amounts[0]

        def reasons(rows: np.ndarray) -> Sequence[Reason]:
            uuids = [self._known.table.rows[row].uuid for row in rows[:NAMED].tolist()]
            having = [one for one in self._answers.states(uuids).values() if name in one.inventories]
            nodes, here = Nodes(state.uuid for state in having), np.arange(len(having))
            for row, state in enumerate(having):
                nodes.set_state(row, state)
            return Refusals(nodes, here, name, amount, np.zeros(len(having), np.int64)).reasons(here)

        return reasons
