"""What all filters say of hosts, also of those that an earlier filter rejects or Placement does not offer."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from oslo_log import log as logging

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import UNKNOWN, disabled_constraint
from scheduler.decisions.document import Constraint, Reason
from scheduler.decisions.failed_constraints import FailedConstraints
from scheduler.decisions.failure import KnownHosts
from scheduler.decisions.grouping import group
from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.chain import PreparedChain, Step, reasons_of
from scheduler.filters.compute_filter import ServiceUp
from scheduler.hosts.view import HostView

LOG = logging.getLogger(f"nova.{__name__}")

#: Rejected hosts whose reasons are computed for each filter and set of constraints.
EXPLAINED = 20


class FilterRejections:
    """Notes which hosts filters reject."""

    def __init__(self, known: KnownHosts, failed: FailedConstraints) -> None:
        """Note them in ``failed``."""
        self._known = known
        self._failed = failed

    def note_pass(self, steps: Sequence[Step]) -> None:
        """Note what filters rejected while the request was decided.

        Those that narrow what a host offers may not reject the same hosts if they judge again.
        """
        for step in steps:
            if step.judge is not None and not isinstance(step.judge, ServiceUp):
                self._add(step.filter, step.judge, step.hosts, ~step.kept)

    def note(self, chain: PreparedChain, view: HostView) -> bool:
        """Let all filters judge the hosts of a view; return whether all could."""
        # also those that judge once a request: hosts that they rejected for the first instance are still out
        complete = True
        for rule, judge in chain.rules:
            complete &= judge is None or self._note(rule, judge, view)
        return complete

    def _note(self, rule: HostFilter, judge: Judge, view: HostView) -> bool:
        try:
            verdict = judge.passes(view)
        except Exception as error:  # noqa: BLE001 - of a class of an operator, too
            LOG.debug("Filter %s does not judge the hosts: %s", rule.name, error)
            self._failed.add(UNKNOWN, self._mask(view, np.ones(len(view), bool)))
            return False
        rejected = np.ones(len(view), bool) if verdict is None else ~np.asarray(verdict, bool)
        if isinstance(judge, ServiceUp):
            disabled = self._mask(view, view.numbers("service_disabled"))
            self._failed.add(disabled_constraint(), disabled, partial(_reasons, judge, view))
            rejected = ~judge.up(view)
        self._add(rule, judge, view, rejected)
        return True

    def _add(self, rule: HostFilter, judge: Judge, view: HostView, rejected: np.ndarray) -> None:
        constraint = Constraint(rule.name, ConstraintKind.FILTER, filter=rule.name)
        self._failed.add(constraint, self._mask(view, rejected), partial(_reasons, judge, view))

    def _mask(self, view: HostView, hosts: np.ndarray) -> np.ndarray:
        mask = self._known.none()
        mask[view.table_rows[hosts]] = True
        return mask


def _reasons(judge: Judge, view: HostView, rows: np.ndarray) -> list[Reason]:
    """Return why a filter rejects hosts of a view, by their rows; of the first of them."""
    indices = np.flatnonzero(np.isin(view.table_rows, rows))
    pairs = [(row.host, reason) for row, reason in reasons_of(judge, view.at(indices[:EXPLAINED]))]
    complete = len(pairs) == len(rows)
    return [Reason(each.text, each.hosts if complete else 0) for each in group(pairs)]
