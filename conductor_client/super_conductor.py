"""The super-conductor's part of a boot: call the scheduler once, send the result to the cells.

spec: host-state-and-cells 7.2
"""

from collections.abc import Callable, Sequence
import dataclasses
import time

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import journal
from conductor_client.cells import Cell, CellMap
from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.rpc.context import RequestContext

LOG = logging.getLogger(__name__)


class SuperConductor:
    """RPC endpoint on the API-level bus, topic ``conductor``.

    Attributes:
        journal: The history of the instances.
    """

    target = messaging.Target(version=journal.VERSION)

    def __init__(
        self,
        scheduler: SchedulerClient,
        cells: CellMap,
        cell_conductor: Callable[[Cell], messaging.RPCClient],
        records: journal.Journal,
    ) -> None:
        """Serve one deployment.

        Args:
            cell_conductor: Returns an RPC client on the bus of a cell, topic ``conductor``.
        """
        self.journal = records
        self._scheduler = scheduler
        self._cells = cells
        self._cell_conductor = cell_conductor

    @messaging.expose
    def build_instances(
        self, context: RequestContext, request_spec: objects.RequestSpec, instance_uuids: Sequence[str]
    ) -> None:
        """Boot a batch of equal instances; failures are written to the journal and never raised."""
        self._note_all(instance_uuids, journal.SCHEDULING)
        started = time.monotonic()
        try:
            host_lists = self._scheduler.select_destinations(
                context, request_spec, instance_uuids, return_objects=True, return_alternates=True
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the batch ends in ERROR
            took = time.monotonic() - started
            LOG.warning("Scheduling of instances %s failed: %s", ", ".join(instance_uuids), error)
            self._note_all(instance_uuids, journal.ERROR, detail=_text(error), took=took)
            return
        took = time.monotonic() - started
        self._note_all(instance_uuids, journal.SCHEDULING, took=took)
        chosen = dict(zip(instance_uuids, host_lists, strict=True))
        for cell, batch in self._by_cell(chosen).items():
            self._send_to_cell(context, cell, request_spec, batch)

    @messaging.expose
    def report(self, _context: RequestContext, event: dict) -> None:
        """Write an event to the journal (a dict of the fields of ``journal.InstanceEvent``)."""
        self.journal.write(journal.InstanceEvent(**event))

    @messaging.expose
    def list_instances(
        self, _context: RequestContext, instance_uuids: Sequence[str] | None = None
    ) -> list[list[dict]]:
        """Return the events of these instances, or of all: one list for each instance."""
        return [
            [dataclasses.asdict(event) for event in record.events]
            for record in self.journal.records(instance_uuids)
        ]

    def _by_cell(self, chosen):
        """Return batches {instance: selections} by the cell of the chosen host."""
        batches: dict[Cell, dict] = {}
        for instance_uuid, selections in chosen.items():
            cell = self._cells.of_host(selections[0].service_host)
            if cell is None:
                detail = f"Host {selections[0].service_host} is not mapped to any cell"
                self._note_all([instance_uuid], journal.ERROR, detail=detail)
            else:
                batches.setdefault(cell, {})[instance_uuid] = selections
        return batches

    def _send_to_cell(self, context, cell, request_spec, batch):
        try:
            conductor = self._cell_conductor(cell)
            conductor.cast(context, "start_builds", request_spec=request_spec, host_lists=batch)
        except Exception as error:
            LOG.exception("Cell %s cannot be reached", cell.name)
            self._note_all(batch, journal.ERROR, cell=cell.name, detail=_text(error))

    def _note_all(self, instance_uuids, state, **more):
        for instance_uuid in instance_uuids:
            self.journal.write(journal.InstanceEvent(instance_uuid, state, **more))


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
