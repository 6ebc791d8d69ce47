"""The super-conductor's part of a boot: ask the scheduler once, hand the result over to the cells.

spec: host-state-and-cells 7.2
"""

import dataclasses
import time

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import journal

LOG = logging.getLogger(__name__)


class SuperConductor:
    """RPC endpoint on the API-level bus, topic ``conductor``.

    scheduler: a ``SchedulerClient``.
    cells: a ``CellMap``.
    cell_conductor: function from a Cell to an RPC client on that cell's own bus, topic ``conductor``.
    """

    target = messaging.Target(version=journal.VERSION)

    def __init__(self, scheduler, cells, cell_conductor, records=None):
        self.journal = records or journal.Journal()
        self._scheduler = scheduler
        self._cells = cells
        self._cell_conductor = cell_conductor

    @messaging.expose
    def build_instances(self, context, request_spec, instance_uuids):
        """Boot a batch of equal instances; whatever goes wrong ends in the journal, not in an exception."""
        self._note_all(context, instance_uuids, journal.SCHEDULING)
        started = time.monotonic()
        try:
            host_lists = self._scheduler.select_destinations(
                context, request_spec, instance_uuids, return_objects=True, return_alternates=True
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the batch ends in ERROR
            took = time.monotonic() - started
            LOG.warning("Instances %s are buried: %s", ", ".join(instance_uuids), error)
            self._note_all(context, instance_uuids, journal.ERROR, detail=_text(error), took=took)
            return
        took = time.monotonic() - started
        self._note_all(context, instance_uuids, journal.SCHEDULING, took=took)
        chosen = dict(zip(instance_uuids, host_lists, strict=True))
        for cell, batch in self._by_cell(context, chosen).items():
            self._hand_over(context, cell, request_spec, batch)

    @messaging.expose
    def report(self, _context, event):
        """Write an event in the journal (a dict of the fields of ``journal.Event``)."""
        self.journal.write(journal.Event(**event))

    @messaging.expose
    def list_instances(self, _context, instance_uuids=None):
        """The stories of these instances, or of all: a list of lists of events, each a dict."""
        return [
            [dataclasses.asdict(event) for event in record.events]
            for record in self.journal.records(instance_uuids)
        ]

    def _by_cell(self, context, chosen):
        """Batches {instance: selections} by the cell that the chosen host is mapped to."""
        batches = {}
        for instance_uuid, selections in chosen.items():
            cell = self._cells.of_host(selections[0].service_host)
            if cell is None:
                detail = f"Host {selections[0].service_host} is not mapped to any cell"
                self._note_all(context, [instance_uuid], journal.ERROR, detail=detail)
            else:
                batches.setdefault(cell, {})[instance_uuid] = selections
        return batches

    def _hand_over(self, context, cell, request_spec, batch):
        try:
            self._cell_conductor(cell).cast(
                context, "start_builds", request_spec=request_spec, host_lists=batch, cell=cell.name
            )
        except Exception as error:
            LOG.exception("Cell %s cannot be reached", cell.name)
            self._note_all(context, batch, journal.ERROR, cell=cell.name, detail=_text(error))

    def _note_all(self, context, instance_uuids, state, **more):
        for instance_uuid in instance_uuids:
            self.journal.report(context, instance_uuid=instance_uuid, state=state, **more)


class CellConductors:
    """RPC clients for the conductors of cells, each over the cell's own transport, opened when first needed.

    open_bus: function from a Cell to a Bus.
    """

    def __init__(self, open_bus):
        self._open_bus = open_bus
        self._clients = {}

    def __call__(self, cell):
        """The client for a cell."""
        if cell not in self._clients:
            self._clients[cell] = self._open_bus(cell).client(journal.TOPIC, journal.VERSION)
        return self._clients[cell]


def _text(error):
    return str(error) or type(error).__name__
