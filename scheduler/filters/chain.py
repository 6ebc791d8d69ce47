"""Running the enabled filters over the hosts of a request (spec: filters-and-weighers 1.4, 1.5, 1.7)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from oslo_log import log as logging

from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

# The name under which operators tune and search these messages (spec: filters-and-weighers 1.5).
LOG = logging.getLogger("nova.filters")

# Hosts of each filter that are asked why, and those that are named with a reason that they share.
SAMPLE = 20
SHOWN = 3


@dataclass(frozen=True)
class Step:
    """What one filter did: the hosts that it was given, and its verdict (bool, shape (hosts,))."""

    filter: HostFilter
    hosts: HostView
    kept: np.ndarray

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.hosts), int(np.count_nonzero(self.kept))

    def turned_down(self, at_most: int = SAMPLE) -> list[HostState]:
        """The first so many."""
        return self.hosts.at(np.flatnonzero(~self.kept)[:at_most]).hosts()

    def __str__(self) -> str:
        return "{}: (start: {}, end: {})".format(self.filter.name, *self.counts)


@dataclass(frozen=True)
class Filtered:
    """The survivors of a chain, their indices in what it was given, and what each filter did, in order."""

    hosts: HostView
    kept: np.ndarray
    steps: list[Step] = field(default_factory=list)

    def reasons(self, request: Any, at_most: int = SAMPLE) -> Iterator[tuple[str, str, str]]:
        """(host, node, ``Filter: reason``) of hosts turned down, at most so many a filter.

        True only until something more is consumed from the hosts.
        """
        for step in self.steps:
            for host in step.turned_down(at_most):
                yield host.host, host.nodename, f"{step.filter.name}: {step.filter.reason(host, request)}"

    def summary(self, request: Any, at_most: int = 3) -> Iterator[str]:
        """``Filter: reason (some hosts)``, at most so many a filter, the commonest first; as ``reasons``."""
        for step in self.steps:
            names = defaultdict(list)
            for host in step.turned_down():
                names[step.filter.reason(host, request)].append(host.host)
            for reason in sorted(names, key=lambda reason: -len(names[reason]))[:at_most]:
                yield f"{step.filter.name}: {reason} ({', '.join(names[reason][:SHOWN])})"


class FilterChain:
    """The enabled filters in order."""

    def __init__(self, filters: Sequence[HostFilter]) -> None:
        self.filters = tuple(filters)

    def run(self, hosts: HostView, request: Any, index: int = 0, changed: int | None = None) -> Filtered:
        """Filter for instance number ``index`` of the request.

        ``changed``: all of ``hosts`` passed for the previous instance, and since then only the host at this
        index was consumed from; rules that judge a host by itself are asked about that host alone.
        """
        kept = np.arange(len(hosts))
        steps: list[Step] = []
        LOG.debug("Starting with %d host(s)", len(hosts))
        for rule in self.filters:
            if not rule.run_filter_for_index(index):
                continue
            verdict = self._ask(rule, hosts, request, changed)
            if verdict is None:
                LOG.debug("Filter %s ends the filtering: no host is left", rule.name)
                return _nobody(hosts, steps, rule)
            steps.append(Step(rule, hosts, verdict))
            if not verdict.all():
                changed = _moved(changed, verdict)
                hosts, kept = hosts.where(verdict), kept[verdict]
            if not len(hosts):
                LOG.info("Filter %s returned 0 hosts", rule.name)
                break
            LOG.debug("Filter %s returned %d host(s)", rule.name, len(hosts))
        if not len(hosts) and self.filters:
            _log_empty(steps, request)
        return Filtered(hosts, kept, steps)

    def _ask(self, rule: HostFilter, hosts: HostView, request: Any, changed: int | None) -> np.ndarray | None:
        verdict = np.ones(len(hosts), dtype=bool)
        if (request.is_rebuild and not rule.RUN_ON_REBUILD) or not rule.applies(request) or not len(hosts):
            return verdict
        if changed is None or not rule.local:
            return rule.passes(hosts, request)
        if changed >= 0:
            one = rule.passes(hosts.at([changed]), request)
            if one is None:
                return None
            verdict[changed] = one[0]
        return verdict


def _nobody(hosts: HostView, steps: list[Step], rule: HostFilter) -> Filtered:
    none = np.zeros(len(hosts), dtype=bool)
    return Filtered(hosts.where(none), np.flatnonzero(none), [*steps, Step(rule, hosts, none)])


def _moved(changed: int | None, verdict: np.ndarray) -> int | None:
    """Where the changed host is after a verdict; -1 once it is gone."""
    if changed is None or changed < 0:
        return changed
    return int(np.count_nonzero(verdict[:changed])) if verdict[changed] else -1


def _log_empty(steps: list[Step], request: Any) -> None:
    text = "Filtering removed all hosts for the request with instance ID '%s'. Filter results: %s"
    uuid = request.instance_uuid
    if LOG.isEnabledFor(logging.DEBUG):
        LOG.debug(text, uuid, [(step.filter.name, _names(step)) for step in steps])
    LOG.info(text, uuid, [str(step) for step in steps])


def _names(step: Step) -> list[tuple[str, str]] | None:
    rows = step.hosts.where(step.kept).rows if step.kept.any() else []
    return [(row.host, row.nodename) for row in rows] or None
