"""Computes that build nothing but fail as real ones do, and write what these write to Placement.

spec: host-state-and-cells 7.3, 7.4, 7.5, 7.6, 7.7
"""

import collections
import dataclasses
import random
import threading

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import journal
from conductor_client.cell_rows import ComputeRows
from conductor_client.claims import Allocations
from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.rpc.context import RequestContext

LOG = logging.getLogger(__name__)

TOPIC = "compute"
BUILD = "build_and_run_instance"
RESIZE = "prep_resize"


@dataclasses.dataclass(frozen=True)
class Failures:
    """The builds that fail.

    Attributes:
        hosts: Builds and moves on these service hosts fail.
        rate: This share of the other builds fails, drawn from the seed, the instance and the host, so that
            the same builds fail in whatever order they come.
        seed: The seed of this choice.
        moves: On as many hosts each resize and live migration fails before it succeeds.
    """

    hosts: frozenset[str] = frozenset()
    rate: float = 0.0
    seed: int = 0
    moves: int = 0

    def of_move(self, host: str, attempt: int) -> str | None:
        """Return why a move to this host fails, None if it does not; attempts are numbered from 1."""
        if host in self.hosts:
            return f"Moves to {host} fail"
        return "The hypervisor could not define the domain" if attempt <= self.moves else None

    def reason(self, instance_uuid: str, host: str) -> str | None:
        """Return why the build of this instance on this host fails, or None if it does not."""
        if host in self.hosts:
            return f"Builds on {host} fail"
        if random.Random(f"{self.seed}/{instance_uuid}/{host}").random() < self.rate:
            return "The hypervisor could not start the domain"
        return None


class FakeCompute:
    """RPC endpoint on the bus of a cell, topic ``compute``.

    It plays every compute of its cell, so it listens on the topic that they share, and the host is an
    argument. The journal has a move under the UUID of its migration.

    Attributes:
        instances: The UUIDs of the instances of each host.
    """

    target = messaging.Target(version=journal.VERSION)

    def __init__(
        self,
        conductor: messaging.RPCClient,
        allocations: Allocations,
        reports: journal.Reporter | journal.Journal,
        scheduler: SchedulerClient,
        rows: ComputeRows,
        failures: Failures = Failures(),
    ) -> None:
        """Serve one cell; ``scheduler`` is informed about instances, and ``rows`` has them."""
        self.instances: dict[str, set[str]] = collections.defaultdict(set)
        self._lock = threading.Lock()
        self._conductor = conductor
        self._allocations = allocations
        self._reports = reports
        self._scheduler = scheduler
        self._rows = rows
        self._failures = failures

    @messaging.expose
    def build_and_run_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        request_spec: objects.RequestSpec,
        filter_properties: dict,
        host: str,
        node: str,
        host_list: list,
    ) -> None:
        """Build an instance, or fail and send the alternates to the conductor of the cell."""
        reason = self._late_check(instance_uuid, host, request_spec)
        if reason is None:
            reason = self._failures.reason(instance_uuid, host)
            if reason is None:
                self._report(context, instance_uuid, host, node, request_spec, self._rows.built)
                self._reports.note(
                    context, instance_uuid, journal.ACTIVE, host=host, alternates=len(host_list)
                )
                return
            self.instances[host].discard(instance_uuid)
            _try(self._rows.failed, node)
        LOG.info("Build of instance %s on %s (%s) failed: %s", instance_uuid, host, node, reason)
        self._allocations.remove(instance_uuid)
        if self._is_retried(context, instance_uuid, filter_properties, host, host_list, reason):
            self._conductor.cast(
                context,
                "build_instances",
                instance_uuids=[instance_uuid],
                host_lists=[host_list],
                request_spec=request_spec,
                filter_properties=_with_reason(filter_properties, reason),
            )

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
        if self._is_retried(context, migration_uuid, filter_properties, host, host_list, reason):
            self._conductor.cast(
                context,
                "resize_instance",
                instance_uuid=instance_uuid,
                migration_uuid=migration_uuid,
                host_list=host_list,
                request_spec=request_spec,
                filter_properties=_with_reason(filter_properties, reason),
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
        self._report(context, instance_uuid, host, node, request_spec, self._rows.moved)
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
    def live_migration(self, context: RequestContext, migration_uuid: str, **move: object) -> None:
        """Migrate an instance, and free its source."""
        self._allocations.remove(migration_uuid)
        self._arrive(context, migration_uuid=migration_uuid, **move)

    @messaging.expose
    def rebuild_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        migration_uuid: str,
        host: str,
        provider: str,
        **more: object,
    ) -> None:
        """Take an instance that was evacuated or shelved, or give back what it was given here."""
        reason = self._failures.of_move(host, 1)
        if reason is None:
            self._arrive(context, instance_uuid, migration_uuid, host=host, **more)
            return
        self._allocations.drop(instance_uuid, provider)
        self._reports.note(context, migration_uuid, journal.ERROR, host=host, detail=reason)

    unshelve_instance = rebuild_instance

    @messaging.expose
    def clean_evacuated(self, _context: RequestContext, instance_uuid: str, provider: str) -> bool:
        """Free what an evacuated instance holds on its old host, as this does when it is up again."""
        return self._allocations.drop(instance_uuid, provider)

    def _late_check(self, instance_uuid: str, host: str, spec: objects.RequestSpec) -> str | None:
        """Take an instance onto a host; return why not if a member of its anti-affinity group is there.

        This does not count as a failed build (spec: host-state-and-cells 6.4).
        """
        group = spec.instance_group
        members = set(group.members) if group and group.policy == "anti-affinity" else set()
        with self._lock:
            if members & self.instances[host] - {instance_uuid}:
                return "Anti-affinity instance group policy was violated."
            self.instances[host].add(instance_uuid)
        return None

    def _arrive(self, context, instance_uuid, migration_uuid, request_spec, host, node, alternates=0):
        with self._lock:
            for instances in self.instances.values():
                instances.discard(instance_uuid)
            self.instances[host].add(instance_uuid)
        self._report(context, instance_uuid, host, node, request_spec, self._rows.moved)
        self._reports.note(context, migration_uuid, journal.ACTIVE, host=host, alternates=alternates)

    def _report(self, context, instance_uuid, host, node, spec, write):
        """Write that a host has an instance now, and inform the schedulers of it.

        The latter is nova's ``[filter_scheduler]/track_instance_changes``.
        """
        _try(write, instance_uuid, host, node, spec)
        instances = objects.InstanceList(objects=[objects.Instance(uuid=instance_uuid)])
        _try(self._scheduler.update_instance_info, context, host, instances)

    def _is_retried(self, context, record, filter_properties, host, alternates, reason) -> bool:
        """Note the failure of an attempt; return whether there is to be another one."""
        if "retry" not in filter_properties:
            self._reports.note(context, record, journal.ERROR, host=host, detail=reason)
            return False
        left = len(alternates)
        self._reports.note(context, record, journal.FAILED, host=host, alternates=left, detail=reason)
        return True


def _try(report, *arguments) -> None:
    try:
        report(*arguments)
    except Exception:
        LOG.exception("A fake compute cannot report")


def _with_reason(filter_properties, reason):
    return {**filter_properties, "retry": {**filter_properties["retry"], "exc_reason": reason}}
