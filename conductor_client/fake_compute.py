"""Computes that build nothing but fail as real ones do (spec: host-state-and-cells 7.3)."""

import collections
from collections.abc import Callable, Sequence
import dataclasses
import random
import threading
import time
from typing import Protocol

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import journal
from conductor_client.claims import Allocations
from scheduler import objects
from scheduler.rpc.context import RequestContext

LOG = logging.getLogger(__name__)

TOPIC = "compute"
VERSION = "1.0"
BUILD = "build_and_run_instance"


@dataclasses.dataclass(frozen=True)
class Failures:
    """The builds that fail.

    Attributes:
        always: All builds fail.
        hosts: Builds on these service hosts fail.
        rate: This share of the other builds fails, drawn from the seed, the instance and the host, so that
            the same builds fail in whatever order they come.
        seed: The seed of this choice.
        moves: On as many hosts each resize and live migration fails before it succeeds.
    """

    always: bool = False
    hosts: frozenset[str] = frozenset()
    rate: float = 0.0
    seed: int = 0
    moves: int = 0

    def of_move(self, host: str, attempt: int) -> str | None:
        """Return why a move to this host fails, None if it does not; attempts are numbered from 1."""
        if self.always or host in self.hosts:
            return f"Moves to {host} fail"
        return "The hypervisor could not define the domain" if attempt <= self.moves else None

    def reason(self, instance_uuid: str, host: str) -> str | None:
        """Return why the build of this instance on this host fails, or None if it does not."""
        if self.always:
            return "Every build fails here"
        if host in self.hosts:
            return f"Builds on {host} fail"
        if random.Random(f"{self.seed}/{instance_uuid}/{host}").random() < self.rate:
            return "The hypervisor could not start the domain"
        return None


class Observer(Protocol):
    """Is informed about builds and moves; see ``observers``."""

    def built(
        self, context: RequestContext, instance_uuid: str, host: str, node: str, spec: objects.RequestSpec
    ) -> None:
        """Note that an instance was built on a host."""

    def moved(
        self, context: RequestContext, instance_uuid: str, host: str, node: str, spec: objects.RequestSpec
    ) -> None:
        """Note that an instance was moved to a host."""

    def failed(self, context: RequestContext, node: str) -> None:
        """Note that a build failed."""


class FakeCompute:
    """RPC endpoint on the bus of a cell, topic ``compute``.

    It plays every compute of its cell, so it listens on the topic that they share, and the host is an
    argument.

    Attributes:
        instances: The UUIDs of the instances of each host.
    """

    target = messaging.Target(version=VERSION)

    def __init__(
        self,
        conductor: messaging.RPCClient,
        allocations: Allocations,
        reports: journal.Reporter | journal.Journal,
        failures: Failures | None = None,
        observers: Sequence[Observer] = (),
        build_seconds: float = 0.0,
        cell: str | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Serve one cell.

        Args:
            failures: The builds that fail; None: none.
            observers: Informed about builds.
            cell: The name of the cell, for the records.
        """
        self._sleep = sleep
        self.instances: dict[str, set[str]] = collections.defaultdict(set)
        self._lock = threading.Lock()
        self._conductor = conductor
        self._allocations = allocations
        self._reports = reports
        self._failures = failures or Failures()
        self._observers = observers
        self._build_seconds = build_seconds
        self._cell = cell

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
            self._sleep(self._build_seconds)
            reason = self._failures.reason(instance_uuid, host)
            if reason is None:
                self._succeed(context, instance_uuid, request_spec, host, node, len(host_list))
                return
            self.instances[host].discard(instance_uuid)
            self._inform("failed", context, node)
        LOG.info("Build of instance %s on %s (%s) failed: %s", instance_uuid, host, node, reason)
        self._allocations.remove(instance_uuid)
        if "retry" not in filter_properties:
            self._note(context, instance_uuid, journal.ERROR, host=host, detail=reason)
            return
        self._note(
            context, instance_uuid, journal.FAILED, host=host, alternates=len(host_list), detail=reason
        )
        self._conductor.cast(
            context,
            "build_instances",
            instance_uuids=[instance_uuid],
            host_lists=[host_list],
            request_spec=request_spec,
            filter_properties=_with_reason(filter_properties, reason),
        )

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

    def _succeed(self, context, instance_uuid, request_spec, host, node, alternates):
        self._inform("built", context, instance_uuid, host, node, request_spec)
        self._note(context, instance_uuid, journal.ACTIVE, host=host, alternates=alternates)

    def _inform(self, what: str, *arguments: object) -> None:
        for observer in self._observers:
            try:
                getattr(observer, what)(*arguments)
            except Exception:
                LOG.exception("Observer %s failed", type(observer).__name__)

    def _note(self, context, instance_uuid, state, **more):
        self._reports.report(context, journal.Event(instance_uuid, state, cell=self._cell, **more))


def _with_reason(filter_properties, reason):
    return {**filter_properties, "retry": {**filter_properties["retry"], "exc_reason": reason}}
