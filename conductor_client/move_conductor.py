"""The super-conductor's part of moves: resize, live migration, evacuation, unshelving.

spec: host-state-and-cells 7.4, 7.5, 7.6

While an instance is resized or migrated, the migration holds in Placement what the instance has on its
source, and the instance what it gets. An evacuated instance holds both until its dead host returns.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import fake_compute, journal, retries
from conductor_client.cells import Cell, CellMap
from conductor_client.claims import Allocations, held_by_migration
from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.rpc.context import RequestContext

LOG = logging.getLogger(__name__)


class MoveConductor:
    """RPC endpoint on the API-level bus, topic ``conductor``, beside ``SuperConductor``.

    Each move has ``instance_uuid``, ``migration_uuid``, ``request_spec`` and ``host``, where the instance is
    or was. The journal has it under the UUID of its migration. Failures are written there and never raised.
    """

    target = messaging.Target(version=journal.VERSION)

    def __init__(
        self,
        scheduler: SchedulerClient,
        cells: CellMap,
        computes: Callable[[Cell], messaging.RPCClient],
        allocations: Allocations,
        records: journal.Journal,
        max_attempts: int,
    ) -> None:
        """Serve one deployment.

        Args:
            computes: Returns an RPC client on the bus of a cell, for its computes.
            max_attempts: nova's option ``[scheduler]/max_attempts``.
        """
        self._scheduler = scheduler
        self._cells = cells
        self._computes = computes
        self._allocations = allocations
        self._journal = records
        self._max_attempts = max_attempts

    @messaging.expose
    def resize_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        request_spec: objects.RequestSpec,
        host: str,
    ) -> None:
        """Resize an instance to the flavor of the spec, or migrate it cold, from ``host`` within its cell."""
        with (
            self._noting_errors(migration_uuid),
            held_by_migration(self._allocations, instance_uuid, migration_uuid),
        ):
            cell, spec = self._prepare(request_spec, instance_uuid, host, [host])
            chosen, *alternates = self._select(context, spec, alternates=True)
            self._note(migration_uuid, journal.BUILDING, cell, chosen, alternates=len(alternates))
            retries.send(
                self._computes(cell),
                context,
                fake_compute.RESIZE,
                chosen,
                alternates,
                retries.first(spec, self._max_attempts),
                instance_uuid=instance_uuid,
                migration_uuid=migration_uuid,
                request_spec=spec,
            )

    @messaging.expose
    def live_migrate_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        request_spec: objects.RequestSpec,
        host: str,
    ) -> None:
        """Migrate an instance from ``host`` to the first host of the scheduler that can have it."""
        with (
            self._noting_errors(migration_uuid),
            held_by_migration(self._allocations, instance_uuid, migration_uuid),
        ):
            tried = [host]
            while not self._try_live(context, instance_uuid, migration_uuid, request_spec, tried):
                pass

    def _try_live(self, context, instance_uuid, migration_uuid, request_spec, tried):
        """Migrate to a host that was not tried; return False, and add it to these, if it cannot have it."""
        cell, spec = self._prepare(request_spec, instance_uuid, tried[0], tried)
        (chosen,) = self._select(context, spec)
        self._note(migration_uuid, journal.BUILDING, cell, chosen)
        where = {"instance_uuid": instance_uuid, "host": chosen.service_host, "node": chosen.nodename}
        compute = self._computes(cell)
        reason = compute.call(context, "check_can_live_migrate_destination", attempt=len(tried), **where)
        if reason:
            self._note(migration_uuid, journal.FAILED, cell, chosen, detail=reason)
            self._allocations.drop(instance_uuid, chosen.compute_node_uuid)
            tried.append(chosen.service_host)
            return False
        compute.cast(context, "live_migration", migration_uuid=migration_uuid, request_spec=spec, **where)
        return True

    @messaging.expose
    def rebuild_instance(self, context: RequestContext, host: str, **move: object) -> None:
        """Evacuate an instance from ``host``, which is down. Its allocation there stays for the present."""
        self._send(context, "rebuild_instance", host, [host], **move)

    @messaging.expose
    def unshelve_instance(self, context: RequestContext, host: str, **move: object) -> None:
        """Bring back an instance that was shelved and holds nothing; ``host`` is where it was."""
        self._send(context, "unshelve_instance", host, [], **move)

    def _send(self, context, method, host, ignore, *, instance_uuid, migration_uuid, request_spec):
        with self._noting_errors(migration_uuid):
            cell, spec = self._prepare(request_spec, instance_uuid, host, ignore)
            (chosen,) = self._select(context, spec)
            self._note(migration_uuid, journal.BUILDING, cell, chosen)
            self._computes(cell).cast(
                context,
                method,
                instance_uuid=instance_uuid,
                migration_uuid=migration_uuid,
                request_spec=spec,
                host=chosen.service_host,
                node=chosen.nodename,
                provider=chosen.compute_node_uuid,
            )

    def _prepare(self, spec, instance_uuid: str, host: str, ignore: Sequence[str]):
        """Return the cell of a host, and the spec as a conductor sends it for a move within this cell."""
        cell = self._cells.of_host(host)
        if cell is None:
            raise NoValidHost(f"Host {host} is not mapped to any cell")
        wanted = spec.obj_clone()
        wanted.instance_uuid, wanted.num_instances = instance_uuid, 1
        wanted.force_hosts = wanted.force_nodes = None
        wanted.ignore_hosts = list(ignore) or None
        wanted.requested_destination = objects.Destination(
            cell=objects.CellMapping(uuid=cell.uuid), allow_cross_cell_move=False
        )
        return cell, wanted

    def _select(self, context, spec, *, alternates: bool = False) -> Sequence:
        (selections,) = self._scheduler.select_destinations(
            context, spec, [spec.instance_uuid], return_alternates=alternates
        )
        return selections

    @contextmanager
    def _noting_errors(self, migration_uuid: str) -> Iterator[None]:
        self._journal.write(journal.InstanceEvent(migration_uuid, journal.SCHEDULING))
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the move ends in ERROR
            LOG.warning("Migration %s ends in ERROR: %s", migration_uuid, error)
            detail = str(error) or type(error).__name__
            self._journal.write(journal.InstanceEvent(migration_uuid, journal.ERROR, detail=detail))

    def _note(self, migration_uuid, state, cell, selection, **more):
        where = {"host": selection.service_host, "cell": cell.name}
        self._journal.write(journal.InstanceEvent(migration_uuid, state, **where, **more))
