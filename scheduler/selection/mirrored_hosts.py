"""The hosts of a request by the mirror of Placement's compute nodes: no query, no object for each host."""

from collections.abc import Callable, Sequence
from functools import partial
import threading

import numpy as np

from scheduler.hosts.coordinates import TableRow, TableRows
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import InstanceSource
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.placement.mirror import MirrorAnswer
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.request.query import Query

DISABLED = "COMPUTE_STATUS_DISABLED"
"""The trait of a compute node whose service is disabled."""


class MirroredHosts:
    """Makes the view of a request from the mirror. Any thread may use it."""

    def __init__(
        self,
        mirror: CandidateMirror,
        instances: InstanceSource,
        pending: PendingPlacements,
        *,
        looks_up: bool = False,
    ) -> None:
        """Set up.

        Args:
            looks_up: Whether compute nodes are read in Placement before the choice if the host table is newer
                than the mirror; not for a cloud as it was at some time.
        """
        self._looks_up = looks_up
        self._mirror = mirror
        self._instances = instances
        self._pending = pending
        self._rows_of: tuple[object, object] = (None, None)
        self._rows = np.empty(0, np.int64)
        self._unseen_of = self._unseen = self._rows
        self._lock = threading.Lock()
        self._last: HostTable | None = None

    def find(
        self, queries: Sequence[Query], table: Callable[[], HostTable], cell_uuid: str | None
    ) -> tuple[HostView, MirrorAnswer] | None:
        """Return the hosts that may have what is asked for.

        Args:
            table: Returns the table that decides. It is called only if the mirror can answer.
            cell_uuid: The one cell that the request may go to; None: any enabled one.

        Returns:
            The hosts and the answer of the mirror; None if Placement has to be asked.
        """
        asked_at, answer = self._pending.now(), self._mirror.find(queries)
        if answer is None:
            return None
        hosts = table()
        self._report_freed(hosts)
        rows = self._rows_in(hosts, answer.uuids)
        if self._looks_up:
            newer = self._newer_nodes(hosts, rows, answer, cell_uuid)
            if newer and self._mirror.look_up(answer.query, newer):
                asked_at, answer = self._pending.now(), self._mirror.find(queries)
                if answer is None:
                    return None
                rows = self._rows_in(hosts, answer.uuids)
        rows = rows[answer.rows]
        known = hosts.in_cell(TableRows(rows[rows >= 0]), cell_uuid)
        left = hosts.with_totals(known, answer.query.amounts)
        lists = CandidateLists(partial(_candidates, hosts, left, answer))
        return HostView.of(hosts, left, lists, self._instances, self._pending, asked_at), answer

    def _newer_nodes(
        self, table: HostTable, rows: np.ndarray, answer: MirrorAnswer, cell_uuid: str | None
    ) -> list[str]:
        """Return the nodes that suit by the table and not by the mirror, since one of them is older.

        Nova's databases have the node, its enabled service or its aggregates a moment before Placement does.

        Args:
            rows: The row of each node of the answer.
        """
        found = [self._unseen_rows(table, rows)]
        nodes, query = answer.nodes, answer.query
        closed = query.forbidden & {DISABLED}
        found.append(rows[nodes.gone | nodes.traits.suits(lambda traits: bool(closed & traits))])
        if query.aggregates:
            found.append(rows[~nodes.aggregates.suits(query.aggregates_suit)])
        all_rows = np.concatenate(found)
        newer = table.in_cell(TableRows(all_rows[all_rows >= 0]), cell_uuid)
        suits = ~(table.numbers["service_disabled"][newer] | table.numbers["service_forced_down"][newer])
        if query.aggregates:
            aggregates = table.coded["aggregates"].take(newer)
            suits &= aggregates.spread(lambda aggregates: query.aggregates_suit(aggregates.uuids))
        return [table.rows[TableRow(int(row))].uuid for row in newer[suits]]

    def _unseen_rows(self, table: HostTable, rows: np.ndarray) -> np.ndarray:
        """Return the rows of nodes that the mirror has not seen in Placement, besides these ``rows``."""
        with self._lock:
            if self._unseen_of is not rows:
                missing = np.ones(len(table), bool)
                missing[rows[rows >= 0]] = False
                has_seen = self._mirror.reader.has_seen
                unseen = [row for row in np.flatnonzero(missing) if not has_seen(table.rows[row].uuid)]
                self._unseen_of, self._unseen = rows, np.array(unseen, np.int64)
            return self._unseen

    def _rows_in(self, table: HostTable, uuids: tuple[str, ...]) -> np.ndarray:
        """Return for each node its row, -1 for one that the table lacks; int64, shape (nodes,)."""
        index = table.row_of_uuid  # the rows are kept while neither changes
        with self._lock:
            if self._rows_of[0] is not uuids or self._rows_of[1] is not index:
                self._rows = np.fromiter((index.get(uuid, -1) for uuid in uuids), np.int64, len(uuids))
                self._rows_of = uuids, index
            return self._rows

    def _report_freed(self, table: HostTable) -> None:
        """Let the mirror read again what is used of nodes that lost instances since the last table."""
        with self._lock:
            last, self._last = self._last, table
        if last is None or last is table or last.row_of_uuid is not table.row_of_uuid:
            return
        before, now = last.numbers["num_instances"], table.numbers["num_instances"]
        if before is not now:
            self._mirror.nodes_changed([table.rows[row].uuid for row in np.flatnonzero(now < before)])


def _candidates(table: HostTable, rows: TableRows, answer: MirrorAnswer, position: int) -> Sequence[object]:
    return answer.candidates(table.rows[TableRow(int(rows[position]))].uuid)
