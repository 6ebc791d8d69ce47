"""What nova's databases say of instances whose caller may have timed out.

A conductor waits for a build while the mapping of its instance has no cell and the request to build it
exists. The user who deletes the instance, or the conductor that gives it up, changes that first. It may wait
for a move while the instance has a task state; computes go on with it (spec: host-state-and-cells 1.2, 1.3).
"""

from collections.abc import Collection, Iterator, Mapping

from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.logs import RateLimitedLogger, brief
from scheduler.nova_db.cells import CELL0, UNREADABLE, Cell, Cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import build_requests, cell_mappings, instance_mappings, instances, rows_with
from scheduler.request.instance_state import InstanceState, States

LOG = logging.getLogger(f"nova.{__name__}")

#: The state of an instance that is built. It gets its host from the compute that builds it.
BUILDING = "building"

_MAY_COME = {InstanceState.WAITING, InstanceState.UNKNOWN}


class InstanceStates:
    """Reads the states of instances. Any thread may use it."""

    def __init__(self, engines: Engines, cells: Cells, calls: CellCalls) -> None:
        """Set up; nothing is read yet."""
        self._engines = engines
        self._cells = cells
        self._calls = calls
        self._warnings = RateLimitedLogger(LOG)

    def of(self, uuids: Collection[str], ignored_hosts: Collection[str] = ()) -> States:
        """Return the state of each instance. Never raises.

        The API database is read once, and each cell that has some of them.

        Args:
            ignored_hosts: Names of hosts that their request ignores. An instance that is still on one of them
                and is not being moved was given up.
        """
        states, placed = self._mapped(list(uuids))
        for uuid, row, is_read in self._in_cells(placed):
            states[uuid] = _state_in_cell(row, ignored_hosts) if is_read else InstanceState.UNKNOWN
        return states

    def on_their_way(self, hosts: Mapping[str, str]) -> set[str]:
        """Return those instances that may yet come to a host or are on it. Never raises.

        Of what cannot be read, all may.

        Args:
            hosts: The service host of each instance, by its UUID.
        """
        states, placed = self._mapped(list(hosts))
        coming = {uuid for uuid, state in states.items() if state in _MAY_COME}
        for uuid, row, is_read in self._in_cells(placed):
            if not is_read or (row is not None and _comes_to(row, hosts[uuid])):
                coming.add(uuid)
        return coming

    def _mapped(self, uuids: list[str]) -> tuple[dict[str, InstanceState], dict[str, list[str]]]:
        """Return the state of each instance by the API database, and by cell those that are placed."""
        states = dict.fromkeys(uuids, InstanceState.MISSING)
        placed: dict[str, list[str]] = {}
        try:
            for row in self._mappings(uuids):
                states[row.instance_uuid] = _state_of(row)
                if states[row.instance_uuid] is InstanceState.PLACED:
                    placed.setdefault(row.cell, []).append(row.instance_uuid)
        except UNREADABLE as error:
            text = "Cannot read the state of instances (%d): %s"
            self._warnings.warning("states", text, len(uuids), brief(error))
            return dict.fromkeys(uuids, InstanceState.UNKNOWN), {}
        return states, placed

    def _mappings(self, uuids: list[str]) -> list[sa.Row]:
        columns = instance_mappings.c
        query = (
            sa.select(
                columns.instance_uuid,
                columns.queued_for_delete,
                cell_mappings.c.uuid.label("cell"),
                build_requests.c.id.label("build_request"),
            )
            .join_from(instance_mappings, cell_mappings, isouter=True)
            .join(build_requests, build_requests.c.instance_uuid == columns.instance_uuid, isouter=True)
        )
        with self._engines.api_connection() as connection:
            return rows_with(connection, query, columns.instance_uuid, uuids)

    def _in_cells(self, placed: Mapping[str, list[str]]) -> Iterator[tuple[str, sa.Row | None, bool]]:
        """Yield each instance with its row, None if its cell has none, and whether the cell could be read."""
        cells = [cell for cell in self._cells.all if cell.uuid in placed]
        answers = self._calls.scatter_gather(cells, lambda cell: self._rows_of(cell, placed[cell.uuid]))
        for cell_uuid, uuids in placed.items():
            answer = answers.get(cell_uuid)
            is_read = answer is not None and answer.error is None
            rows = {row.uuid: row for row in answer.value} if answer and is_read else {}
            yield from ((uuid, rows.get(uuid), is_read) for uuid in uuids)

    def _rows_of(self, cell: Cell, uuids: list[str]) -> list[sa.Row]:
        columns = instances.c
        query = sa.select(columns.uuid, columns.host, columns.vm_state, columns.task_state).where(
            columns.deleted == 0
        )
        return self._cells.rows_with(cell, query, columns.uuid, uuids)


def _state_of(mapping: sa.Row) -> InstanceState:
    if mapping.queued_for_delete:
        return InstanceState.DELETED
    if mapping.cell == CELL0:
        return InstanceState.GIVEN_UP
    if mapping.cell is not None:
        return InstanceState.PLACED
    return InstanceState.WAITING if mapping.build_request is not None else InstanceState.GIVEN_UP


def _comes_to(row: sa.Row, host: str) -> bool:
    """Return whether an instance is on a host, or on its way to one.

    A build that failed has no task, and the state of an error. One that has begun has no task until its
    compute has taken it.
    """
    if row.vm_state == BUILDING and row.host != host:
        return row.host is None
    return row.host == host or row.task_state is not None


def _state_in_cell(row: sa.Row | None, ignored_hosts: Collection[str]) -> InstanceState:
    if row is None or (row.vm_state == BUILDING and row.host is not None):
        return InstanceState.PLACED
    if row.task_state is not None:
        return InstanceState.MOVING
    if row.vm_state == BUILDING:
        return InstanceState.PLACED
    # Without a host it is shelved and offloaded, or its build or unshelving has failed.
    is_given_up = row.host is None or row.host in ignored_hosts
    return InstanceState.GIVEN_UP if is_given_up else InstanceState.PLACED
