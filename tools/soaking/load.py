"""The requests of a soak run: sent by several threads, their instances deleted again after a while."""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
import random
import threading
from typing import Any
import uuid

from oslo_messaging import RemoteError

from conductor_client.claims import Allocations
from conductor_client.client import SchedulerClient
from conductor_client.errors import NoValidHost
from scheduler import objects
from scheduler.rpc.context import RequestContext
from tools.rig.fleet import ZONES
from tools.soaking.churn import Churn

FLAVORS = ((1, 2048, 20), (2, 4096, 40), (4, 8192, 80))
#: Requests after which the cloud changes in one more way.
CHURN_INTERVAL = 10
#: Outcomes that are expected of some requests.
CHOSEN, REFUSED, NO_HOST = "host chosen", "message refused", "no valid host"


@dataclass(frozen=True)
class Booted:
    """An instance that has its allocation."""

    uuid: str
    host: str
    memory_mb: int


class Load:
    """Requests of many kinds, of which some are impossible and some are malformed.

    Attributes:
        outcomes: How many requests ended in which way.
    """

    def __init__(
        self,
        scheduler: SchedulerClient,
        allocations: Allocations,
        churn: Churn,
        rng: random.Random,
        held: int,
    ) -> None:
        """Send requests to a scheduler.

        Args:
            scheduler: The client of the scheduler.
            allocations: Removes the allocations of deleted instances.
            churn: Changes the cloud.
            rng: Makes all choices.
            held: Number of instances that are kept; beyond it the oldest are deleted.
        """
        self.outcomes: Counter[str] = Counter()
        self._scheduler = scheduler
        self._allocations = allocations
        self._churn = churn
        self._rng = rng
        self._held = held
        self._instances: deque[Booted] = deque()
        self._lock = threading.Lock()
        self._started = 0

    @property
    def finished(self) -> int:
        """Number of requests that have ended."""
        return sum(self.outcomes.values())

    def run(self, count: int, should_stop: Callable[[], bool]) -> None:
        """Send requests until ``count`` were started, by all threads together, or ``should_stop()``."""
        while not should_stop():
            with self._lock:
                if self._started >= count:
                    return
                self._started += 1
                number = self._started
                request = self._draw()
            outcome = self._send(*request)
            with self._lock:
                self.outcomes[outcome] += 1
            if number % CHURN_INTERVAL == 0:
                self._churn.step(_context("operator"))
            self._delete_oldest(self._held)

    def delete_all(self) -> None:
        """Delete all instances."""
        self._delete_oldest(0)

    def _send(self, context: RequestContext, spec: Any, uuids: list[str]) -> str:
        try:
            selections = self._scheduler.select_destinations(
                context, spec, uuids, return_objects=True, return_alternates=True
            )
        except NoValidHost:
            return NO_HOST
        except RemoteError as error:
            if isinstance(spec, dict):
                return REFUSED
            return f"error {error.exc_type}"
        for instance, (chosen, *_alternates) in zip(uuids, selections, strict=True):
            memory_mb = spec.flavor.memory_mb
            self._churn.built(context, chosen.service_host, instance, memory_mb)
            with self._lock:
                self._instances.append(Booted(instance, chosen.service_host, memory_mb))
        return CHOSEN

    def _delete_oldest(self, held: int) -> None:
        while True:
            with self._lock:
                if len(self._instances) <= held:
                    return
                oldest = self._instances.popleft()
            self._allocations.remove(oldest.uuid)
            self._churn.deleted(_context("operator"), oldest.host, oldest.uuid, oldest.memory_mb)

    def _draw(self) -> tuple[RequestContext, Any, list[str]]:
        rng = self._rng
        project = f"project-{rng.randrange(5000)}"
        uuids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(rng.choice((1, 1, 1, 2)))]
        kind = rng.random()
        if kind < 0.01:
            return _context(project), {"nova_object.name": f"Strange{rng.random()}"}, uuids
        spec = self._spec(project, uuids)
        if kind < 0.03:
            spec.flavor.memory_mb = 1 << 30
        elif kind < 0.13:
            spec.scheduler_hints = {"different_host": [str(uuid.UUID(int=rng.getrandbits(128)))]}
        elif kind < 0.23:
            spec.instance_group = self._group(project, uuids)
        return _context(project), spec, uuids

    def _spec(self, project: str, uuids: list[str]) -> objects.RequestSpec:
        rng = self._rng
        vcpus, memory_mb, root_gb = rng.choice(FLAVORS)
        flavor = objects.Flavor(
            id=1,
            name="m1",
            flavorid="1",
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=root_gb,
            ephemeral_gb=0,
            swap=0,
            extra_specs={"hw:note": str(rng.random())} if rng.random() < 0.2 else {},
        )
        properties = objects.ImageMetaProps.from_dict({"os_distro": f"distro-{rng.randrange(10**6)}"})
        return objects.RequestSpec(
            instance_uuid=uuids[0],
            num_instances=len(uuids),
            flavor=flavor,
            image=objects.ImageMeta(name="image", disk_format="qcow2", properties=properties),
            availability_zone=rng.choice((None, None, *ZONES)),
            project_id=project,
            user_id="user",
            instance_group=None,
            scheduler_hints={},
            pci_requests=objects.InstancePCIRequests(requests=[]),
            numa_topology=None,
        )

    def _group(self, project: str, uuids: list[str]) -> objects.InstanceGroup:
        members = [each.uuid for each in list(self._instances)[-3:]]
        return objects.InstanceGroup(
            uuid=str(uuid.UUID(int=self._rng.getrandbits(128))),
            policy="anti-affinity",
            policies=["anti-affinity"],
            members=[*members, *uuids],
            hosts=[],
            project_id=project,
        )


def _context(project: str) -> RequestContext:
    return RequestContext(user_id="user", project_id=project)
