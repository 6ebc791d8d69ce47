"""The one writer of the host table, and the tables that it publishes.

A request says how old its table may be. If the last one is older, the request waits for a refresh, together
with all others. A table that the next requests may find too old is refreshed in the background, so that under
load few requests wait (spec: host-state-and-cells 2.3, 3.9).
"""

from collections.abc import Callable, Iterable, Mapping
import math
import threading
import time
from typing import Any

from cachetools import TTLCache
from oslo_log import log as logging

from scheduler.bounds import deadline
from scheduler.bounds.background import BackgroundLoop
from scheduler.bounds.waits import waiting_for
from scheduler.hosts.table import HostTable
from scheduler.logs import OutageLog, RateLimitedLogger
from scheduler.nova_db.host_reader import HostReader
from scheduler.nova_db.partition_hosts import PartitionHosts

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds between readings when no request comes: the first one after a quiet time then finds few changes.
IDLE_INTERVAL = 10.0

# The next table is begun so many times the time between two requests, and so many times the last reading,
# before the last one is too old. Begun at half the age, databases would be read nearly twice as often.
GAPS, READINGS = 3, 2

# In how many requests the time between two is smoothed.
SMOOTHED = 8

#: Seconds after which what is wrong with hosts, and still is, is reported again.
REPORT_INTERVAL = 86400.0

#: Seconds for which a provider that is no compute node is not looked for again. It may become one later.
FOREIGN_TTL = 30.0
MOST_FOREIGN = 100_000


class HostStore:
    """Publishes host tables. ``start`` it first."""

    def __init__(
        self,
        reader: HostReader,
        partition: PartitionHosts,
        max_age: Callable[[], float],
        before_publishing: Callable[[HostTable], None] = lambda _table: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the writer; nothing is read yet.

        Args:
            reader: Reads the hosts, by the same clock.
            max_age: Returns the seconds that a table may be old if a request does not say.
            before_publishing: Called with each new table, before requests have it.
        """
        self._reader = reader
        self._partition = partition
        self._max_age = max_age
        self._before_publishing = before_publishing
        self._clock = clock
        self._table = HostTable((), {}, partition.all_aggregates, read_at=float("-inf"))
        self._changed = threading.Condition()
        self._wanted = clock()
        self._arrived_at = -math.inf
        self._gap = math.inf
        self._reading_seconds = 0.0
        self._idle_until = float("-inf")
        self._stopped = False
        self._started_at = math.inf
        self._loop = BackgroundLoop("host-table", self._refresh_if_due)
        self._foreign: TTLCache[str, None] = TTLCache(MOST_FOREIGN, FOREIGN_TTL, clock)
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, clock)
        self._late = OutageLog(
            LOG,
            "Reading the hosts timed out; using the last known ones",
            "Hosts are read in time again",
            clock,
        )

    def __len__(self) -> int:
        """Return the number of compute nodes in the last table."""
        return len(self._table)

    def start(self) -> None:
        """Start the writer."""
        self._stopped = False
        self._started_at = self._clock()
        self._loop.start()

    def stop(self) -> None:
        """Stop the writer. Requests get the last table from then on."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._loop.stop()

    def clear_foreign_providers(self) -> None:
        """Look again for providers that were no compute nodes."""
        with self._changed:
            self._foreign.clear()

    def begin_reading(self, max_age: float) -> None:
        """Begin to read if the next request may find the last table too old; do not wait for it."""
        with self._changed:
            self._want(self._clock(), max_age)

    def snapshot(self, max_age: float | None = None, arrived_at: float | None = None) -> HostTable:
        """Return a table, at the deadline of the request at the latest.

        What cannot be read in time is not in it, or is as it was last read.

        Args:
            max_age: Seconds from the begin of its reading to the arrival of the request at most; 0: it begins
                after that.
            arrived_at: When the request arrived, in seconds of the clock; None: now.
        """
        max_age = self._max_age() if max_age is None else max_age
        now = self._clock()
        arrived_at = now if arrived_at is None else min(arrived_at, now)  # no table is read after now
        with self._changed:
            self._want(arrived_at, max_age)
            timeout = self._refresh_timeout()
            patience = deadline.current().bound(timeout)
            with waiting_for("a new host table"):
                since = arrived_at - max_age
                in_time = self._changed.wait_for(
                    lambda: self._stopped or self._table.read_at >= since, patience
                )
            if in_time:
                self._late.report_success()
            elif patience == timeout:
                self._late.report_failure(TimeoutError(f"no new table within {timeout:g} seconds"))
            aggregates = self._partition.all_aggregates
            if self._table.aggregates is not aggregates:  # they were read after the table
                self._table = self._table.with_aggregates(aggregates)
            return self._table

    def complete(self, table: HostTable, uuids: Iterable[str]) -> HostTable:
        """Look for compute nodes that a table lacks.

        A provider that is not in the table may be a node that was just created, or no compute node at all.

        Args:
            uuids: Uuids of root resource providers.

        Returns:
            A newer table if one of the providers is a compute node of some cell, else ``table``.
        """
        missing = [
            uuid for uuid in uuids if uuid not in table.row_of_uuid and uuid not in table.without_service
        ]
        with self._changed:
            missing = [uuid for uuid in missing if uuid not in self._foreign]
        if not missing:
            return table
        begun = self._clock()
        newer = self.snapshot(0)
        absent = [uuid for uuid in missing if uuid not in newer.row_of_uuid]
        foreign = [uuid for uuid in absent if uuid not in newer.without_service]
        with self._changed:
            self._foreign.update(dict.fromkeys(foreign))
        if newer.read_at >= begun and self._reader.is_complete:
            report_foreign(foreign, self._reports)
        return newer if len(absent) < len(missing) else table

    def overdue(self) -> float:
        """Return the seconds by which the next table is late, however slow the databases are."""
        longest = IDLE_INTERVAL + self._refresh_timeout()
        begun = max(self._table.read_at, self._started_at)
        return max(0.0, self._clock() - begun - longest)

    # -- the writer ------------------------------------------------------------------------------------------

    def refresh(self) -> HostTable:
        """Read what changed and publish the next table. Only the writer calls this."""
        begun = self._clock()
        self._reader.read()
        table = self._reader.next_table(self._table)
        previous = self._table
        try:
            self._before_publishing(table)
        finally:
            with self._changed:
                self._reading_seconds = self._clock() - begun
                self._table = table
                self._changed.notify_all()
        if len(previous) != len(table):
            report_duplicates(table, self._reports)
        if previous.without_service.keys() != table.without_service.keys():
            report_without_service(table, self._reports)
        return table

    def _refresh_if_due(self) -> float:
        """Refresh if a request wants a newer table, or after an idle time. Return the seconds to wait."""
        now = self._clock()
        remaining = self._idle_until - now
        if remaining > 0 and self._wanted <= self._table.read_at:
            return remaining
        self.refresh()
        self._idle_until = self._clock() + IDLE_INTERVAL
        return 0.0

    # -- details ---------------------------------------------------------------------------------------------

    def _want(self, arrived_at: float, max_age: float) -> None:
        """Wake the writer if the next request may find the table too old. The caller holds the lock.

        At half its age that is so in any case.
        """
        if 0 < max_age < math.inf:
            gap = min(max_age, max(0.0, arrived_at - self._arrived_at))
            self._gap = min(max_age, self._gap)
            self._gap += (gap - self._gap) / SMOOTHED
            self._arrived_at = max(arrived_at, self._arrived_at)
        spare = min(max_age / 2, GAPS * self._gap + READINGS * self._reading_seconds)
        wanted = arrived_at - (max_age - spare)
        if self._table.read_at < wanted:
            self._wanted = max(self._wanted, wanted)
            self._loop.wake()

    def _refresh_timeout(self) -> float:
        """Return the seconds for a refresh that has begun and the next one, and one more timeout to spare."""
        return 3 * self._reader.timeout() + 1


def report_duplicates(table: HostTable, log: RateLimitedLogger) -> None:
    """Log what should be unique over all cells and is not (spec: host-state-and-cells 2.4, 8 (6)).

    These are hosts that are in several cells, and node names and uuids that several nodes have.
    """
    for host, cells in _several((row.host, row.cell_uuid) for row in table.rows).items():
        log.warning(("host", host), "Compute service %s is in several cells: %s", host, ", ".join(cells))
    for node, uuids in _several((row.nodename, row.uuid) for row in table.rows).items():
        log.warning(("node", node), "Several compute nodes are called %s: %s", node, ", ".join(uuids))
    for uuid, cells in _several((row.uuid, row.cell_uuid) for row in table.rows).items():
        log.warning(("uuid", uuid), "Compute node %s is in several cells: %s", uuid, ", ".join(cells))


def report_without_service(table: HostTable, log: RateLimitedLogger) -> None:
    """Log the hosts that have compute nodes and no compute service."""
    for host, uuid in {row.host: uuid for uuid, row in table.without_service.items()}.items():
        text = "Host %s has no compute service record and gets no instances (compute node %s)"
        log.warning(("service", host), text, host, uuid)


def report_foreign(uuids: Iterable[str], log: RateLimitedLogger) -> None:
    """Log root providers of Placement that are no compute nodes of any cell."""
    new = [uuid for uuid in uuids if log.admit(("foreign", uuid)) is not None]
    if new:
        LOG.info(
            "Resource providers in Placement that are not compute nodes: %d, such as %s", len(new), new[0]
        )


def _several(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[Any]]:
    """Return the keys that go with more than one distinct value."""
    values_of: dict[str, set[str]] = {}
    for key, value in pairs:
        values_of.setdefault(key, set()).add(value)
    return {key: sorted(values) for key, values in values_of.items() if len(values) > 1}
