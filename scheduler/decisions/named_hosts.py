"""The hosts that a document names, and what became of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.decisions.document import ALTERNATE, CHOSEN, EXCLUDED, PASSED, REFUSED, REJECTED, Hosts
from scheduler.hosts.coordinates import TableRow
from scheduler.hosts.table import HostTable
from scheduler.objects import Selection

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


@dataclass(slots=True)
class Outcomes:
    """What became of the hosts of the last pass, by rows of the table; int64.

    Attributes:
        excluded: The rows that each part of the request excludes.
        rejected: The index of each filter that rejected hosts, and their rows.
        best: The rows of the hosts with the largest weights, best first.
    """

    table: HostTable
    excluded: Sequence[np.ndarray]
    rejected: list[tuple[int, np.ndarray]] = field(default_factory=list)
    best: np.ndarray | None = None

    def named(
        self, selections: Sequence[Sequence[Selection]], refused: Iterable[str], offered: np.ndarray | None
    ) -> "NamedHosts":
        """Return the hosts to name, the most important first.

        Args:
            refused: Service hosts that refused a claim.
            offered: The rows of all that were offered, to name all of them; None: some of them.
        """
        table, row_of = self.table, self.table.row_of_uuid
        outcomes: dict[int, tuple[str, int]] = {}

        def add(outcome: str, rows: Iterable[int], step: int = -1) -> None:
            named = outcome, step
            for row in rows:
                outcomes.setdefault(row, named)

        # of all instances the chosen hosts come first
        for outcome, part in ((CHOSEN, slice(1)), (ALTERNATE, slice(1, None))):
            uuids = (each.compute_node_uuid for some in selections for each in some[part])
            add(outcome, [row_of[uuid] for uuid in uuids if uuid in row_of])
        for host in refused:
            add(REFUSED, table.rows_named.get(host, ()))
        best = [] if self.best is None else self.best.tolist()
        if offered is None:
            add(PASSED, best)
        else:
            out = [*(rows for _, rows in self.rejected), *self.excluded]
            passed = offered[~np.isin(offered, np.concatenate(out))] if out else offered
            add(PASSED, [row for row in best if row in passed] + passed.tolist())
        most = NAMED if offered is None else None
        for step, rows in reversed(self.rejected):
            add(REJECTED, rows[:most].tolist(), step)
        for rows in self.excluded:
            add(EXCLUDED, rows[:most].tolist())
        return NamedHosts(table, outcomes, best)


class NamedHosts:
    """Hosts of a table in the order in which they are named. The table itself is not kept."""

    def __init__(
        self, table: HostTable, outcomes: Mapping[int, tuple[str, int]], best: Sequence[int]
    ) -> None:
        """Keep what a document says of hosts.

        Args:
            outcomes: By row of the table the outcome, and the index of the filter that rejected the host.
            best: The rows of the hosts with the largest weights.
        """
        self._outcomes = outcomes
        self._best = best
        # no rows: those of an old table have all that was parsed for them, and a decision is kept for long
        rows = [table.rows[TableRow(row)] for row in outcomes]
        self._names = [(row.host, row.nodename, row.cell_uuid) for row in rows]
        aggregates = table.coded["aggregates"]
        self._zones = [aggregates[TableRow(row)].availability_zone("") for row in outcomes]

    @property
    def best(self) -> list[int]:
        """The indices of the hosts with the largest weights, best first."""
        index_of = {row: index for index, row in enumerate(self._outcomes)}
        return [index_of[row] for row in self._best]

    def failing(self, sets: np.ndarray) -> list[int]:
        """Return the set of constraints that each host fails, by that of each row of the table."""
        return sets[list(self._outcomes)].tolist()

    def columns(self, names: Names, *, complete: bool) -> Hosts:
        """Return the hosts by name."""
        cells = {uuid: code for code, uuid in enumerate({cell: None for _, _, cell in self._names})}
        zones = {zone: code for code, zone in enumerate(dict.fromkeys(self._zones))}
        return Hosts(
            complete,
            [host for host, _, _ in self._names],
            [node for _, node, _ in self._names],
            [cells[cell] for _, _, cell in self._names],
            [zones[zone] for zone in self._zones],
            [outcome for outcome, _ in self._outcomes.values()],
            [step for _, step in self._outcomes.values()],
            [-1] * len(self._names),
            {code: names.cells.get(uuid) or uuid for uuid, code in cells.items()},
            {code: zone or names.default_zone for zone, code in zones.items()},
        )
