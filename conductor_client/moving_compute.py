"""Computes that instances are moved to: they fail as real ones do, and write what these write to Placement.

spec: host-state-and-cells 7.4, 7.5, 7.6, 7.7
"""

from collections.abc import Sequence

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import fake_compute, journal, retries
from scheduler import objects
from scheduler.rpc.context import RequestContext

LOG = logging.getLogger(__name__)


def send_resize(
    computes: messaging.RPCClient,
    context: RequestContext,
    *,
    migration_uuid: str,
    request_spec: objects.RequestSpec,
    filter_properties: dict,
    selection: objects.Selection,
    host_list: Sequence,
) -> None:
    """Have a resized instance taken by the host of a Selection, which its instance has claimed."""
    computes.cast(
        context,
        "prep_resize",
        instance_uuid=request_spec.instance_uuid,
        migration_uuid=migration_uuid,
        request_spec=request_spec,
        filter_properties=retries.on_host(filter_properties, selection),
        host=selection.service_host,
        node=selection.nodename,
        host_list=host_list,
    )


class MovingCompute(fake_compute.FakeCompute):
    """A ``FakeCompute`` whose instances can be moved as well."""

    @messaging.expose
    def prep_resize(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        request_spec: objects.RequestSpec,
        filter_properties: dict,
        host: str,
        node: str,
        host_list: list,
    ) -> None:
        """Take a resized instance, or give its source back to it and send the alternates to the conductor."""
        attempt = filter_properties.get("retry", {}).get("num_attempts", 1)
        reason = self._failures.of_move(host, attempt)
        if reason is None:
            self._arrive(context, instance_uuid, migration_uuid, request_spec, host, node, len(host_list))
            return
        LOG.info("Resize of instance %s on %s (%s) failed: %s", instance_uuid, host, node, reason)
        self._allocations.move(migration_uuid, instance_uuid)
        if "retry" not in filter_properties:
            self._note(context, migration_uuid, journal.ERROR, host=host, detail=reason)
            return
        alternates = len(host_list)
        self._note(context, migration_uuid, journal.FAILED, host=host, alternates=alternates, detail=reason)
        self._conductor.cast(
            context,
            "resize_instance",
            instance_uuid=instance_uuid,
            migration_uuid=migration_uuid,
            host_list=host_list,
            request_spec=request_spec,
            filter_properties=filter_properties,
        )

    @messaging.expose
    def confirm_resize(self, _context: RequestContext, migration_uuid: str) -> bool:
        """Free the source of a resized instance; return whether that was done."""
        return self._allocations.remove(migration_uuid)

    @messaging.expose
    def revert_resize(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        request_spec: objects.RequestSpec,
        host: str,
        node: str,
    ) -> bool:
        """Take a resized instance back to its source; return whether it holds that again."""
        self._inform("moved", context, instance_uuid, host, node, request_spec)
        return self._allocations.move(migration_uuid, instance_uuid)

    @messaging.expose
    def check_can_live_migrate_destination(
        self, _context: RequestContext, instance_uuid: str, host: str, node: str, attempt: int
    ) -> str | None:
        """Return why the instance cannot be migrated to the host, None if it can."""
        reason = self._failures.of_move(host, attempt)
        if reason:
            LOG.info("Instance %s cannot be migrated to %s (%s): %s", instance_uuid, host, node, reason)
        return reason

    @messaging.expose
    def live_migration(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        request_spec: objects.RequestSpec,
        host: str,
        node: str,
    ) -> None:
        """Migrate an instance, and free its source."""
        self._allocations.remove(migration_uuid)
        self._arrive(context, instance_uuid, migration_uuid, request_spec, host, node)

    @messaging.expose
    def rebuild_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        request_spec: objects.RequestSpec,
        host: str,
        node: str,
        provider: str,
    ) -> None:
        """Take an evacuated instance, or give back what it was given here."""
        reason = self._failures.of_move(host, 1)
        if reason is None:
            self._arrive(context, instance_uuid, migration_uuid, request_spec, host, node)
            return
        self._allocations.drop(instance_uuid, provider)
        self._note(context, migration_uuid, journal.ERROR, host=host, detail=reason)

    @messaging.expose
    def clean_evacuated(self, _context: RequestContext, instance_uuid: str, provider: str) -> bool:
        """Free what an evacuated instance holds on its old host, as this does when it is up again."""
        return self._allocations.drop(instance_uuid, provider)

    @messaging.expose
    def unshelve_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        request_spec: objects.RequestSpec,
        host: str,
        node: str,
        provider: str,
    ) -> None:
        """Take a shelved instance, or give back what it was given here, which is all that it holds."""
        self.rebuild_instance(context, instance_uuid, migration_uuid, request_spec, host, node, provider)

    def _arrive(self, context, instance_uuid, migration_uuid, request_spec, host, node, alternates=0):
        with self._lock:
            for instances in self.instances.values():
                instances.discard(instance_uuid)
            self.instances[host].add(instance_uuid)
        self._inform("moved", context, instance_uuid, host, node, request_spec)
        self._note(context, migration_uuid, journal.ACTIVE, host=host, alternates=alternates)
