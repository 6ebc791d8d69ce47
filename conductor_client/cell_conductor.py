"""The conductor of a cell: starts builds, and retries failed builds and resizes on the next alternate.

spec: host-state-and-cells 7.3, 7.4
"""

from collections.abc import Mapping, Sequence

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import errors, fake_compute, journal, retries
from conductor_client.claims import Allocations, held_by_migration
from conductor_client.moving_compute import send_resize
from scheduler import objects
from scheduler.rpc.context import RequestContext

LOG = logging.getLogger(__name__)


class CellConductor:
    """RPC endpoint on the bus of a cell, topic ``conductor``. It never calls the scheduler."""

    target = messaging.Target(version=journal.VERSION)

    def __init__(
        self,
        compute: messaging.RPCClient,
        allocations: Allocations,
        reports: journal.Reporter | journal.Journal,
        max_attempts: int,
        cell: str | None = None,
    ) -> None:
        """Serve one cell.

        Args:
            compute: RPC client for the computes of the cell (``fake_compute.TOPIC``).
            max_attempts: nova's option ``[scheduler]/max_attempts``.
            cell: The name of the cell, for the records.
        """
        self._compute = compute
        self._allocations = allocations
        self._reports = reports
        self._max_attempts = max_attempts
        self._cell = cell

    @messaging.expose
    def start_builds(
        self,
        context: RequestContext,
        request_spec: objects.RequestSpec,
        host_lists: Mapping[str, Sequence],
        cell: str | None = None,
    ) -> None:
        """Start builds on hosts that the scheduler has chosen and claimed.

        Args:
            host_lists: The Selections of each instance UUID. The first one is claimed.
            cell: The name of the cell, for the records.
        """
        self._cell = cell or self._cell
        for instance_uuid, (selection, *alternates) in host_lists.items():
            properties = retries.first(request_spec, self._max_attempts)
            self._start(context, instance_uuid, request_spec, properties, selection, alternates)

    @messaging.expose
    def build_instances(
        self,
        context: RequestContext,
        instance_uuids: Sequence[str],
        host_lists: Sequence[Sequence],
        request_spec: objects.RequestSpec,
        filter_properties: dict,
    ) -> None:
        """Retry failed builds, each instance on the first of its alternates that can still be claimed."""
        for instance_uuid, alternates in zip(instance_uuids, host_lists, strict=True):
            self._build_elsewhere(context, instance_uuid, request_spec, filter_properties, alternates)

    def _build_elsewhere(self, context, instance_uuid, request_spec, filter_properties, alternates):
        try:
            properties = retries.again(filter_properties, self._max_attempts)
            selection, rest = self._claim_next(context, instance_uuid, request_spec, alternates)
        except Exception as error:  # noqa: BLE001 - whatever it is, the instance ends in ERROR
            LOG.warning("Build of instance %s ends in ERROR: %s", instance_uuid, error)
            detail = str(error) or type(error).__name__
            self._note(context, instance_uuid, journal.ERROR, detail=detail)
            return
        self._start(context, instance_uuid, request_spec, properties, selection, rest)

    @messaging.expose
    def resize_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        host_list: Sequence,
        request_spec: objects.RequestSpec,
        filter_properties: dict,
    ) -> None:
        """Retry a failed resize on the first of its alternates that can still be claimed."""
        try:
            properties = retries.again(filter_properties, self._max_attempts)
            with held_by_migration(self._allocations, instance_uuid, migration_uuid):
                chosen, rest = self._claim_next(
                    context, instance_uuid, request_spec, host_list, migration_uuid
                )
                host = chosen.service_host
                self._note(context, migration_uuid, journal.BUILDING, host=host, alternates=len(rest))
                send_resize(
                    self._compute,
                    context,
                    migration_uuid=migration_uuid,
                    request_spec=request_spec,
                    filter_properties=properties,
                    selection=chosen,
                    host_list=rest,
                )
        except Exception as error:  # noqa: BLE001 - whatever it is, the resize ends in ERROR
            LOG.warning("Resize of instance %s ends in ERROR: %s", instance_uuid, error)
            self._note(context, migration_uuid, journal.ERROR, detail=str(error) or type(error).__name__)

    def _claim_next(self, context, instance_uuid, request_spec, alternates, record=None):
        """Return the first alternate that can be claimed, and those after it.

        Refusals are noted under ``record``, by default the instance.

        Raises:
            MaxRetriesExceeded: No alternate is left.
        """
        for place, selection in enumerate(alternates):
            rest = alternates[place + 1 :]
            if self._allocations.claim(instance_uuid, selection, request_spec):
                return selection, rest
            host, left = selection.service_host, len(rest)
            self._note(context, record or instance_uuid, journal.REFUSED, host=host, alternates=left)
        raise errors.MaxRetriesExceeded("No alternate host is left to try.")

    def _start(self, context, instance_uuid, request_spec, filter_properties, selection, alternates):
        host = selection.service_host
        self._note(context, instance_uuid, journal.BUILDING, host=host, alternates=len(alternates))
        self._compute.cast(
            context,
            fake_compute.BUILD,
            instance_uuid=instance_uuid,
            request_spec=request_spec,
            filter_properties=retries.on_host(filter_properties, selection),
            host=host,
            node=selection.nodename,
            host_list=alternates,
        )

    def _note(self, context, instance_uuid, state, **more):
        self._reports.report(context, journal.Event(instance_uuid, state, cell=self._cell, **more))
