"""Hosts whose compute service is enabled and alive (spec: filters-and-weighers 2.3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
import time

import numpy as np
from oslo_config import cfg
from oslo_log import log as logging

from scheduler.conf import service_down_time
from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.coordinates import TableRow, TableRows, ViewIndex
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.logs import RateLimitedLogger
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(f"nova.{__name__}")

NAMED_IN_LOG = 10

Clock = Callable[[], float]
"""Seconds since the epoch."""


class ComputeFilter(HostFilter):
    """Passes hosts whose service is enabled, not forced down, and was seen lately.

    Lately is at most ``service_down_time`` (60) seconds ago. A service that was never seen counts as seen
    when it was created. A time in the future counts as that far in the past: clocks that differ by more than
    the limit make services look down. A ``service_down_time`` not above ``report_interval`` (10) is replaced
    by two and a half intervals.
    """

    run_filter_once_per_request = True

    def __init__(self, conf: cfg.ConfigOpts, clock: Clock = time.time) -> None:
        super().__init__(conf)
        self._clock = clock
        self._warnings = RateLimitedLogger(LOG)

    def prepare(self, request: SchedulingRequest) -> Judge:
        return ServiceUp(service_down_time(self.conf), self._clock(), self._warnings)


@dataclass(frozen=True)
class ServiceUp(Judge):
    """Passes hosts whose service was seen at most ``down_time`` seconds before ``now``, both in seconds.

    Those that are down are named in ``warnings``.
    """

    down_time: float
    now: float
    warnings: RateLimitedLogger | None = None

    def passes(self, hosts: HostView) -> np.ndarray:
        enabled, up = ~hosts.numbers("service_disabled"), self.up(hosts)
        down = np.flatnonzero(enabled & ~up)
        if len(down) and self.warnings:
            names = [row.host for row in hosts.at(down[:NAMED_IN_LOG]).rows]
            text = "Compute services that are down: %d (%s)"
            self.warnings.warning("down", text, len(down), ", ".join(names))
        return enabled & up

    def up(self, hosts: HostView) -> np.ndarray:
        """Return which hosts were seen lately and are not forced down; bool, shape (hosts,)."""
        seen = hosts.numbers("service_seen")
        up: np.ndarray = np.isinf(seen) | (np.abs(self.now - seen) <= self.down_time)
        return up & ~hosts.numbers("service_forced_down")

    def reason(self, host: HostState) -> str:
        service = host.service
        if service["disabled"]:
            return f"service disabled ({service['disabled_reason']})"
        if service["forced_down"]:
            return "service forced down"
        seen = service["last_seen_up"] or service["created_at"]
        if seen is None:
            return "service never seen"
        return f"service last seen {self.now - seen.timestamp():.0f} s ago, limit {self.down_time} s"


class OutOfUse(Enum):
    """Why a host takes no requests whatever they ask for."""

    DISABLED = "service disabled"
    DOWN = "service down"
    CELL_DISABLED = "its cell is disabled"


def out_of_use(
    table: HostTable, rows: TableRows, judge: ServiceUp
) -> Iterator[tuple[TableRow, OutOfUse, str]]:
    """Yield hosts that take no requests, and why, also in words; one may be yielded twice."""
    view = HostView.of(table, rows)
    for index in np.flatnonzero(~judge.passes(view)).tolist():
        disabled = table.numbers["service_disabled"][rows[index]]
        why = OutOfUse.DISABLED if disabled else OutOfUse.DOWN
        yield rows[index], why, judge.reason(view.host(ViewIndex(index)))
    for row in rows[~table.cell_enabled[rows]]:
        yield row, OutOfUse.CELL_DISABLED, OutOfUse.CELL_DISABLED.value
