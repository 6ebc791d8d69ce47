"""Every instance of every cell, page by page."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import instances

#: Instances that one statement reads.
PAGE = 20_000


class StoredInstance(NamedTuple):
    """A live instance on some host."""

    uuid: str
    host: str
    node: str | None
    vm_state: str
    hidden: bool
    task_state: str = ""
    name: str = ""
    project_id: str = ""


class AllInstances:
    """Reads instances of all cells. A cell that cannot be read raises its error."""

    def __init__(self, cells: Cells, calls: CellCalls) -> None:
        """Read nothing yet."""
        self._cells = cells
        self._calls = calls

    def count(self) -> int:
        """Return how many there are."""
        query = sa.select(sa.func.count()).select_from(instances).where(*_LIVE)
        return sum(self._ask(cell, query)[0][0] for cell in self._cells.all)

    def pages(self) -> Iterator[tuple[Cell, list[StoredInstance]]]:
        """Yield the live instances that are on a host, with their cell."""
        columns = instances.c
        names = (
            columns.uuid,
            columns.host,
            columns.node,
            columns.vm_state,
            columns.hidden,
            columns.task_state,
            columns.display_name,
            columns.project_id,
        )
        for cell in self._cells.all:
            last = 0
            while True:
                query = sa.select(columns.id, *names).where(*_LIVE, columns.id > last)
                rows = self._ask(cell, query.order_by(columns.id).limit(PAGE))
                if not rows:
                    break
                last = rows[-1].id
                yield (
                    cell,
                    [
                        StoredInstance(
                            uuid, host, node, str(state), bool(hidden), task or "", name or "", project or ""
                        )
                        for _, uuid, host, node, state, hidden, task, name, project in rows
                    ],
                )

    def _ask(self, cell: Cell, query: sa.Select) -> Any:
        answer = self._calls.scatter_gather([cell], partial(self._rows, query))[cell.uuid]
        if answer.error:
            raise answer.error
        return answer.value

    def _rows(self, query: sa.Select, cell: Cell) -> list[Any]:
        with self._cells.engine(cell).connect() as connection:
            return list(connection.execute(query))


_LIVE = (instances.c.deleted == 0, instances.c.host.is_not(None))
