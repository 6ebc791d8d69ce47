"""The hosts that a document names, and what became of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from scheduler.decisions.document import ALTERNATE, CHOSEN, EXCLUDED, PASSED, REFUSED, REJECTED, Hosts
from scheduler.hosts.table import HostTable
from scheduler.objects import Selection

#: Hosts that are named for each filter or exclusion of a served request.
NAMED = 5


NAMES = attrgetter("host", "nodename", "cell_uuid")


@dataclass(frozen=True)
class Names:
    """Names for the numbers and UUIDs of a table.

    Attributes:
        cells: The names of the cells by UUID.
        default_zone: The availability zone of hosts that no aggregate puts in one.
    """

    cells: Mapping[str, str | None] = field(default_factory=dict)
    default_zone: str = "nova"


class NamedHosts:
    """Hosts of a table in the order in which they are named. The table itself is not kept."""

    def __init__(
        self,
        table: HostTable,
        selections: Sequence[Sequence[Selection]],
        refused: Iterable[str],
        rejected: Sequence[tuple[int, np.ndarray]],
        excluded: Sequence[np.ndarray],
        best: np.ndarray | None,
        offered: np.ndarray | None,
    ) -> None:
        """Name the hosts, the most important first; arrays have rows of the table, int64.

        Args:
            refused: Service hosts that refused a claim.
            rejected: The index of each filter that rejected hosts, and their rows.
            excluded: The rows that each part of the request excludes.
            best: The rows of the hosts with the largest weights, best first.
            offered: The rows of all that were offered, to name all of them; None: some of them.
        """
        row_of = table.row_of_uuid
        self._best: list[int] = [] if best is None else best.tolist()
        self._outcomes: dict[int, tuple[str, int]] = {}
        # of all instances the chosen hosts come first
        for outcome, part in ((CHOSEN, slice(1)), (ALTERNATE, slice(1, None))):
            uuids = (each.compute_node_uuid for some in selections for each in some[part])
            self._add(outcome, [row_of[uuid] for uuid in uuids if uuid in row_of])
        for host in refused:
            self._add(REFUSED, table.rows_named.get(host, ()))
        if offered is None:
            self._add(PASSED, self._best)
        else:
            out = [*(rows for _, rows in rejected), *excluded]
            passed = offered[~np.isin(offered, np.concatenate(out))] if out else offered
            self._add(PASSED, [row for row in self._best if row in passed] + passed.tolist())
        most = NAMED if offered is None else None
        for step, rows in reversed(rejected):
            self._add(REJECTED, rows[:most].tolist(), step)
        for rows in excluded:
            self._add(EXCLUDED, rows[:most].tolist())
        # no rows: those of an old table have all that was parsed for them, and a decision is kept for long
        self._names = list(map(NAMES, map(table.rows.__getitem__, self._outcomes)))
        aggregates = table.coded["aggregates"]
        codes = aggregates.codes[np.fromiter(self._outcomes, np.int64)].tolist()
        self._zones = [aggregates.values[code].availability_zone("") for code in codes]

    def _add(self, outcome: str, rows: Iterable[int], step: int = -1) -> None:
        """Note what became of hosts, and the index of the filter that rejected them."""
        named = outcome, step
        for row in rows:  # no copy: there are thousands of steps if many instances were requested
            self._outcomes.setdefault(row, named)

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
