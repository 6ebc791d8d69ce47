"""Computes that build nothing, but fail as real ones do (spec: host-state-and-cells 7.3)."""

import collections
import dataclasses
import random
import time

from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import journal

LOG = logging.getLogger(__name__)

TOPIC = "compute"
VERSION = "1.0"
BUILD = "build_and_run_instance"


@dataclasses.dataclass(frozen=True)
class Failures:
    """Which builds fail.

    always: all of them. hosts: those on these service hosts. rate: this share of the others, drawn from the
    seed, the instance and the host, so that the same builds fail whatever the order they come in.
    """

    always: bool = False
    hosts: frozenset[str] = frozenset()
    rate: float = 0.0
    seed: int = 0

    def reason(self, instance_uuid, host):
        """Why the build of this instance on this host fails, or None if it does not."""
        if self.always:
            return "Every build fails here"
        if host in self.hosts:
            return f"Builds on {host} fail"
        if random.Random(f"{self.seed}/{instance_uuid}/{host}").random() < self.rate:
            return "The hypervisor could not start the domain"
        return None


class FakeCompute:
    """RPC endpoint on the bus of a cell, topic ``compute``.

    It stands for every compute of its cell, so it listens on the topic that they share, and the host is an
    argument.

    conductor: RPC client for the conductor of the cell.
    allocations: ``claims.Allocations``.
    reports: ``journal.Reporter`` or a Journal.
    observers: who is told of builds, see ``observers``.
    build_seconds: how long a build takes.
    """

    target = messaging.Target(version=VERSION)

    def __init__(
        self, conductor, allocations, reports, failures=None, observers=(), build_seconds=0.0, cell=None
    ):
        self.instances = collections.defaultdict(set)
        self._conductor = conductor
        self._allocations = allocations
        self._reports = reports
        self._failures = failures or Failures()
        self._observers = observers
        self._build_seconds = build_seconds
        self._cell = cell

    @messaging.expose
    def build_and_run_instance(
        self, context, instance_uuid, request_spec, filter_properties, host, node, host_list
    ):
        """Build an instance, or fail to and ask the cell's conductor to try the alternates."""
        time.sleep(self._build_seconds)
        reason = self._failures.reason(instance_uuid, host)
        if reason is None:
            self._succeed(context, instance_uuid, request_spec, host, node, len(host_list))
            return
        LOG.info("Build of instance %s on %s (%s) failed: %s", instance_uuid, host, node, reason)
        self._tell("failed", context, node)
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

    def _succeed(self, context, instance_uuid, request_spec, host, node, alternates):
        self.instances[host].add(instance_uuid)
        self._tell("built", context, instance_uuid, host, node, request_spec)
        self._note(context, instance_uuid, journal.ACTIVE, host=host, alternates=alternates)

    def _tell(self, what, *arguments):
        for observer in self._observers:
            try:
                getattr(observer, what)(*arguments)
            except Exception:
                LOG.exception("%s is not told", type(observer).__name__)

    def _note(self, context, instance_uuid, state, **more):
        self._reports.report(context, instance_uuid=instance_uuid, state=state, cell=self._cell, **more)


def _with_reason(filter_properties, reason):
    return {**filter_properties, "retry": {**filter_properties["retry"], "exc_reason": reason}}
