"""What became of the hosts of a request: by row while it is decided, by name in its document."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat

import numpy as np

from scheduler.decisions.document import (
    ALTERNATE,
    CHOSEN,
    EXCLUDED,
    PASSED,
    REFUSED,
    REJECTED,
    Decision,
    Hosts,
    Verdict,
)
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.logs import count_text
from scheduler.placement.claim_events import ClaimEvent

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


class HostVerdicts:
    """The verdicts on hosts in one pass, noted in the document. Positions are those of the root view.

    Attributes:
        best: The rows of the hosts with the largest weights, best first.
        chosen: For each instance the rows of its host and of its alternates.
    """

    def __init__(self, decision: Decision) -> None:
        """Note nothing yet; the verdicts go to a document."""
        self._decision = decision
        self.best: list[int] = []
        self.chosen: list[list[int]] = []
        self._codes: dict[tuple[str, int | None, str], int] = {}
        self._excluded: list[tuple[int, np.ndarray]] = []
        self._rejected: list[tuple[int, np.ndarray, list[int]]] = []

    def exclude(self, positions: np.ndarray, reason: str) -> None:
        """Note hosts that the request itself does not allow."""
        self._excluded.append((self._code(EXCLUDED, None, reason, len(positions)), positions))

    def reject(self, step: int, positions: np.ndarray, reasons: Sequence[str]) -> None:
        """Note hosts that a filter rejected, and the reasons of the first of them."""
        codes = [self._code(REJECTED, step, reason) for reason in reasons]
        self._rejected.append((step, positions, codes))

    def name(self, offered: HostView, table: HostTable, names: Names) -> None:
        """Name hosts in the document: all that were offered if it failed, otherwise the most important."""
        decision = self._decision
        verdicts = self._special(table, decision.refused_claims)
        if decision.error is not None:
            self._add_all(offered, verdicts)
        else:
            others = [row for row in self.best if row not in verdicts]
            if others:
                verdicts.update(dict.fromkeys(others, self._code(PASSED, count=len(others))))
            if self._rejected or self._excluded:
                for row, code in self._out(offered.root_rows, whole=False):
                    verdicts.setdefault(row, code)
        decision.hosts = _columns(table, verdicts, names, complete=decision.error is not None)
        index_of = {row: index for index, row in enumerate(verdicts)}
        decision.best.host = [index_of[row] for row in self.best]

    def _code(self, outcome: str, step: int | None = None, reason: str = "", count: int = 1) -> int:
        """Return the index of a verdict that ``count`` more hosts have."""
        key = (outcome, step, reason)
        code, verdicts = self._codes.get(key), self._decision.verdicts
        if code is None:
            code = self._codes[key] = len(verdicts)
            verdicts.append(Verdict(outcome, step, reason))
        verdicts[code].count += count
        return code

    def _add_all(self, offered: HostView, verdicts: dict[int, int]) -> None:
        rows, out = offered.table_rows, dict(self._out(offered.root_rows, whole=True))
        passed = dict.fromkeys(
            row for row in chain(self.best, rows.tolist()) if row not in out and row not in verdicts
        )
        if passed:
            verdicts.update(dict.fromkeys(passed, self._code(PASSED, count=len(passed))))
        for row, code in out.items():
            verdicts.setdefault(row, code)

    def _out(self, rows: np.ndarray, *, whole: bool) -> Iterator[tuple[int, int]]:
        """Yield the rows and verdicts of hosts that are out; those of the last filter first.

        Args:
            whole: Whether to yield all, also those without a computed reason.
        """
        for step, positions, codes in reversed(self._rejected):
            some = rows[positions if whole else positions[: len(codes)]].tolist()
            if len(some) > len(codes):
                unexplained = self._code(REJECTED, step, "", len(some) - len(codes))
                yield from zip(some, [*codes, *repeat(unexplained, len(some) - len(codes))], strict=True)
            else:
                yield from zip(some, codes, strict=True)
        for code, positions in self._excluded:
            some = rows[positions if whole else positions[:NAMED]].tolist()
            yield from zip(some, repeat(code), strict=False)

    def _special(self, table: HostTable, refused_claims: Sequence[ClaimEvent]) -> dict[int, int]:
        """Return the verdicts of chosen, alternate and refused hosts by row."""
        chosen = [rows[0] for rows in self.chosen]
        counts = Counter(chosen) if len(chosen) > 1 else dict.fromkeys(chosen, 1)
        found = {
            row: self._code(CHOSEN, None, f"for {count_text(count, 'instance')}" if count > 1 else "")
            for row, count in counts.items()
        }
        for row in chain.from_iterable(rows[1:] for rows in self.chosen):
            if row not in found:
                found[row] = self._code(ALTERNATE)
        for event in refused_claims:
            for row in table.rows_named.get(event.host, ()):
                if row not in found:
                    found[row] = self._code(REFUSED, None, event.cause)
        return found


def _columns(table: HostTable, verdicts: Mapping[int, int], names: Names, *, complete: bool) -> Hosts:
    rows = [table.rows[number] for number in verdicts]
    numbers = np.fromiter(verdicts, np.int64, len(verdicts))
    cell, aggregates = (table.coded[name].take(numbers) for name in ("cell", "aggregates"))
    cells, zones = cell.codes.tolist(), aggregates.codes.tolist()
    return Hosts(
        complete,
        [row.host for row in rows],
        [row.nodename for row in rows],
        cells,
        zones,
        list(verdicts.values()),
        {code: names.cells.get(cell.values[code]) or cell.values[code] for code in set(cells)},
        {code: aggregates.values[code].availability_zone(names.default_zone) for code in set(zones)},
    )
