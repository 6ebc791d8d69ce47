"""The hosts that a document names, and what became of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
            refused: The UUIDs of compute nodes that refused a claim.
            rejected: The index of each filter that rejected hosts, and their rows.
            excluded: The rows that each part of the request excludes.
            best: The rows of the hosts with the largest weights, best first.
            offered: The rows of all that were offered, to name all of them; None: some of them.
        """
        row_of = table.row_of_uuid
        self._best: list[int] = [] if best is None else best.tolist()
        # of all instances the chosen hosts come first
        chosen, alternates = (
            [
                row_of[uuid]
                for some in selections
                for one in some[part]
                if (uuid := one.compute_node_uuid) in row_of
            ]
            for part in (slice(1), slice(1, None))
        )
        lost = [row_of[uuid] for uuid in refused if uuid in row_of]
        passed, most = self._best, NAMED if offered is None else None
        if offered is not None:
            out = [*(rows for _, rows in rejected), *excluded]
            rest = offered[~np.isin(offered, np.concatenate(out))] if out else offered
            passed = [row for row in self._best if row in rest] + rest.tolist()
        # Outcomes, the index of the filter that rejected hosts, and their rows; of a host the first counts.
        self._parts: list[tuple[str, int, Sequence[int]]] = [
            (CHOSEN, -1, chosen),
            (ALTERNATE, -1, alternates),
            (REFUSED, -1, lost),
            (PASSED, -1, passed),
            *((REJECTED, step, rows[:most].tolist()) for step, rows in reversed(rejected)),
            *((EXCLUDED, -1, rows[:most].tolist()) for rows in excluded),
        ]
        self._rows = list(dict.fromkeys(chain.from_iterable(rows for _, _, rows in self._parts)))
        # no rows: those of an old table have all that was parsed for them, and a decision is kept for long
        self._names = list(map(NAMES, map(table.rows.__getitem__, self._rows)))
        aggregates = table.coded["aggregates"]
        self._aggregates = [aggregates.values[code] for code in aggregates.codes[self._rows].tolist()]

    @property
    def best(self) -> list[int]:
        """The indices of the hosts with the largest weights, best first."""
        index_of = {row: index for index, row in enumerate(self._rows)}
        return [index_of[row] for row in self._best]

    def failing(self, sets: np.ndarray) -> list[int]:
        """Return the set of constraints that each host fails, by that of each row of the table."""
        return sets[self._rows].tolist()

    def columns(self, names: Names, *, complete: bool) -> Hosts:
        """Return the hosts by name."""
        outcomes: dict[int, tuple[str, int]] = {}
        for outcome, step, rows in self._parts:  # thousands if many instances were requested
            for row in rows:
                outcomes.setdefault(row, (outcome, step))
        cells = {uuid: code for code, uuid in enumerate({cell: None for _, _, cell in self._names})}
        of_hosts = [each.availability_zone(names.default_zone) for each in self._aggregates]
        zones = {zone: code for code, zone in enumerate(dict.fromkeys(of_hosts))}
        return Hosts(
            complete,
            [host for host, _, _ in self._names],
            [node for _, node, _ in self._names],
            [cells[cell] for _, _, cell in self._names],
            [zones[zone] for zone in of_hosts],
            [outcome for outcome, _ in outcomes.values()],
            [step for _, step in outcomes.values()],
            [-1] * len(self._names),
            {code: names.cells.get(uuid) or uuid for uuid, code in cells.items()},
            {code: zone for zone, code in zones.items()},
        )
