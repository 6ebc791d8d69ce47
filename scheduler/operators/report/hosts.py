"""The state of each host: whether one more instance of a flavor fits, and what is in its way otherwise."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
import time

import numpy as np

from scheduler import objects
from scheduler.conf import service_down_time
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.document import Constraint, Reason
from scheduler.decisions.words import with_reasons
from scheduler.filters.compute_filter import OutOfUse, ServiceUp, out_of_use
from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.free_amounts import free_amounts
from scheduler.hosts.pending import PendingPlacements
from scheduler.operators.plan.fits import FitOnHost, fits
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.request_specs import NotFound
from scheduler.operators.snapshot.requests import of_flavor


class ReportedState(StrEnum):
    """What a host is good for, in the order of the legend, which has their meanings (``site.MEANINGS``)."""

    ROOM = "room"
    STRANDED = "stranded"
    FULL = "full"
    UNSUITABLE = "unsuitable"
    DOWN = "down"
    DISABLED = "disabled"


#: A full host has too little of so many classes: VCPU, MEMORY_MB and DISK_GB.
AMOUNTS = 3


@dataclass(frozen=True, slots=True)
class ReportedHost:
    """One compute node: ``host`` is its service host, ``node`` its name.

    Attributes:
        words: Why it has no room, or "".
        room: How many more instances of the flavor fit.
        free: What is left of it, by resource class, overcommit included.
        chosen: How many of the decisions have chosen it.
    """

    host: str
    node: str
    cell: str
    zone: str
    state: ReportedState
    words: str
    room: int
    instances: int
    free: Mapping[str, float]
    chosen: int

    @property
    def never_chosen(self) -> bool:
        """Whether it has room, and no decision has chosen it."""
        return self.state is ReportedState.ROOM and not self.chosen

    @property
    def other_node(self) -> str:
        """The name of the node, if it is not that of the host."""
        return self.node if self.node.partition(".")[0] != self.host.partition(".")[0] else ""


@dataclass(frozen=True, slots=True)
class ReportedHosts:
    """All hosts of a cloud, by zone and name, and the flavor that room is for."""

    flavor: str
    states: Sequence[ReportedHost]


def read_hosts(cloud: PlannedCloud, flavors: Sequence[str], chosen: Mapping[str, int]) -> ReportedHosts:
    """Return the state of all hosts.

    Args:
        flavors: Names of flavors; room is counted for the first that exists, or for the smallest of all.
        chosen: How many decisions have chosen a service host.

    Raises:
        BerthError: There is no flavor, or a pre-filter or Placement refuses the request.
    """
    flavor, spec = _first_of(cloud, flavors)
    found = fits(cloud, spec)
    failed = cloud.failed(of_flavor(cloud.snapshot, flavor))
    table = cloud.snapshot.table
    unusable = _unusable(cloud)
    names = cloud.snapshot.cell_names()
    pending = PendingPlacements()
    instances = Counter(cloud.snapshot.instances.rows.tolist())
    states = []
    for number, row in enumerate(table.rows):
        free, fit = free_amounts(table, pending, row.uuid), found.get(number)
        if number in unusable:
            state, words = unusable[number]
        else:
            state, words = _room(fit, failed.of(number))
        states.append(
            ReportedHost(
                row.host,
                row.nodename,
                names.get(row.cell_uuid, row.cell_uuid),
                cloud.snapshot.zone(number),
                state,
                words,
                fit.count if fit and state is ReportedState.ROOM else 0,
                instances[number],
                free,
                chosen.get(row.host, 0),
            )
        )
    return ReportedHosts(flavor, sorted(states, key=lambda one: (one.zone, one.host, one.node)))


def _first_of(cloud: PlannedCloud, flavors: Sequence[str]) -> tuple[str, objects.RequestSpec]:
    for name in flavors:
        with suppress(NotFound):
            return name, of_flavor(cloud.snapshot, name)
    known = cloud.snapshot.stored.flavors
    if not known:
        raise NotFound("There is no flavor in nova's API database")
    smallest = min(known, key=lambda each: (each.memory_mb, each.vcpus, each.name)).name
    return smallest, of_flavor(cloud.snapshot, smallest)


def _unusable(cloud: PlannedCloud) -> dict[int, tuple[ReportedState, str]]:
    """Return the rows of hosts whose services or cells take no part, and why."""
    table = cloud.snapshot.table
    judge = ServiceUp(service_down_time(cloud.conf), time.time())
    return {
        row: (ReportedState.DOWN if why is OutOfUse.DOWN else ReportedState.DISABLED, words)
        for row, why, words in out_of_use(table, TableRows(np.arange(len(table))), judge)
    }


def _room(
    fit: FitOnHost | None, failed: Sequence[tuple[Constraint, Sequence[Reason]]]
) -> tuple[ReportedState, str]:
    """Return what a host is good for, and what is in its way as explanations of requests say it."""
    if fit is not None and fit.count:
        return ReportedState.ROOM, ""
    words = "; ".join(with_reasons(constraint, reasons, 1) for constraint, reasons in failed)
    amounts = sum(constraint.kind == ConstraintKind.AMOUNT for constraint, _ in failed)
    if not failed or amounts < len(failed):
        return ReportedState.UNSUITABLE, words or f"{fit.limit if fit else 'Placement'} excludes it"
    return ReportedState.STRANDED if amounts < AMOUNTS else ReportedState.FULL, words
