"""The hosts that a document names, and what became of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

from scheduler.decisions.document import ALTERNATE, CHOSEN, EXCLUDED, PASSED, REFUSED, REJECTED, Hosts
from scheduler.hosts.coordinates import TableRow
from scheduler.hosts.table import HostTable

#: Hosts that are named for each filter or exclusion of a served request.
NAMED = 5


@dataclass(frozen=True)
class Names:
    """Names for the numbers and UUIDs of a table.

    Attributes:
        cells: The names of the cells by UUID.
        default_zone: The availability zone of hosts that no aggregate puts in one.
    """

    cells: Mapping[str, str | None] = field(default_factory=dict)
    default_zone: str = "nova"


class RejectedRows(NamedTuple):
    """Rows of hosts that a filter rejected, by its index in the document; int64."""

    step: int
    rows: np.ndarray


@dataclass
class Outcomes:
    """What became of hosts, by rows of the table; the most important are named first.

    Attributes:
        chosen: For each instance the rows of its host and of its alternates.
        best: The rows of the hosts with the largest weights, best first.
        rejected: What each filter rejected.
        excluded: The rows that each part of the request excludes.
    """

    chosen: list[list[int]] = field(default_factory=list)
    best: list[int] = field(default_factory=list)
    rejected: list[RejectedRows] = field(default_factory=list)
    excluded: list[np.ndarray] = field(default_factory=list)

    def named(self, refused: Sequence[str], table: HostTable, offered: np.ndarray | None) -> "NamedRows":
        """Return the rows to name.

        Args:
            refused: Service hosts that refused a claim.
            offered: All rows that were offered, to name all of them; None: the most important.
        """
        found = NamedRows()
        found.add(CHOSEN, (rows[0] for rows in self.chosen))
        found.add(ALTERNATE, chain.from_iterable(rows[1:] for rows in self.chosen))
        found.add(REFUSED, chain.from_iterable(table.rows_named.get(host, ()) for host in refused))
        if offered is None:
            found.add(PASSED, self.best)
        else:
            out = [*(each.rows for each in self.rejected), *self.excluded]
            passed = offered[~np.isin(offered, np.concatenate(out))] if out else offered
            found.add(PASSED, chain((row for row in self.best if row in passed), passed.tolist()))
        most = NAMED if offered is None else None
        for step, rows in reversed(self.rejected):
            found.add(REJECTED, rows[:most].tolist(), step)
        for rows in self.excluded:
            found.add(EXCLUDED, rows[:most].tolist())
        return found


class NamedRows:
    """Rows in the order in which they are named, each with its outcome and the filter that rejected it."""

    def __init__(self) -> None:
        self._outcomes: dict[int, tuple[str, int]] = {}

    def add(self, outcome: str, rows: Iterable[int], step: int = -1) -> None:
        """Note an outcome of rows that have none yet."""
        for row in rows:
            self._outcomes.setdefault(row, (outcome, step))

    def indices(self, rows: Sequence[int]) -> list[int]:
        """Return where some of the rows are named."""
        index_of = {row: index for index, row in enumerate(self._outcomes)}
        return [index_of[row] for row in rows]

    def columns(self, table: HostTable, names: Names, sets: np.ndarray | None, *, complete: bool) -> Hosts:
        """Return the hosts by name.

        Args:
            sets: The index of the set of constraints that each host of the table fails; None: not known.
        """
        numbers = np.fromiter(self._outcomes, np.int64, len(self._outcomes))
        rows = [table.rows[TableRow(number)] for number in numbers.tolist()]
        cell, aggregates = (table.coded[name].take(numbers) for name in ("cell", "aggregates"))
        cells, zones = cell.codes.tolist(), aggregates.codes.tolist()
        return Hosts(
            complete,
            [row.host for row in rows],
            [row.nodename for row in rows],
            cells,
            zones,
            [outcome for outcome, _ in self._outcomes.values()],
            [step for _, step in self._outcomes.values()],
            [-1] * len(rows) if sets is None else sets[numbers].tolist(),
            {code: names.cells.get(cell.values[code]) or cell.values[code] for code in set(cells)},
            {code: aggregates.values[code].availability_zone(names.default_zone) for code in set(zones)},
        )
