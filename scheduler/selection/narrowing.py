"""What a request itself says of hosts: a destination, hosts to ignore, hosts to force.

spec: filters-and-weighers 1.6. Nothing here depends on a filter; forced hosts even switch the filters off.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from oslo_log import log as logging

from scheduler.hosts.rows import HostRow
from scheduler.hosts.view import HostView
from scheduler.request.reading import read
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


class Condition(NamedTuple):
    """What a part of the request requires of each host by itself.

    Attributes:
        part: ``destination``, ``ignored``, ``hosts`` or ``nodes``; the last two are forced.
        reason: Why other hosts are left out.
        allows: Whether a host may be chosen.
    """

    part: str
    reason: str
    allows: Callable[[HostRow], bool]


def conditions(spec: Any) -> Iterator[Condition]:
    """Yield what a request requires of hosts itself, in the order in which nova applies it."""
    destination = read(spec, "requested_destination")
    if (host := read(destination, "host")) is not None:
        node = read(destination, "node")
        yield Condition(
            "destination",
            f"not the requested destination {host}, {node}",
            lambda row: row.host == host and node in (None, "", row.nodename),
        )
    if names := read(spec, "ignore_hosts"):
        ignored = _lowered(names)
        yield Condition("ignored", "ignored by request", lambda row: row.host.lower() not in ignored)
    if names := read(spec, "force_hosts"):
        forced = _lowered(names)
        reason = f"not in force_hosts {list(names)}"
        yield Condition("hosts", reason, lambda row: row.host.lower() in forced)
    if names := read(spec, "force_nodes"):
        nodes = frozenset(names)
        reason = f"not in force_nodes {list(names)}"
        yield Condition("nodes", reason, lambda row: row.nodename in nodes)


def is_filtered(spec: Any) -> bool:
    """Return whether filters judge the hosts of a request: not if it forces them, unless it is a check."""
    check = (read(spec, "scheduler_hints") or {}).get("_nova_check_type")
    return bool(check or not (read(spec, "force_hosts") or read(spec, "force_nodes")))


def narrow(hosts: HostView, request: SchedulingRequest) -> Narrowed:
    """Apply the requested destination, then ignored, then forced hosts and nodes."""
    spec, excluded, lines = request.spec, list[Exclusion](), list[str]()
    for condition in conditions(spec):
        mask = np.array([condition.allows(row) for row in hosts.rows], dtype=bool)
        dropped, hosts = hosts.at(np.flatnonzero(~mask)), hosts.where(mask)
        if len(dropped):
            excluded.append(Exclusion(condition.reason, dropped))
        if LOG.isEnabledFor(logging.DEBUG):
            for row in dropped.at(range(len(dropped))[:SHOWN]).rows:
                LOG.debug("Rejected: %s (%s) %s", row.host, row.nodename, condition.reason)
        lines.append(_line(condition.part, spec, hosts, dropped))
        if condition.part == "ignored" and not len(hosts):
            return Narrowed(hosts, False, tuple(excluded), tuple(lines))
    return Narrowed(hosts, is_filtered(spec), tuple(excluded), tuple(lines))


def _line(part: str, spec: Any, left: HostView, dropped: HostView) -> str:
    """Return what is logged of a part of the request, in nova's words."""
    if part == "destination":
        host, node = spec.requested_destination.host, spec.requested_destination.node
        if len(left):
            return f"Host filter only checking host {host} and node {node}"
        return f"No hosts matched due to not matching requested destination ({host}, {node})"
    if part == "ignored":
        as_listed = {name.lower(): name for name in spec.ignore_hosts}
        return f"Host filter ignoring hosts: {', '.join(as_listed[row.host.lower()] for row in dropped.rows)}"
    if len(left):
        kept = sorted({row.host if part == "hosts" else row.nodename for row in left.rows})
        return f"Host filter forcing available {part} to {', '.join(kept)}"
    names = list(spec.force_hosts if part == "hosts" else spec.force_nodes)
    return f"No hosts matched due to not matching 'force_{part}' value of '{names}'"


def _lowered(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
