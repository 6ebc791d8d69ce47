"""The conductor of a cell: starts builds, and moves failed ones to the next alternate.

spec: host-state-and-cells 7.3
"""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import errors, fake_compute, journal, retries

LOG = logging.getLogger(__name__)


class CellConductor:
    """RPC endpoint on the bus of a cell, topic ``conductor``. It never calls the scheduler."""

    target = messaging.Target(version=journal.VERSION)

    def __init__(
        self, compute: Any, allocations: Any, reports: Any, max_attempts: int, cell: str | None = None
    ) -> None:
        """Serve one cell.

        Args:
            compute: RPC client for the computes of the cell (``fake_compute.TOPIC``).
            allocations: ``claims.Allocations``.
            reports: ``journal.Reporter`` or a Journal.
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
        self, context: Any, request_spec: Any, host_lists: Mapping[str, Sequence], cell: str | None = None
    ) -> None:
        """Start builds on hosts that the scheduler has chosen and claimed.

        Args:
            context: The request context.
            request_spec: The RequestSpec.
            host_lists: The Selections of each instance UUID, of which the first one is claimed.
            cell: The name of the cell, for the records.
        """
        self._cell = cell or self._cell
        for instance_uuid, (selection, *alternates) in host_lists.items():
            properties = retries.first(request_spec, self._max_attempts)
            self._start(context, instance_uuid, request_spec, properties, selection, alternates)

    @messaging.expose
    def build_instances(
        self,
        context: Any,
        instance_uuids: Sequence[str],
        host_lists: Sequence[Sequence],
        request_spec: Any,
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

    def _claim_next(self, context, instance_uuid, request_spec, alternates):
        """Return the first alternate that can be claimed, and those after it.

        Raises:
            MaxRetriesExceeded: No alternate is left.
        """
        for place, selection in enumerate(alternates):
            rest = alternates[place + 1 :]
            if self._allocations.claim(instance_uuid, selection, request_spec):
                return selection, rest
            self._note(
                context, instance_uuid, journal.REFUSED, host=selection.service_host, alternates=len(rest)
            )
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
        self._reports.report(context, instance_uuid=instance_uuid, state=state, cell=self._cell, **more)
