"""The hosts of one request: the rows of its candidates, and what the request has consumed of them so far.

A root view is made once a request; ``where`` and ``at`` give views of some of its hosts. They share what the
request changes (consumption, narrowed candidates, limits, placed instances) and read it through arrays that
are gathered on first use. A view is used by one thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from scheduler.hosts.coded import Coded
from scheduler.hosts.host_state import HostState
from scheduler.hosts.pending import AMOUNTS, COUNTERS, Pending
from scheduler.hosts.rows import HostRow
from scheduler.hosts.table import HostTable


class InstanceSource(Protocol):
    """Where instances are; implemented over the cells' databases."""

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[tuple[str, str]]]:
        """(cell uuid, service host) of each of the given instances that is on some host."""

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, Any]:
        """All instances of one service host, as small objects with ``uuid``, by uuid."""

    def image_properties(
        self, places: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Sequence[Mapping[str, str]]]:
        """Image properties (text by name, as stored) of each instance, by (cell uuid, service host)."""


class NoInstances:
    """An ``InstanceSource`` of a cloud without instances."""

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[tuple[str, str]]]:
        return {}

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, Any]:
        return {}

    def image_properties(
        self, places: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Sequence[Mapping[str, str]]]:
        return {}


class _Request:
    """What all views of one request share, indexed by position in the root view.

    Where instances are is kept by row of the table, so that hosts outside the view need no care.
    """

    def __init__(
        self,
        table: HostTable,
        rows: np.ndarray,
        candidates: list,
        instances: InstanceSource,
        pending: Pending,
    ) -> None:
        self.table = table
        self.rows = rows
        self.candidates = candidates
        self.instances = instances
        self.pending = pending
        self.numbers = {name: table.numbers[name][rows] for name in AMOUNTS}
        self.others = np.zeros((len(AMOUNTS), len(rows)), np.int64)  # what other requests have pending
        self.own = np.zeros_like(self.others)  # and what this one has
        self.reserved: dict[str, tuple[int, np.ndarray]] = {}
        self.catch_up()
        self.coded: dict[str, Coded] = {}
        self.limits: dict[int, dict[str, Any]] = {}
        self.limit_columns: dict[str, np.ndarray] = {}
        self.states: dict[int, HostState] = {}
        self.placed: dict[str, set[int]] = {}
        self.located: dict[str, list[int]] = {}
        self.images: dict[tuple[str, str], Sequence[Mapping[str, str]]] = {}

    def catch_up(self) -> None:
        """Look again at what other requests have pending; counters show it at once."""
        others = self.pending.over(self.table, self.rows) - self.own
        for name in COUNTERS:
            number = AMOUNTS.index(name)
            self.numbers[name] += others[number] - self.others[number]
        self.others = others

    def column(self, name: str) -> np.ndarray:
        column = self.numbers.get(name)
        if column is None:
            column = self.numbers[name] = self.table.numbers[name][self.rows]
        return column

    def coded_column(self, name: str) -> Coded:
        column = self.coded.get(name)
        if column is None:
            column = self.coded[name] = self.table.coded[name].take(self.rows)
        return column

    def limits_of(self, position: int) -> dict[str, Any]:
        """The limits of one host; what was written for many hosts at once moves here when it is asked for."""
        limits = self.limits.setdefault(position, {})
        for name, column in self.limit_columns.items():
            if column[position] is not None:
                limits[name], column[position] = column[position], None
        return limits

    def rows_holding(self, uuid: str) -> set[int]:
        """Rows of the hosts that hold an instance, now or by this request's or another's choice."""
        return self.placed.get(uuid, set()).union(self.located.get(uuid, ()), self._rows_expecting(uuid))

    def _rows_expecting(self, uuid: str) -> Sequence[int]:
        row = self.table.row_of_uuid.get(self.pending.node_of(uuid))
        return () if row is None else self.table.rows_beside(row)

    def locate(self, uuids: Iterable[str]) -> None:
        """Look up where instances are, once for each."""
        unknown = [uuid for uuid in dict.fromkeys(uuids) if uuid not in self.located]
        if not unknown:
            return
        found = self.instances.locate(unknown)
        for uuid in unknown:
            places = found.get(uuid, ())
            self.located[uuid] = [row for place in places for row in self.table.rows_of_host.get(place, ())]


class HostView:
    """Some hosts of one request, in order. Rules get one, and answer with arrays of its length."""

    def __init__(self, shared: _Request, positions: np.ndarray) -> None:
        """Use ``HostView.of``; ``positions`` are positions in the root view."""
        self._shared = shared
        self.positions = positions
        self._numbers: dict[str, np.ndarray] = {}
        self._coded: dict[str, Coded] = {}

    @classmethod
    def of(
        cls,
        table: HostTable,
        rows: np.ndarray,
        candidates: Sequence[Sequence[Any]] | None = None,
        instances: InstanceSource | None = None,
        pending: Pending | None = None,
    ) -> "HostView":
        """The root view: ``rows`` of ``table``, with the allocation candidates of each (best first).

        ``pending``: what other requests have decided, and where this one notes what it does.
        """
        lists = [()] * len(rows) if candidates is None else list(candidates)
        pending = Pending() if pending is None else pending
        shared = _Request(table, rows, lists, instances or NoInstances(), pending)
        return cls(shared, np.arange(len(rows)))

    def __len__(self) -> int:
        return len(self.positions)

    def where(self, mask: np.ndarray) -> "HostView":
        """The hosts for which ``mask`` (bool, shape (hosts,)) is true; this very view if that is all."""
        return self if mask.all() else HostView(self._shared, self.positions[mask])

    def at(self, indices: Sequence[int] | np.ndarray) -> "HostView":
        """The hosts at these indices of this view, in their order."""
        return HostView(self._shared, self.positions[np.asarray(indices, dtype=np.int64)])

    # -- columns ---------------------------------------------------------------------------------------------

    def numbers(self, name: str) -> np.ndarray:
        """A numeric column (names: ``hosts.columns``), shape (hosts,); not to be written to."""
        column = self._numbers.get(name)
        if column is None:
            column = self._numbers[name] = self._shared.column(name)[self.positions]
        return column

    def expected(self, name: str) -> np.ndarray:
        """An amount once what other requests have pending has arrived; shape (hosts,).

        For preferences: whether an instance still fits is Placement's to say, which knows of these claims.
        """
        if name in COUNTERS:
            return self.numbers(name)
        return self.numbers(name) + self._shared.others[AMOUNTS.index(name)][self.positions]

    def coded(self, name: str) -> Coded:
        """A dictionary-encoded column (names: ``hosts.columns``)."""
        column = self._coded.get(name)
        if column is None:
            column = self._coded[name] = self._shared.coded_column(name).take(self.positions)
        return column

    @cached_property
    def rows(self) -> list:
        """The ``HostRow`` of each host: identity, never amounts (those are consumed)."""
        table_rows = self._shared.table.rows
        return [table_rows[row] for row in self._shared.rows[self.positions]]

    def row(self, index: int) -> HostRow:
        """The ``HostRow`` of one host."""
        return self._shared.table.rows[self._shared.rows[self.positions[index]]]

    def on_hosts(self, names: Iterable[str]) -> np.ndarray:
        """Which hosts have one of these service host names, exactly; bool, shape (hosts,)."""
        table = self._shared.table
        wanted = np.zeros(len(table), dtype=bool)
        wanted[[row for name in names for row in table.rows_named.get(name, ())]] = True
        return wanted[self._shared.rows[self.positions]]

    # -- instances -------------------------------------------------------------------------------------------

    def count_instances(self, uuids: Iterable[str]) -> np.ndarray:
        """How many of the given instances each host holds, those placed by this request too."""
        uuids = list(uuids)
        self._shared.locate(uuids)
        counts = np.zeros(len(self._shared.table), dtype=np.int64)
        for uuid in uuids:
            for row in self._shared.rows_holding(uuid):
                counts[row] += 1
        return counts[self._shared.rows[self.positions]]

    def image_properties(self) -> list[Sequence[Mapping[str, str]]]:
        """For each host the image properties (text by name) of each instance on it, read once a request.

        Instances that this request has placed are not among them.
        """
        images = self._shared.images
        places = [(row.cell_uuid, row.host) for row in self.rows]
        unread = [place for place in dict.fromkeys(places) if place not in images]
        if unread:
            images.update(dict.fromkeys(unread, ()))
            images.update(self._shared.instances.image_properties(unread))
        return [images[place] for place in places]

    # -- single hosts ----------------------------------------------------------------------------------------

    def host(self, index: int) -> HostState:
        """One host under nova's attribute names; the same object each time within a request."""
        position = int(self.positions[index])
        state = self._shared.states.get(position)
        if state is None:
            state = self._shared.states[position] = HostState(self._shared, position)
        return state

    def hosts(self) -> list[HostState]:
        """All hosts of the view under nova's attribute names."""
        return [self.host(index) for index in range(len(self))]

    def candidates(self, index: int) -> Sequence[Any]:
        """The allocation candidates left for a host, best first."""
        return self._shared.candidates[self.positions[index]]

    def narrow(self, index: int, candidates: Sequence[Any]) -> None:
        """Leave a host only these candidates for the rest of the request."""
        self._shared.candidates[self.positions[index]] = candidates

    def limits(self, index: int) -> dict[str, Any]:
        """The limits that rules wrote for a host: a dict of its own, writable."""
        return self._shared.limits_of(int(self.positions[index]))

    def set_limits(self, mask: np.ndarray, name: str, values: np.ndarray) -> None:
        """Write a limit for the hosts for which ``mask`` is true; both arrays of shape (hosts,)."""
        column = self._shared.limit_columns.get(name)
        if column is None:
            column = self._shared.limit_columns[name] = np.full(len(self._shared.rows), None)
        column[self.positions[mask]] = values[mask]

    # -- what the request takes ------------------------------------------------------------------------------

    def take(self, index: int, **amounts: int) -> None:
        """Add ``amounts`` (by consumed column name, negative to lower) to one host."""
        position = self.positions[index]
        for name, amount in amounts.items():
            self._shared.numbers[name][position] += amount
            if name in self._numbers:
                self._numbers[name][index] += amount

    def replace(self, index: int, name: str, value: Any) -> None:
        """Give one host another value in a dictionary-encoded column."""
        column = self._shared.coded_column(name)
        self._shared.coded[name] = column.replaced(int(self.positions[index]), value)
        self._coded.pop(name, None)

    def place(self, index: int, instance_uuid: str) -> None:
        """Count an instance as being on this host from now on (and on all nodes of its service host)."""
        rows = self._shared.table.rows_beside(int(self._shared.rows[self.positions[index]]))
        self._shared.placed.setdefault(instance_uuid, set()).update(rows)

    # -- what requests of the same process do at the same time ---------------------------------------------

    def reserve(
        self, index: int, instance_uuid: str, amounts: Mapping[str, int], *, anyway: bool = False
    ) -> bool:
        """Let other requests know that an instance is to be on this host, before it is claimed.

        False if others have taken to this host, or left it, since this request looked: nothing is reserved
        then, unless ``anyway``.
        """
        shared, position = self._shared, int(self.positions[index])
        taken = np.array([amounts.get(name, 0) for name in AMOUNTS], np.int64)
        seen = None if anyway else shared.others[:, position] + shared.own[:, position]
        reserved = shared.pending.add(instance_uuid, shared.table, int(shared.rows[position]), taken, seen)
        if reserved:
            shared.own[:, position] += taken
            shared.reserved[instance_uuid] = position, taken
        return reserved

    def unreserve(self, instance_uuid: str) -> None:
        """Take back a reservation of this request; without one nothing happens."""
        if instance_uuid in self._shared.reserved:
            position, taken = self._shared.reserved.pop(instance_uuid)
            self._shared.own[:, position] -= taken
            self._shared.pending.drop([instance_uuid])

    def turn(self) -> AbstractContextManager[None]:
        """While others look for another host too, one after the other."""
        return self._shared.pending.turn()

    def catch_up(self) -> None:
        """See what other requests have reserved meanwhile."""
        self._shared.catch_up()
        self._numbers.clear()
