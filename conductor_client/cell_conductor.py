"""The conductor of a cell: starts builds, and retries failed builds and resizes on the next alternate.

spec: host-state-and-cells 7.3, 7.4
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import fake_compute, journal, retries
from conductor_client.claims import Allocations, held_by_migration
from scheduler import objects
from scheduler.errors import NoValidHost
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
    ) -> None:
        """Serve one cell.

        Args:
            compute: RPC client for the computes of the cell (``fake_compute.TOPIC``).
            max_attempts: nova's option ``[scheduler]/max_attempts``.
        """
        self._compute = compute
        self._allocations = allocations
        self._reports = reports
        self._max_attempts = max_attempts

    @messaging.expose
    def start_builds(
        self,
        context: RequestContext,
        request_spec: objects.RequestSpec,
        host_lists: Mapping[str, Sequence],
    ) -> None:
        """Start builds on hosts that the scheduler has chosen and claimed.

        Args:
            host_lists: The Selections of each instance UUID. The first one is claimed.
        """
        for instance_uuid, (selection, *alternates) in host_lists.items():
            properties = retries.first(request_spec, self._max_attempts)
            arguments = {"instance_uuid": instance_uuid, "request_spec": request_spec}
            self._start(
                context, instance_uuid, fake_compute.BUILD, selection, alternates, properties, arguments
            )

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
            arguments = {"instance_uuid": instance_uuid, "request_spec": request_spec}
            self._retry(context, fake_compute.BUILD, alternates, filter_properties, arguments)

    @messaging.expose
    def resize_instance(
        self,
        context: RequestContext,
        host_list: Sequence,
        filter_properties: dict,
        **arguments: object,
    ) -> None:
        """Retry a failed resize on the first of its alternates that can still be claimed.

        Args:
            arguments: ``instance_uuid``, ``migration_uuid`` and ``request_spec``.
        """
        self._retry(context, fake_compute.RESIZE, host_list, filter_properties, arguments)

    def _retry(self, context, method, alternates, filter_properties, arguments):
        instance_uuid, migration_uuid = arguments["instance_uuid"], arguments.get("migration_uuid")
        record = migration_uuid or instance_uuid
        try:
            properties = retries.again(filter_properties, self._max_attempts)
            with (
                held_by_migration(self._allocations, instance_uuid, migration_uuid)
                if migration_uuid
                else nullcontext()
            ):
                chosen, rest = self._claim_next(context, record, alternates, arguments)
                self._start(context, record, method, chosen, rest, properties, arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the build or resize ends in ERROR
            LOG.warning("%s of instance %s ends in ERROR: %s", method, instance_uuid, error)
            detail = str(error) or type(error).__name__
            self._reports.note(context, record, journal.ERROR, detail=detail)

    def _claim_next(self, context, record, alternates, arguments):
        """Return the first alternate that can be claimed, and those after it.

        Raises:
            NoValidHost: No alternate is left.
        """
        for place, selection in enumerate(alternates):
            rest = alternates[place + 1 :]
            if self._allocations.claim(arguments["instance_uuid"], selection, arguments["request_spec"]):
                return selection, rest
            host = selection.service_host
            self._reports.note(context, record, journal.REFUSED, host=host, alternates=len(rest))
        raise NoValidHost("No alternate host is left to try.")

    def _start(self, context, record, method, selection, alternates, properties, arguments):
        host = selection.service_host
        self._reports.note(context, record, journal.BUILDING, host=host, alternates=len(alternates))
        retries.send(self._compute, context, method, selection, alternates, properties, **arguments)
