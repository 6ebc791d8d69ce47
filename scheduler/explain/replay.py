"""Reasons and verdicts for the hosts of a recorded decision, given when they are asked for.

The judges of the decision are asked again, about a view with the values that the decision saw. What a judge
reads from the request's progress is restored for that time, which is safe because the request has ended.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from oslo_log import log as logging

from scheduler.explain.record import HostData, Moment, Round, StepRecord
from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.pending import COUNTERS, PendingPlacements
from scheduler.hosts.rows import HostRow
from scheduler.hosts.view import HostView
from scheduler.request.progress import Progress
from scheduler.selection.consume import consumed_amounts

LOG = logging.getLogger(__name__)

PASSED = "passed"
REJECTED = "rejected"
NOT_APPLICABLE = "does not apply"
NOT_RUN = "not run"

#: Reasons that are asked for in one go.
PIECE = 100

EXCLUDED = "the request itself excludes the host"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one filter says of one host.

    Attributes:
        filter: The name of the filter.
        verdict: ``passed``, ``rejected``, ``does not apply`` or ``not run``.
        reason: Why it was rejected, or not run.
        decisive: Whether this filter turned the host down; those after it did not see the host.
    """

    filter: str
    verdict: str
    reason: str = ""
    decisive: bool = False


@dataclass(frozen=True, slots=True)
class StepRejections:
    """The hosts that one filter turned down in one round.

    Attributes:
        step: What the filter did.
        positions: The hosts that it turned down, int64.
        reasons: The reasons of the first of them, as many as were asked for.
    """

    step: StepRecord
    positions: np.ndarray
    reasons: Sequence[str] = ()


def no_pause() -> None:
    """Go on at once."""


class Replay:
    """Explains the hosts of one decision. One thread at a time explains a decision; others wait."""

    def __init__(self, data: HostData, pause: Callable[[], None] = no_pause) -> None:
        """Explain what a record refers to.

        Args:
            data: What a record refers to.
            pause: Called after every ``PIECE`` reasons, so that other threads get the processor.
        """
        self._data = data
        self._pause = pause

    def row(self, position: int) -> HostRow:
        """Return the host at a position."""
        return self._data.table.rows[int(self._data.rows[position])]

    def positions_of(self, name: str) -> list[int]:
        """Return the positions of the offered compute nodes whose host, node name or uuid is this."""
        rows = self._data.table.rows
        return [
            position
            for position, row in enumerate(self._data.rows.tolist())
            if name in (rows[row].host, rows[row].nodename, rows[row].uuid)
        ]

    def allowed(self, position: int) -> bool:
        """Return whether the request itself allows the host: destination, ignored and forced hosts."""
        return not self.exclusion(position)

    def exclusion(self, position: int) -> str:
        """Return why the request itself leaves a host out; "" if it does not."""
        return next((reason for reason, positions in self._data.excluded if position in positions), "")

    def given_to(self, number: int) -> np.ndarray:
        """Return the positions of the hosts that a round began with."""
        data = self._data
        positions = np.arange(len(data.rows))
        for _, out in data.excluded:
            positions = positions[~np.isin(positions, out)]
        for each in data.rounds[:number]:
            for step in each.steps:
                if step.packed is not None:
                    positions = positions[step.kept()]
        return positions

    def rejections(self, number: int, at_most: int | None = None) -> Iterator[StepRejections]:
        """Yield for each filter of a round the hosts that it turned down.

        Args:
            number: The number of the round.
            at_most: How many hosts of each filter are asked for their reason; None: all.
        """
        this = self._data.rounds[number]
        positions = self.given_to(number)
        for step in this.steps:
            if step.packed is None or this.moment is None:
                yield StepRejections(step, positions[:0])
                continue
            kept = step.kept()
            out, positions = positions[~kept], positions[kept]
            yield StepRejections(step, out, self._reasons(this.moment, step, out[:at_most]))

    def rejected(
        self, number: int, at_most: int | None = None
    ) -> Iterator[tuple[StepRecord, list[tuple[HostRow, str]]]]:
        """Yield the same as ``rejections``, by filter: each host that was asked, with its reason."""
        for each in self.rejections(number, at_most):
            asked = zip(each.positions.tolist(), each.reasons, strict=False)
            yield each.step, [(self.row(position), reason) for position, reason in asked]

    def verdicts(self, position: int) -> list[Verdict]:
        """Return what every filter says of a host, in the round that turned it down, else in the last.

        Filters after the one that turned it down are asked now, with the values of that time.
        """
        if not self.allowed(position):
            return [Verdict(rule.name, NOT_RUN, EXCLUDED) for rule, _ in self._data.chain.rules]
        for number, this in enumerate(self._data.rounds):
            step = self._rejecting_step(number, position)
            if step is not None and this.moment is not None:
                with self._at(this.moment):
                    return list(self._all_verdicts(this, this.moment, step, position))
        last = self._data.rounds[-1] if self._data.rounds else None
        return list(self._passed(last)) if last else []

    def _rejecting_step(self, number: int, position: int) -> StepRecord | None:
        positions = self.given_to(number)
        for step in self._data.rounds[number].steps:
            if step.packed is not None:
                kept = step.kept()
                if position in positions[~kept]:
                    return step
                positions = positions[kept]
        return None

    def _passed(self, this: Round) -> Iterator[Verdict]:
        ran = {id(step.rule) for step in this.steps}
        for rule, judge in self._data.chain.rules:
            if id(rule) not in ran:
                yield Verdict(rule.name, NOT_RUN, "the filter runs for the first instance only")
            else:
                yield Verdict(rule.name, NOT_APPLICABLE if judge is None else PASSED)

    def _all_verdicts(
        self, this: Round, moment: Moment, rejecting: StepRecord, position: int
    ) -> Iterator[Verdict]:
        before = True
        for rule, judge in self._data.chain.rules:
            if not rule.run_filter_for_index(this.number):
                yield Verdict(rule.name, NOT_RUN, "the filter runs for the first instance only")
            elif judge is None:
                yield Verdict(rule.name, NOT_APPLICABLE)
            elif rule is rejecting.rule:
                before = False
                yield Verdict(rule.name, REJECTED, self._reason(moment, judge, position), decisive=True)
            elif before:
                yield Verdict(rule.name, PASSED)
            else:
                yield self._asked_now(this, moment, rule, judge, position)

    def _asked_now(
        self, this: Round, moment: Moment, rule: HostFilter, judge: Judge, position: int
    ) -> Verdict:
        if not rule.repeatable:
            return Verdict(rule.name, NOT_RUN, "a class of the operator is not asked again")
        if this.number and self._data.offered is not None:
            return Verdict(rule.name, NOT_RUN, "the candidates of the host at that time are not known")
        try:
            verdict = judge.passes(self._view(moment, [position]))
        except Exception as error:  # noqa: BLE001 - as the request would have ended
            return Verdict(rule.name, NOT_RUN, f"{type(error).__name__}: {error}")
        if verdict is not None and verdict[0]:
            return Verdict(rule.name, PASSED)
        return Verdict(rule.name, REJECTED, self._reason(moment, judge, position))

    def _reasons(self, moment: Moment, step: StepRecord, positions: np.ndarray) -> list[str]:
        reasons: list[str] = []
        for start in range(0, len(positions), PIECE):
            view = self._view(moment, positions[start : start + PIECE])
            with self._at(moment):
                reasons += [_reason(step.judge, view, index) for index in range(len(view))]
            self._pause()
        return reasons

    def _reason(self, moment: Moment, judge: Judge, position: int) -> str:
        return _reason(judge, self._view(moment, [position]), 0)

    def _view(self, moment: Moment, positions: Sequence[int] | np.ndarray) -> HostView:
        """Return these hosts with the values that they had at a moment of the request."""
        data = self._data
        positions = np.asarray(positions, dtype=np.int64)
        offered = data.offered
        candidates = (
            None if offered is None else [offered.offered_candidates(at) for at in positions.tolist()]
        )
        view = HostView.of(
            data.table,
            data.rows[positions].astype(np.int64),
            candidates,
            moment.instances,
            PendingPlacements(),
        )
        index_of = {int(at): index for index, at in enumerate(positions)}
        at, counters = moment.pending
        for column, position in enumerate(at.tolist()):
            if position in index_of:
                amounts = dict(zip(COUNTERS, counters[:, column].tolist(), strict=True))
                view.consume(index_of[position], **amounts)
        for charged in data.consumed[: moment.consumed]:
            if charged.position in index_of:
                index = index_of[charged.position]
                view.consume(index, **consumed_amounts(data.request.flavor))
                for name, value in charged.values.items():
                    view.replace_value(index, name, value)
        view.load(data.chain.needs)
        return view

    @contextmanager
    def _at(self, moment: Moment) -> Iterator[None]:
        progress = self._data.request.progress
        with self._data.lock:
            now = _values(progress)
            _set(progress, _values(moment.progress))
            try:
                yield
            finally:
                _set(progress, now)


def _reason(judge: Judge | None, view: HostView, index: int) -> str:
    try:
        return "" if judge is None else judge.reason(view.host(index))
    except Exception as error:  # noqa: BLE001 - a class of an operator may raise anything
        LOG.debug("A filter gave no reason: %s", error)
        return "rejected"


def _values(progress: Progress) -> dict[str, Any]:
    return {each.name: getattr(progress, each.name) for each in fields(progress)}


def _set(progress: Progress, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(progress, name, value)
