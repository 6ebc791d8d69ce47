"""Running the enabled filters over the hosts of a request (spec: filters-and-weighers 1.4, 1.5, 1.7)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from oslo_log import log as logging

from scheduler.filters.base import HostFilter, Judge, all_pass
from scheduler.hosts.request_instances import Needs
from scheduler.hosts.rows import HostRow
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest

# The name under which operators tune and search these messages (spec: filters-and-weighers 1.5).
LOG = logging.getLogger("nova.filters")

# Hosts of each filter that are named one by one at debug level.
SAMPLE = 20

# Characters of a reason: a hint or an extra spec of any length may be quoted in it, for each host.
LONGEST_REASON = 500


@dataclass(frozen=True)
class Step:
    """What one filter did.

    Attributes:
        judge: What it prepared for the request; None if it did not apply.
        hosts: The hosts that it was given.
        kept: Its verdict: bool, shape (hosts,).
    """

    filter: HostFilter
    judge: Judge | None
    hosts: HostView
    kept: np.ndarray

    @property
    def counts(self) -> tuple[int, int]:
        """The number of hosts before and after."""
        return len(self.hosts), int(np.count_nonzero(self.kept))

    def reasons(self, at_most: int = SAMPLE) -> Iterator[tuple[HostRow, str]]:
        """Yield the first rejected hosts with their reasons; true until more is consumed from them."""
        if self.judge is not None:
            rejected = self.hosts.at(np.flatnonzero(~self.kept)[:at_most])
            for index, row in enumerate(rejected.rows):
                yield row, self.judge.reason(rejected.host(index))[:LONGEST_REASON]

    def __str__(self) -> str:
        return "{}: (start: {}, end: {})".format(self.filter.name, *self.counts)


@dataclass(frozen=True)
class Filtered:
    """What a chain did.

    Attributes:
        kept: Their indices in the view that the chain was given.
        steps: What each filter did, in order.
        ended: Whether a filter ended the filtering without a verdict on single hosts.
    """

    hosts: HostView
    kept: np.ndarray
    steps: list[Step] = field(default_factory=list)
    ended: bool = False

    def reasons(self, at_most: int = SAMPLE) -> Iterator[tuple[str, str, str]]:
        """Yield (host, node, ``Filter: reason``) of rejected hosts, at most so many a filter.

        True only until something more is consumed from the hosts.
        """
        for step in self.steps:
            for row, reason in step.reasons(at_most):
                yield row.host, row.nodename, f"{step.filter.name}: {reason}"

    def log_empty(self, instance_uuid: str) -> None:
        """Log which filter left no host for an instance."""
        if len(self.hosts) or not self.steps or self.ended:
            return
        LOG.info("Filter %s returned 0 hosts", self.steps[-1].filter.name)
        text = "Filtering removed all hosts for the request with instance ID '%s'. Filter results: %s"
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug(text, instance_uuid, [(step.filter.name, _names(step)) for step in self.steps])
        LOG.info(text, instance_uuid, [str(step) for step in self.steps])


class FilterChain:
    """The enabled filters in order."""

    def __init__(self, filters: Sequence[HostFilter]) -> None:
        self.filters = tuple(filters)

    def prepare(self, request: SchedulingRequest) -> "PreparedChain":
        """Prepare every filter for a request. Does no I/O."""
        return PreparedChain([(rule, _prepared(rule, request)) for rule in self.filters])


class PreparedChain:
    """The enabled filters in order, prepared for one request.

    Attributes:
        rules: Each filter with its judge; None instead of a judge if the filter does not apply.
        needs: What must be loaded into the view before the chain runs.
    """

    def __init__(self, rules: Sequence[tuple[HostFilter, Judge | None]]) -> None:
        self.rules = tuple(rules)
        self.needs = Needs()
        for rule, judge in self.rules:
            if judge is not None:
                self.needs |= Needs.declared(rule.needs, judge.instance_uuids)

    def run(self, hosts: HostView, index: int = 0, changed: np.ndarray | None = None) -> Filtered:
        """Filter for instance number ``index`` of the request. ``Filtered.log_empty`` logs an empty result.

        Args:
            hosts: The hosts, with what ``needs`` names loaded.
            index: The number of the instance, from 0.
            changed: All of ``hosts`` passed before, and since then only those at these indices (int64) have
                changed; rules that judge a host by itself are run for them alone. None: any may have changed.
        """
        kept = np.arange(len(hosts))
        steps: list[Step] = []
        LOG.debug("Starting with %d host(s)", len(hosts))
        for rule, judge in self.rules:
            if not rule.run_filter_for_index(index):
                continue
            verdict = _verdict(rule, judge, hosts, changed)
            if verdict is None:
                LOG.debug("Filter %s ends the filtering: no host is left", rule.name)
                none = np.zeros(len(hosts), dtype=bool)
                steps.append(Step(rule, judge, hosts, none))
                return Filtered(hosts.where(none), np.flatnonzero(none), steps, ended=True)
            steps.append(Step(rule, judge, hosts, verdict))
            if not verdict.all():
                changed = _moved(changed, verdict)
                hosts, kept = hosts.where(verdict), kept[verdict]
            if not len(hosts):
                break
            LOG.debug("Filter %s returned %d host(s)", rule.name, len(hosts))
        return Filtered(hosts, kept, steps)


def _prepared(rule: HostFilter, request: SchedulingRequest) -> Judge | None:
    if request.is_rebuild and not rule.RUN_ON_REBUILD:
        return None
    try:
        return rule.prepare(request)
    except Exception as error:  # noqa: BLE001 - raised again if hosts reach the rule (1.4)
        fault = error

    def passes(_hosts: HostView) -> np.ndarray:
        raise fault

    return Judge(passes)


def _verdict(
    rule: HostFilter, judge: Judge | None, hosts: HostView, changed: np.ndarray | None
) -> np.ndarray | None:
    if judge is None or not len(hosts):
        return all_pass(hosts)
    if changed is None or not rule.local:
        return judge.passes(hosts)
    verdict = all_pass(hosts)
    if len(changed):
        some = judge.passes(hosts.at(changed))
        if some is None:
            return None
        verdict[changed] = some
    return verdict


def _moved(changed: np.ndarray | None, verdict: np.ndarray) -> np.ndarray | None:
    """Return where the changed hosts are after a verdict; those that it rejects are left out."""
    return None if changed is None else (np.cumsum(verdict) - 1)[changed[verdict[changed]]]


def _names(step: Step) -> list[tuple[str, str]] | None:
    rows = step.hosts.where(step.kept).rows if step.kept.any() else []
    return [(row.host, row.nodename) for row in rows] or None
