"""What a request itself says of hosts: a destination, hosts to ignore, hosts to force.

spec: filters-and-weighers 1.6. Nothing here depends on a filter; forced hosts even switch the filters off.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from oslo_log import log as logging

from scheduler.hosts.rows import HostRow
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger("nova.scheduler.host_manager")

# Hosts for which a reason is logged.
SHOWN = 20


class Exclusion(NamedTuple):
    """Hosts that a part of the request leaves out, and how this is said."""

    reason: str
    hosts: HostView


@dataclass(frozen=True)
class Narrowed:
    """What a request itself leaves of the hosts.

    Attributes:
        hosts: The hosts that are left.
        filtered: Whether filters are to judge them.
        excluded: The others.
        lines: What is logged of it, in nova's words.
    """

    hosts: HostView
    filtered: bool
    excluded: tuple[Exclusion, ...] = ()
    lines: tuple[str, ...] = ()

    def log(self) -> None:
        for line in self.lines:
            LOG.info("%s", line)


def narrow(hosts: HostView, request: SchedulingRequest) -> Narrowed:
    """Apply the requested destination, then ignored, then forced hosts and nodes."""
    spec, work = request.spec, _Narrowing(hosts)
    lines = [_destination(work, spec.requested_destination), _ignore(work, spec.ignore_hosts or ())]
    if spec.ignore_hosts and not len(work.hosts):
        return work.narrowed(lines, filtered=False)
    forced_hosts, forced_nodes = spec.force_hosts or (), spec.force_nodes or ()
    lines += [
        _force(work, "hosts", forced_hosts, _same_host(forced_hosts)),
        _force(work, "nodes", forced_nodes, lambda row: row.nodename in forced_nodes),
    ]
    check = (spec.scheduler_hints or {}).get("_nova_check_type")
    return work.narrowed(lines, filtered=bool(check or not (forced_hosts or forced_nodes)))


class _Narrowing:
    def __init__(self, hosts: HostView) -> None:
        self.hosts = hosts
        self.excluded: list[Exclusion] = []

    def narrowed(self, lines: Iterable[str], *, filtered: bool) -> Narrowed:
        return Narrowed(self.hosts, filtered, tuple(self.excluded), tuple(filter(None, lines)))

    def keep(self, wanted: Callable[[HostRow], bool], reason: str) -> HostView:
        """Keep the hosts that are wanted; returns those that are not."""
        mask = np.array([wanted(row) for row in self.hosts.rows], dtype=bool)
        dropped = self.hosts.at(np.flatnonzero(~mask))
        self.hosts = self.hosts.where(mask)
        if len(dropped):
            self.excluded.append(Exclusion(reason, dropped))
        if LOG.isEnabledFor(logging.DEBUG):
            for row in dropped.at(range(len(dropped))[:SHOWN]).rows:
                LOG.debug("Rejected: %s (%s) %s", row.host, row.nodename, reason)
        return dropped


def _same_host(names: Iterable[str]) -> Callable[[HostRow], bool]:
    lowered = {name.lower() for name in names}
    return lambda row: row.host.lower() in lowered


def _destination(work: _Narrowing, destination: Any) -> str:
    if not destination or "host" not in destination or destination.host is None:
        return ""
    host, node = destination.host, destination.node
    work.keep(
        lambda row: row.host == host and node in (None, "", row.nodename),
        f"not the requested destination {host}, {node}",
    )
    if len(work.hosts):
        return f"Host filter only checking host {host} and node {node}"
    return f"No hosts matched due to not matching requested destination ({host}, {node})"


def _ignore(work: _Narrowing, names: Iterable[str]) -> str:
    if not names:
        return ""
    as_listed = {name.lower(): name for name in names}
    dropped = work.keep(lambda row: row.host.lower() not in as_listed, "ignored by request")
    return f"Host filter ignoring hosts: {', '.join(as_listed[row.host.lower()] for row in dropped.rows)}"


def _force(work: _Narrowing, what: str, names: Iterable[str], wanted: Callable[[HostRow], bool]) -> str:
    if not names:
        return ""
    work.keep(wanted, f"not in force_{what} {list(names)}")
    if len(work.hosts):
        kept = sorted({row.host if what == "hosts" else row.nodename for row in work.hosts.rows})
        return f"Host filter forcing available {what} to {', '.join(kept)}"
    return f"No hosts matched due to not matching 'force_{what}' value of '{list(names)}'"
