"""The hosts of one request: the rows of its candidates, and what the request has consumed of them so far.

A root view is made once a request; ``where`` and ``at`` give views of some of its hosts. They share what the
request changes (consumption, narrowed candidates, limits, placed instances) and read it through arrays that
are gathered on first use. A view is used by one thread.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
import math
from typing import Any

import numpy as np

from scheduler.hosts.coordinates import TableRow, TableRows, ViewPosition, ViewPositions
from scheduler.hosts.demands import TOPOLOGY
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.host_state import HostState, claimable
from scheduler.hosts.pending import AMOUNTS, COUNTERS, GUARDED, PendingPlacements
from scheduler.hosts.request_instances import HostKey, InstanceSource, Needs, RequestInstances
from scheduler.hosts.reservations import Reservations
from scheduler.hosts.rows import HostRow
from scheduler.hosts.table import HostTable
from scheduler.numa.usage import InstanceDemand


class CandidateLists(dict[int, Sequence[Any]]):
    """The allocation candidates of each host, by position; made at the first access."""

    def __init__(self, make: Callable[[int], Sequence[Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, position: int) -> Sequence[Any]:
        self[position] = made = self._make(position)
        return made


class _Request:
    """What all views of one request share, indexed by position in the root view."""

    def __init__(
        self,
        table: HostTable,
        rows: TableRows,
        candidates: list[Sequence[Any]] | CandidateLists,
        instances: InstanceSource,
        reservations: Reservations,
    ) -> None:
        self.table = table
        self.rows = rows
        self.candidates = candidates
        self.instances = RequestInstances(instances, table, reservations.pending)
        self.reservations = reservations
        self.numbers = {name: table.numbers[name][rows] for name in AMOUNTS}
        self.writes = 0
        self.coded: dict[str, EncodedColumn] = {}
        self.consumed: dict[ViewPosition, list[InstanceDemand]] = {}
        self.refresh_pending()
        self.limits: dict[int, dict[str, Any]] = {}
        self.limit_columns: dict[str, np.ndarray] = {}

    def refresh_pending(self) -> ViewPositions:
        """Read what other requests have pending; counters include it at once. Return where it has changed."""
        positions, more = self.reservations.catch_up()
        for name in COUNTERS:
            self.numbers[name][positions] += more[AMOUNTS.index(name)]
        if len(positions):
            for name in TOPOLOGY:
                self.coded.pop(name, None)
        return positions

    def column(self, name: str) -> np.ndarray:
        column = self.numbers.get(name)
        if column is None:
            column = self.numbers[name] = self.table.numbers[name][self.rows]
        return column

    def write_number(self, name: str, position: int, value: float) -> None:
        """Write a number of one host for an operator's rule; views have to gather the column again."""
        self.column(name)[position] = value
        self.writes += 1

    def number(self, name: str, position: int) -> float:
        """Return a number of one host, without gathering the column of all."""
        column = self.numbers.get(name)
        return float(self.table.numbers[name][self.rows[position]] if column is None else column[position])

    def coded_column(self, name: str) -> EncodedColumn:
        column = self.coded.get(name)
        if column is None:
            column = self.table.coded[name].take(self.rows)
            self.coded[name] = column = self._with_demands(name, column) if name in TOPOLOGY else column
        return column

    def _with_demands(self, name: str, column: EncodedColumn) -> EncodedColumn:
        """Return a column with what is pending on the hosts, and what the request has consumed of them."""
        positions = list(self.reservations.demands.keys() | self.consumed.keys())
        if not positions:
            return column
        number = TOPOLOGY.index(name)
        values = [self.reservations.topology(at, self.consumed.get(at, ()))[number] for at in positions]
        return column.patched(np.array(positions), values)

    def limits_of(self, position: int) -> dict[str, Any]:
        """Return the limits of one host; what was written for many hosts at once is moved here then."""
        limits = self.limits.setdefault(position, {})
        for name, column in self.limit_columns.items():
            if column[position] is not None:
                limits[name], column[position] = column[position], None
        return limits


class HostView:
    """Some hosts of one request, in order. Rules get one, and answer with arrays of its length."""

    def __init__(
        self,
        shared: _Request,
        positions: ViewPositions,
        states: dict[int, HostState],
        *,
        is_root: bool = False,
    ) -> None:
        """Use ``HostView.of``; ``positions`` are positions in the root view."""
        self._shared = shared
        self._is_root = is_root
        self.positions = positions
        # They refer to what is shared, which does not refer to them: without a cycle the arrays of a request
        # are released when it ends, and not when the garbage collector runs.
        self._states = states
        self._numbers: dict[str, np.ndarray] = {}
        self._writes = 0
        self._coded: dict[str, EncodedColumn] = {}

    @classmethod
    def of(
        cls,
        table: HostTable,
        rows: TableRows,
        candidates: Sequence[Sequence[Any]] | CandidateLists | None = None,
        instances: InstanceSource | None = None,
        pending: PendingPlacements | None = None,
        asked_at: float = math.inf,
    ) -> "HostView":
        """Make the root view of a request.

        Args:
            candidates: For each of them its allocation candidates, best first; None: none.
            instances: Where instances are read; None: there are none.
            pending: What other requests have decided, and where this one notes what it reserves.
            asked_at: When the query for the hosts was sent, as ``Reservations`` wants it.
        """
        lists: list[Sequence[Any]] | CandidateLists
        if isinstance(candidates, CandidateLists):
            lists = candidates
        else:
            lists = [()] * len(rows) if candidates is None else list(candidates)
        pending = PendingPlacements() if pending is None else pending
        reservations = Reservations(pending, table, rows, asked_at)
        shared = _Request(table, rows, lists, instances or InstanceSource(), reservations)
        return cls(shared, ViewPositions(np.arange(len(rows))), {}, is_root=True)

    @property
    def table_rows(self) -> TableRows:
        """The row of the table of each host; shape (hosts,)."""
        return TableRows(self._shared.rows[self.positions])

    def rows_at(self, indices: np.ndarray) -> TableRows:
        """Return the rows of the table of the hosts at these indices."""
        return TableRows(self._shared.rows[self.positions[indices]])

    @property
    def table(self) -> HostTable:
        """The table that the hosts are from."""
        return self._shared.table

    def __len__(self) -> int:
        return len(self.positions)

    def where(self, mask: np.ndarray) -> "HostView":
        """Return the hosts for which ``mask`` (bool, shape (hosts,)) is true; this very view if all are."""
        return self if mask.all() else self._part(self.positions[mask])

    def at(self, indices: Sequence[int] | np.ndarray) -> "HostView":
        """Return the hosts at these indices of this view, in the order of the indices."""
        return self._part(self.positions[np.asarray(indices, dtype=np.int64)])

    def _part(self, positions: np.ndarray) -> "HostView":
        return HostView(self._shared, ViewPositions(positions), self._states)

    # -- columns ---------------------------------------------------------------------------------------------

    def numbers(self, name: str) -> np.ndarray:
        """Return a numeric column (names: ``hosts.columns``), shape (hosts,); it must not be written to."""
        if self._writes != self._shared.writes:
            self._writes = self._shared.writes
            self._numbers.clear()
        column = self._numbers.get(name)
        if column is None:
            column = self._shared.column(name)
            if not self._is_root:
                column = column[self.positions]
            elif name in AMOUNTS:  # which are consumed here and there
                column = column.copy()
            self._numbers[name] = column
        return column

    def expected(self, name: str) -> np.ndarray:
        """Return a number as it will be with the pending placements of other requests; shape (hosts,).

        For weighers: whether an instance still fits is decided by Placement, which knows of these claims.
        """
        if name not in GUARDED:
            return self.numbers(name)
        return self.numbers(name) + self._shared.reservations.others[AMOUNTS.index(name)][self.positions]

    def coded(self, name: str) -> EncodedColumn:
        """Return a dictionary-encoded column (names: ``hosts.columns``)."""
        column = self._coded.get(name)
        if column is None:
            column = self._shared.coded_column(name)
            self._coded[name] = column = column if self._is_root else column.take(self.positions)
        return column

    @cached_property
    def rows(self) -> list:
        """The ``HostRow`` of each host: its identity; its amounts are those before any consumption."""
        table_rows = self._shared.table.rows
        return [table_rows[row] for row in self._shared.rows[self.positions]]

    def row(self, index: int) -> HostRow:
        """Return the ``HostRow`` of one host."""
        return self._shared.table.rows[self._shared.rows[self.positions[index]]]

    def on_hosts(self, names: Iterable[str]) -> np.ndarray:
        """Return which hosts have one of these service host names, exactly; bool, shape (hosts,)."""
        table = self._shared.table
        wanted = np.zeros(len(table), dtype=bool)
        wanted[[row for name in names for row in table.rows_named.get(name, ())]] = True
        return wanted[self._shared.rows[self.positions]]

    # -- instances -------------------------------------------------------------------------------------------

    def load(self, needs: Needs) -> None:
        """Read what rules need besides the table, once a request, before they are run.

        Operators' classes that read ``HostState.instances`` make a host's instances be read then.
        """
        if needs.instance_uuids:
            self._shared.instances.locate(needs.instance_uuids)
        if needs.image_properties:
            self._shared.instances.read_image_properties(self._places())

    def share_instances(self, other: "HostView") -> None:
        """Use what another view of the same request has read and placed."""
        self._shared.instances = other._shared.instances  # noqa: SLF001 - of the same class

    def count_instances(self, uuids: Iterable[str]) -> np.ndarray:
        """Return how many of the given instances each host holds, those placed by this request included.

        Raises:
            LookupError: An instance was not located by ``load``.
        """
        return self._shared.instances.counts(uuids)[self._shared.rows[self.positions]]

    def count_in_table(self, uuids: Iterable[str]) -> np.ndarray:
        """Return the same for all hosts of the table; int64, shape (rows,)."""
        return self._shared.instances.counts(uuids)

    def image_properties(self) -> list[Sequence[Mapping[str, str]]]:
        """Return for each host the image properties (text by name) of each instance on it.

        Instances that this request has placed are not among them.

        Raises:
            LookupError: They were not read by ``load``.
        """
        return self._shared.instances.image_properties(self._places())

    def _places(self) -> list[HostKey]:
        return [(row.cell_uuid, row.host) for row in self.rows]

    # -- single hosts ----------------------------------------------------------------------------------------

    def host(self, index: int) -> HostState:
        """Return one host under nova's attribute names; the same object each time within a request."""
        position = self.position(index)
        state = self._states.get(position)
        if state is None:
            state = self._states[position] = HostState(self._shared, position)
        return state

    def hosts(self) -> list[HostState]:
        """Return all hosts of the view under nova's attribute names."""
        return [self.host(index) for index in range(len(self))]

    def candidates(self, index: int) -> Sequence[Any]:
        """Return the allocation candidates left for a host, best first."""
        left = self._shared.candidates[int(self.positions[index])]
        if isinstance(left, list) and any(isinstance(each, dict) for each in left):
            return claimable(self.host(index), left)
        return left

    def narrow(self, index: int, candidates: Sequence[Any]) -> None:
        """Leave a host only these candidates for the rest of the request."""
        self._shared.candidates[int(self.positions[index])] = candidates

    def limits(self, index: int) -> dict[str, Any]:
        """Return the limits that rules wrote for a host: a dict of its own, writable."""
        return self._shared.limits_of(int(self.positions[index]))

    def set_limits(self, mask: np.ndarray, name: str, values: np.ndarray) -> None:
        """Write a limit for the hosts for which ``mask`` is true; both arrays of shape (hosts,)."""
        column = self._shared.limit_columns.get(name)
        if column is None:
            column = self._shared.limit_columns[name] = np.full(len(self._shared.rows), None)
        column[self.positions[mask]] = values[mask]

    # -- what the request consumes ---------------------------------------------------------------------------

    def consume(self, index: int, **amounts: int) -> None:
        """Add ``amounts`` (by consumed column name, negative to lower) to one host."""
        position = self.positions[index]
        for name, amount in amounts.items():
            self._shared.numbers[name][position] += amount
            if name in self._numbers:
                self._numbers[name][index] += amount

    def replace_value(self, index: int, name: str, value: Any) -> None:
        """Give one host another value in a dictionary-encoded column."""
        column = self._shared.coded_column(name)
        self._shared.coded[name] = column.replaced(int(self.positions[index]), value)
        self._coded.pop(name, None)

    def consume_demand(self, index: int, demand: InstanceDemand, topology: Sequence[Any]) -> None:
        """Give one host other values in the columns ``TOPOLOGY``.

        Args:
            demand: What was consumed of them, which is consumed again when others' placements have changed.
        """
        self._shared.consumed.setdefault(self.position(index), []).append(demand)
        for name, value in zip(TOPOLOGY, topology, strict=True):
            self.replace_value(index, name, value)

    def place_instance(self, index: int, instance_uuid: str) -> None:
        """Count an instance as being on this host from now on (and on all nodes of its service host)."""
        row = TableRow(int(self._shared.rows[self.positions[index]]))
        self._shared.instances.place(instance_uuid, row)

    # -- what requests of the same process do at the same time ---------------------------------------------

    @property
    def reservations(self) -> Reservations:
        """What other requests and this one have reserved on the hosts, by position."""
        return self._shared.reservations

    def position(self, index: int) -> ViewPosition:
        """Return the position of a host in the root view."""
        return ViewPosition(int(self.positions[index]))

    def seems_full(self, index: int, amounts: Mapping[str, int]) -> bool:
        """Return whether a host has probably been filled since Placement offered it; see ``Reservations``."""
        position = self.position(index)
        return self._shared.reservations.seems_full(
            position, amounts, partial(self._shared.number, position=position)
        )

    def refresh_pending(self) -> ViewPositions:
        """Read what others have reserved since; return the positions in the root view of such hosts."""
        positions = self._shared.refresh_pending()
        if len(positions):
            for name in COUNTERS:
                self._numbers.pop(name, None)
            for name in TOPOLOGY:
                self._coded.pop(name, None)
        return positions
