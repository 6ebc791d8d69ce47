"""Ending the wait for placements that computes have reported, or whose instances were deleted before."""

from scheduler.bounds.background import BackgroundLoop
from scheduler.hosts.pending import PendingPlacement, PendingPlacements
from scheduler.hosts.request_instances import HostKey
from scheduler.hosts.table import HostTable
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.host_mappings import deleted_among
from scheduler.nova_db.instances import CellInstances

# Seconds for which a placement is expected before it is looked what became of its instance, and between two
# looks. Most computes report within them.
EXPECTED_FOR = INTERVAL = 10.0


class ReportedPlacements:
    """Removes placements that are no longer pending.

    Attributes:
        loop: The loop that looks what became of placements that should have been reported.
    """

    def __init__(self, pending: PendingPlacements, engines: Engines, instances: CellInstances) -> None:
        self._pending = pending
        self._engines = engines
        self._instances = instances
        self._table: HostTable | None = None
        self.loop = BackgroundLoop("overdue-placements", self.settle_overdue)

    def settle(self, table: HostTable) -> None:
        """Remove the placements that computes have reported, before requests have the table that shows them.

        Those are the ones whose node's row has changed since, if the databases show the instance on a host.
        Only the cells of these nodes are asked: a cell that did not answer just now is left out already.
        """
        self._table = table
        changed = self._pending.on_changed_rows(table)
        cells = {table.rows[table.row_of_uuid[placement.node]].cell_uuid for placement in changed}
        located = self._instances.locate((each.instance for each in changed), cells) if changed else {}
        self._pending.settle((each for each in changed if each.instance in located), table.read_at)

    def settle_overdue(self) -> float:
        """Remove placements whose compute should have reported them by now, if nothing is pending.

        Their instances were deleted before; or the compute has reported them in the second of its report
        before, so that in MySQL its row has the stamp that it had.

        Returns:
            Seconds until the next look.
        """
        overdue, now = self._pending.older_than(EXPECTED_FOR), self._pending.now()
        if overdue:
            instances = [placement.instance for placement in overdue]
            self._pending.remove(deleted_among(self._engines, instances))
            located = self._instances.locate(instances)
            settled = (each for each in overdue if self._place_of(each) in located.get(each.instance, ()))
            self._pending.settle(settled, now)
        return INTERVAL

    def _place_of(self, placement: PendingPlacement) -> HostKey | None:
        table = self._table
        if table is None or (row := table.row_of_uuid.get(placement.node)) is None:
            return None
        return table.rows[row].cell_uuid, table.rows[row].host
