"""Why the hosts of a cloud do not suit a request that found no valid host.

When the request ends only what is in memory is used: the mirror's arrays, and the filters, which judge the
hosts that fail one constraint or none. Later Placement is asked for what is left open then: where trees,
sharing providers or numbered groups decide, once without each constraint that may be the one that left no
host, and for a few nodes that the mirror does not know well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
import math
from typing import NamedTuple

import numpy as np
from oslo_log import log as logging

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import (
    ENABLED,
    LEFT_OUT,
    STALE,
    UNKNOWN,
    Part,
    RequestNames,
    parts_of,
)
from scheduler.decisions.document import Constraint, Limit, Reason, Why
from scheduler.decisions.failed_constraints import FailedConstraints
from scheduler.decisions.failure import Failure, KnownHosts
from scheduler.decisions.providers import RecentAnswers
from scheduler.decisions.query_failures import Asking, MirrorJudge
from scheduler.decisions.words import group
from scheduler.filters.chain import FilterChain, PreparedChain, Step
from scheduler.filters.compute_filter import ServiceUp
from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import InstanceSource
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.selection.headroom import Headroom
from scheduler.selection.narrowing import conditions, is_filtered

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds after which the age of the mirror is named: Placement may have changed since.
OLD_MIRROR = 10.0

#: Seconds of one explanation in all.
MOST_SECONDS = 5.0

#: Rejected hosts whose reasons are computed for each filter and set of constraints.
EXPLAINED = 20

#: Hosts whose candidates are compared with what earlier instances have used.
MOST_HOSTS = 1000


class Explanation(NamedTuple):
    """Why no host suits.

    Attributes:
        sets: For each host of the table the index of its set of constraints in ``why.failing``, or -1; int64.
    """

    why: Why
    sets: np.ndarray


@dataclass
class FailureExplainer:
    """Explains failed requests by what is known when they end. Any thread may use it.

    Attributes:
        table: Returns the hosts.
        mirror: What is known of Placement's compute nodes.
        placement: What else is to be known of them is read there.
        chain: Returns the enabled filters.
        is_mapped: Whether a service host has a host mapping.
        pending: What other requests have decided.
        closed: Which hosts a plan leaves out; None: it is no plan.
    """

    table: Callable[[], HostTable]
    mirror: CandidateMirror
    placement: PlacementClient
    chain: Callable[[], FilterChain]
    is_mapped: Callable[[str], bool]
    instances: InstanceSource
    pending: PendingPlacements
    clock: Callable[[], float]
    closed: Callable[[], np.ndarray] | None = None

    def __post_init__(self) -> None:
        self._answers = RecentAnswers(self.placement, self.clock)

    def explain(self, failure: Failure, *, asks: bool = True) -> Explanation:
        """Return for which constraints each host does not suit.

        Args:
            asks: Whether Placement and nova's databases may be read. Without it what they would say is left
                open, and ``Why.incomplete`` says so.
        """
        table = self.table() if failure.offered is None else failure.offered.table
        known = KnownHosts(table, failure, self._answers if asks else None)
        if failure.request.is_rebuild:
            return _explain_rebuild(known)
        with limit_to(Deadline.after(MOST_SECONDS, self.clock)):
            why, sets = self._failed(known).why(known.host, known.cut)
        why.instances = len(failure.request.instance_uuids)
        why.number, why.placed = failure.number + 1, len(failure.placed)
        why.notes, why.incomplete = list(dict.fromkeys(known.notes)), known.incomplete
        if OLD_MIRROR < (age := self.mirror.age()) < math.inf:
            why.notes.append(f"What hosts have in Placement is as of {age:.0f} s before")
        return Explanation(why, sets)

    def failed(self, failure: Failure) -> FailedConstraints:
        """Return what each host of the table fails, by row."""
        return self._failed(KnownHosts(self.table(), failure, self._answers))

    def _failed(self, known: KnownHosts) -> FailedConstraints:
        failure, answers = known.failure, known.answers
        names = RequestNames(failure.request.spec, known.table.aggregates)
        queries = [parts_of(query, names) for query in failure.queries]
        judge = MirrorJudge(known, queries, self.mirror)
        others, query = FailedConstraints(len(known)), judge.failed()
        self._note_cells_and_plan(known, others)
        _note_request(known, others, names.host(""))
        near = query.with_all(others).counts() <= 1
        self._note_filters(known, others, near | (len(known) == 1))
        suitable = ~known.offered & (query.with_all(others).counts() == 0)
        if answers is None:
            judge.leave_open(query, suitable)
        else:
            # what a plan charged is in the mirror only
            if self.closed is None and judge.read_again(answers, suitable):
                query = judge.failed()
            if unjudged := judge.unjudged:
                Asking(known, answers, queries).ask(unjudged, query)
        _note_charges(known, [part for parts in queries for part in parts], query, others)
        query = query.with_all(others)
        # to enable the service of a host that is disabled in Placement only does not help
        stale = query.failed(ENABLED.text) & ~known.table.numbers["service_disabled"]
        query.add(ENABLED, stale, lambda rows: [Reason(STALE, len(rows))])
        self._note_claims(known, query)
        return query

    def _note_cells_and_plan(self, known: KnownHosts, failed: FailedConstraints) -> None:
        table, cell = known.table, known.failure.request.cell_uuid
        if cell is None:
            failed.add(Constraint("in an enabled cell", ConstraintKind.CELL), ~table.cell_enabled)
        else:
            elsewhere = ~known.at(table.in_cell(TableRows(np.arange(len(table))), cell))
            failed.add(Constraint("in the cell of the instance", ConstraintKind.CELL), elsewhere)
        if self.closed is not None:
            failed.add(LEFT_OUT, self.closed())

    def _note_filters(self, known: KnownHosts, failed: FailedConstraints, near: np.ndarray) -> None:
        """Let all filters judge the hosts that were offered, and those that fail one constraint or none."""
        request, ranking, table = known.failure.request, known.failure.ranking, known.table
        if not is_filtered(request.spec):
            return
        if ranking is not None and ranking.narrowed.filtered:
            judged, chain = ranking.narrowed.hosts, ranking.chain
        else:  # no host was left to judge
            judged, chain = None, self.chain().prepare(request)
        _note_pass(known, failed)
        if judged is not None and len(judged):
            # a new view, that has gathered nothing before the request has consumed
            _note_verdicts(known, failed, chain, judged.at(np.arange(len(judged))))
            near = near & ~known.at(judged.table_rows)
        rows = TableRows(np.flatnonzero(near))
        if not len(rows):
            return

        def stand_ins(at: int) -> tuple[AllocationCandidate]:
            """Return a candidate for a host that Placement does not offer."""
            uuid = table.rows[rows[at]].uuid
            return (AllocationCandidate.of(uuid, (uuid,), {}, {"": [uuid]}),)

        view = HostView.of(table, rows, CandidateLists(stand_ins), self.instances, self.pending)
        if judged is not None:
            view.share_instances(judged)
        try:
            if known.answers is not None:
                view.load(chain.needs)
        except Exception as error:  # noqa: BLE001 - whatever a database raises, the request has failed already
            LOG.debug("Cannot read the instances that filters need: %s", error)
        _note_verdicts(known, failed, chain, view)

    def _note_claims(self, known: KnownHosts, failed: FailedConstraints) -> None:
        ranking, near = known.failure.ranking, np.flatnonzero(failed.counts() <= 1).tolist()
        refused = {} if ranking is None else ranking.refusals
        unmapped = known.at([row for row in near if not self.is_mapped(known.host(row))])
        failed.add(Constraint("a host mapping", ConstraintKind.MAPPING), unmapped)

        def reasons(positions: np.ndarray) -> Sequence[Reason]:
            causes = group((uuid, refused[uuid]) for uuid in known.uuids(known.at(positions)))
            return [Reason(cause.text, cause.hosts) for cause in causes]

        mask = known.among(refused) & (failed.counts() == 0)
        failed.add(Constraint("a claim that Placement grants", ConstraintKind.CLAIM), mask, reasons)


def _note_pass(known: KnownHosts, failed: FailedConstraints) -> None:
    """Note what filters rejected while the request was decided.

    Those that narrow what a host offers may not reject the same hosts if they judge again.
    """
    filtered = known.failure.ranking.filtered if known.failure.ranking is not None else None
    for step in filtered.steps if filtered else ():
        if step.judge is not None and not isinstance(step.judge, ServiceUp):
            _note_step(known, failed, step)


def _note_verdicts(
    known: KnownHosts, failed: FailedConstraints, chain: PreparedChain, view: HostView
) -> None:
    """Let all filters judge the hosts of a view."""
    # also those that judge once a request: hosts that they rejected for the first instance are still out
    for rule, judge in chain.rules:
        if judge is None:
            continue
        try:
            verdict = judge.passes(view)
        except Exception as error:  # noqa: BLE001 - of a class of an operator, too
            LOG.debug("Filter %s does not judge the hosts: %s", rule.name, error)
            failed.add(UNKNOWN, known.at(view.table_rows))
            if known.answers is None:  # it may need what is read later
                known.incomplete = True
            else:
                known.notes.append(
                    f"{rule.name} failed on hosts that it had to judge: {type(error).__name__}"
                )
            continue
        kept = np.zeros(len(view), bool) if verdict is None else np.asarray(verdict, bool)
        step = Step(rule, judge, view, kept)
        if isinstance(judge, ServiceUp):
            disabled = known.at(view.table_rows[view.numbers("service_disabled")])
            failed.add(ENABLED, disabled, partial(_reasons, step))
            step = replace(step, kept=judge.up(view))
        _note_step(known, failed, step)


def _note_step(known: KnownHosts, failed: FailedConstraints, step: Step) -> None:
    constraint = Constraint(step.filter.name, ConstraintKind.FILTER, filter=step.filter.name)
    failed.add(constraint, known.at(step.hosts.table_rows[~step.kept]), partial(_reasons, step))


def _reasons(step: Step, rows: np.ndarray) -> list[Reason]:
    """Return why a filter rejects hosts, by their rows; of the first of them."""
    first = np.flatnonzero(np.isin(step.hosts.table_rows, rows))[:EXPLAINED]
    rejected = replace(step, hosts=step.hosts.at(first), kept=np.zeros(len(first), bool))
    pairs = [(row.host, reason) for row, reason in rejected.reasons(EXPLAINED)]
    complete = len(pairs) == len(rows)
    return [Reason(each.text, each.hosts if complete else 0) for each in group(pairs)]


def _explain_rebuild(known: KnownHosts) -> Explanation:
    """Return why the host of a rebuild does not suit: no other host, and no query, was considered."""
    failed = FailedConstraints(len(known))
    _note_pass(known, failed)
    _note_request(known, failed)
    why, sets = failed.among(known.offered).why(known.host)
    why.hosts, why.suitable = int(known.offered.sum()), 0
    return Explanation(why, sets)


def _note_request(
    known: KnownHosts, failed: FailedConstraints, host: str = "the host of the instance"
) -> None:
    for condition in conditions(known.failure.request.spec):
        constraint = (
            Constraint("ignored by the request", ConstraintKind.IGNORED)
            if condition.part == "ignored"
            else Constraint(host, ConstraintKind.HOST)
        )
        failed.add(constraint, ~np.fromiter(map(condition.allows, known.table.rows), bool, len(known)))


def _note_charges(
    known: KnownHosts, parts: Sequence[Part], query: FailedConstraints, others: FailedConstraints
) -> None:
    """Note which amounts the instances before have used up on hosts that were offered."""
    failure = known.failure
    if not failure.placed or failure.answer is None:
        return
    taken = Headroom(failure.answer.usage)
    for _, candidate in failure.placed:
        if candidate is not None:
            taken.plan(candidate)
    counts = query.with_all(others).counts()
    near = np.flatnonzero(known.offered & (counts <= 1))
    left = near[MOST_HOSTS:]
    query.add(UNKNOWN, known.at(left[counts[left] == 0]))  # they would be called suitable
    lacking: dict[int, frozenset[str]] = {}
    for row in near[:MOST_HOSTS].tolist():
        # not those of the view, which filters have narrowed
        candidates = failure.answer.by_root.get(known.table.rows[row].uuid, ())
        lacking[row] = min((taken.lacking(one) for one in candidates), key=len, default=frozenset())
    for part in parts:
        names, before = {name for name, _ in part.amounts}, query.failed(part.constraint.text)
        rows = [row for row, classes in lacking.items() if classes & names and not before[row]]
        query.add(part.constraint, known.at(rows), _used)


def _used(rows: np.ndarray) -> Sequence[Reason]:
    return [Reason("used by the instances before", len(rows), Limit.FREE)]
