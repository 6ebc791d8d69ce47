"""Ending the wait for placements that computes have reported, or whose instances were deleted before."""

from scheduler.bounds.background import BackgroundLoop
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.host_mappings import deleted_among
from scheduler.nova_db.instances import CellInstances

# Seconds for which a placement is expected before it is looked whether its instance was deleted, and between
# two looks. Most computes report within them.
EXPECTED_FOR = DELETED_INTERVAL = 10.0


class ReportedPlacements:
    """Removes placements that are no longer pending."""

    def __init__(self, pending: PendingPlacements, engines: Engines, instances: CellInstances) -> None:
        self._pending = pending
        self._engines = engines
        self._instances = instances
        self._loop = BackgroundLoop("deleted-instances", self.forget_deleted)

    def start(self) -> None:
        """Begin to look for deleted instances."""
        self._loop.start(DELETED_INTERVAL)

    def stop(self) -> None:
        """Stop looking."""
        self._loop.stop()

    def settle(self, table: HostTable) -> None:
        """Remove the placements that computes have reported.

        Those are the ones whose node's row has changed since, if the databases show the instance on a host.
        """
        changed = self._pending.on_changed_rows(table)
        located = self._instances.locate(placement.instance for placement in changed) if changed else {}
        self._pending.settle(placement for placement in changed if placement.instance in located)

    def forget_deleted(self) -> float:
        """Remove the placements of instances that were deleted before a compute has reported them.

        Returns:
            Seconds until the next look.
        """
        expected = self._pending.older_than(EXPECTED_FOR)
        if expected:
            self._pending.remove(deleted_among(self._engines, expected))
        return DELETED_INTERVAL
