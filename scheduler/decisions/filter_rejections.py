"""What all filters say of hosts, also of those that an earlier filter rejects or Placement does not offer."""

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
from scheduler.filters.chain import PreparedChain, reasons_of
from scheduler.filters.compute_filter import ServiceUp
from scheduler.hosts.view import HostView

LOG = logging.getLogger(f"nova.{__name__}")

#: Rejected hosts whose reasons are computed for each filter and set of constraints.
EXPLAINED = 20


def note_pass(known: KnownHosts, failed: FailedConstraints) -> None:
    """Note what filters rejected while the request was decided.

    Those that narrow what a host offers may not reject the same hosts if they judge again.
    """
    for step in known.failure.steps:
        if step.judge is not None and not isinstance(step.judge, ServiceUp):
            _add(known, failed, step.filter, step.judge, step.hosts, ~step.kept)


def note_filters(known: KnownHosts, failed: FailedConstraints, chain: PreparedChain, view: HostView) -> None:
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
            known.incomplete = True
            continue
        rejected = np.ones(len(view), bool) if verdict is None else ~np.asarray(verdict, bool)
        if isinstance(judge, ServiceUp):
            disabled = known.at(view.table_rows[view.numbers("service_disabled")])
            failed.add(disabled_constraint(), disabled, partial(_reasons, judge, view))
            rejected = ~judge.up(view)
        _add(known, failed, rule, judge, view, rejected)


def _add(
    known: KnownHosts,
    failed: FailedConstraints,
    rule: HostFilter,
    judge: Judge,
    view: HostView,
    rejected: np.ndarray,
) -> None:
    constraint = Constraint(rule.name, ConstraintKind.FILTER, filter=rule.name)
    failed.add(constraint, known.at(view.table_rows[rejected]), partial(_reasons, judge, view))


def _reasons(judge: Judge, view: HostView, rows: np.ndarray) -> list[Reason]:
    """Return why a filter rejects hosts of a view, by their rows; of the first of them."""
    indices = np.flatnonzero(np.isin(view.table_rows, rows))
    pairs = [(row.host, reason) for row, reason in reasons_of(judge, view.at(indices[:EXPLAINED]))]
    complete = len(pairs) == len(rows)
    return [Reason(each.text, each.hosts if complete else 0) for each in group(pairs)]
