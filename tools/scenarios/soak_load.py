"""The load of a soak: requests of many kinds for instances that come and go."""

import argparse
from collections import Counter, deque
from collections.abc import Iterator, Mapping
import contextlib
from dataclasses import dataclass, field
import itertools
import random
import threading
from typing import Any
import uuid

from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from scheduler import objects
from tools.rig.daemon_cloud import DaemonCloud
from tools.rig.load import FLAVORS, BootRequest, Call, Callers, random_requests, random_uuid
from tools.scenarios.churn import Churn

#: Outcomes that are expected of some requests.
CHOSEN, REFUSED, NO_HOST = "host chosen", "message refused", "no valid host"
#: Requests after which the cloud changes in one more way.
CHURN_INTERVAL = 10


@dataclass(frozen=True)
class SoakRequest(BootRequest):
    """A request with values that no other has; ``strange`` is the name of an object that does not exist."""

    hints: Mapping[str, Any] = field(default_factory=dict)
    distribution: str = ""
    strange: str = ""

    def spec(self) -> Any:
        """Return the RequestSpec, or what is none."""
        if self.strange:
            return {"nova_object.name": self.strange}
        spec = super().spec()
        spec.scheduler_hints = dict(self.hints)
        spec.image.properties = objects.ImageMetaProps.from_dict({"os_distro": self.distribution})
        return spec


class Load:
    """Requests of many kinds, of which some are impossible and some are malformed; instances come and go.

    Attributes:
        outcomes: How many requests ended in which way.
        churn: What changes the cloud meanwhile.
    """

    def __init__(self, cloud: DaemonCloud, options: argparse.Namespace) -> None:
        """Describe the load of a cloud by the options of the command line."""
        self.outcomes: Counter[str] = Counter()
        self._held = options.held
        self._lock = threading.Lock()
        self._rng = random.Random(options.seed)
        self._allocations = Allocations(placement_adapter(cloud.conf))
        self._instances: deque[tuple[str, str]] = deque()
        self._finished = itertools.count(1)
        client = SchedulerClient(cloud.bus, timeout=120, monitor=60)
        self.churn = Churn(cloud, client, self._rng)
        requests = itertools.islice(self._requests(), options.requests)
        seconds = options.minutes * 60
        self.callers = Callers(client, requests, options.callers, seconds=seconds, after=self._ended)

    def delete(self, held: int = 0) -> None:
        """Delete the oldest instances, so that no more than so many are left."""
        while len(self._instances) > held:
            with contextlib.suppress(IndexError):  # another thread has deleted it
                instance, host = self._instances.popleft()
                self._allocations.remove(instance)
                self.churn.deleted(host, instance)

    def _requests(self) -> Iterator[SoakRequest]:
        rng = self._rng
        for plain in random_requests(rng, (1, 1, 1, 2), 0.6, FLAVORS[:3]):
            kind, flavor, group, more = rng.random(), plain.flavor, (), {}
            if rng.random() < 0.2:
                flavor = flavor._replace(extra_specs=(("hw:note", str(rng.random())),))
            if kind < 0.01:
                more["strange"] = f"Strange{rng.random()}"
            elif kind < 0.03:
                flavor = flavor._replace(memory_mb=1 << 30)
            elif kind < 0.13:
                more["hints"] = {"different_host": [str(uuid.UUID(int=rng.getrandbits(128)))]}
            elif kind < 0.23:
                group = [random_uuid(rng), *(each[0] for each in list(self._instances)[-3:]), *plain.uuids]
            yield SoakRequest(
                plain.uuids,
                flavor,
                plain.zone,
                group,
                project=f"project-{rng.randrange(5000)}",
                distribution=f"distro-{rng.randrange(10**6)}",
                **more,
            )

    def _ended(self, call: Call) -> None:
        request, error = call.request, call.error.partition(":")[0]
        outcome = {"": CHOSEN, "NoValidHost": NO_HOST}.get(error, f"error {error}")
        with self._lock:
            self.outcomes[REFUSED if call.error and request.strange else outcome] += 1
        for instance, selections in zip(request.uuids, call.selections, strict=False):
            host = selections[0].service_host
            self.churn.built(host, instance, request.flavor)
            self._instances.append((instance, host))
        if next(self._finished) % CHURN_INTERVAL == 0:
            self.churn.step()
        self.delete(self._held)
