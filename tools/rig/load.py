"""Requests as conductors send them, and callers that send them to a scheduler, many at once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
import math
import random
import threading
import time
from typing import Any, NamedTuple, Self
import uuid

from oslo_messaging import MessagingException, RemoteError

from conductor_client.bus import Bus
from conductor_client.client import SchedulerClient
from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.operators.snapshot.as_nova_api import guest_topology
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.rpc.context import RequestContext
from tools.rig.fleet import ZONES

PROJECT, USER = "5f6d2f0f3c2b4d0c9f3e7f2e5c9a1b22", "a6bfbc0a4b1d4f3f8a4a5d2f1f0c7e11"
IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
#: Share of the requests that name a zone.
ZONE_SHARE = 0.2
#: Seconds that a caller waits for an answer, as nova's ``long_rpc_timeout``.
CALL_TIMEOUT = 1800
#: With fewer, members of a server group are left without alternates, which looks like a wrong answer.
FEWEST_HOSTS = 50


class Flavor(NamedTuple):
    """A flavor: its share of random requests, its name, vCPUs, MiB of memory, GiB of disk."""

    share: int
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    extra_specs: tuple[tuple[str, str], ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """What an instance holds of each resource class."""
        return {"VCPU": self.vcpus, "MEMORY_MB": self.memory_mb, "DISK_GB": self.root_gb}

    def wire(self) -> objects.Flavor:
        """Return the flavor as it is sent."""
        return objects.Flavor(
            id=self.vcpus,
            name=self.name,
            flavorid=self.name,
            vcpus=self.vcpus,
            memory_mb=self.memory_mb,
            root_gb=self.root_gb,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            vcpu_weight=0,
            disabled=False,
            is_public=True,
            extra_specs=dict(self.extra_specs),
            description=None,
        )


FLAVORS = (
    Flavor(4, "m1.small", 1, 2048, 20),
    Flavor(3, "m1.medium", 2, 4096, 40),
    Flavor(2, "m1.large", 4, 8192, 80),
    Flavor(1, "m1.xlarge", 8, 16384, 80),
)


@dataclass(frozen=True)
class BootRequest:
    """The request for equal instances, one for each UUID.

    ``group`` has the members of the anti-affinity group that they are in, ``excluded`` service hosts.
    """

    uuids: Sequence[str]
    flavor: Flavor
    zone: str | None = None
    group: Sequence[str] = ()
    excluded: Sequence[str] = ()
    project: str = PROJECT

    @property
    def amounts(self) -> dict[str, int]:
        """What one instance holds of each resource class."""
        return self.flavor.amounts

    def spec(self) -> Any:
        """Return the RequestSpec, with all fields that a conductor sends."""
        spec = objects.RequestSpec(
            image=_image(),
            numa_topology=None,
            pci_requests=objects.InstancePCIRequests(instance_uuid=self.uuids[0], requests=[]),
            project_id=self.project,
            user_id=USER,
            availability_zone=self.zone,
            flavor=self.flavor.wire(),
            num_instances=len(self.uuids),
            ignore_hosts=list(self.excluded) or None,
            force_hosts=None,
            force_nodes=None,
            requested_destination=None,
            retry=None,
            limits=objects.SchedulerLimits(numa_topology=None, vcpu=None, disk_gb=None, memory_mb=None),
            instance_group=self._group() if self.group else None,
            scheduler_hints={},
            instance_uuid=self.uuids[0],
            security_groups=objects.SecurityGroupList(objects=[]),
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
            is_bfv=False,
            requested_resources=[],
            request_level_params=objects.RequestLevelParams(
                root_required=set(), root_forbidden=set(), same_subtree=[]
            ),
        )
        if self.flavor.extra_specs:
            spec.numa_topology = guest_topology(FlavorAndImage(spec))
        return spec

    def _group(self) -> objects.InstanceGroup:
        return objects.InstanceGroup(
            id=1,
            uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, self.group[0])),
            name="spread",
            project_id=self.project,
            user_id=USER,
            policy="anti-affinity",
            policies=["anti-affinity"],
            members=list(self.group),
            hosts=[],
        )


def _image() -> objects.ImageMeta:
    return objects.ImageMeta(
        id=IMAGE,
        name="debian-12",
        status="active",
        container_format="bare",
        disk_format="qcow2",
        min_ram=0,
        min_disk=0,
        size=338362368,
        owner=PROJECT,
        checksum="f8ab98ff5e73ebab884d80c9dc9c7290",
        properties=objects.ImageMetaProps.from_dict({"hw_disk_bus": "virtio", "hw_vif_model": "virtio"}),
    )


def random_uuid(rng: random.Random) -> str:
    """Return a UUID that a generator of random numbers determines."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def random_requests(
    rng: random.Random,
    sizes: Sequence[int] = (1,),
    zone_share: float = ZONE_SHARE,
    flavors: Sequence[Flavor] = FLAVORS,
    new_uuid: Callable[[random.Random], str] = random_uuid,
) -> Iterator[BootRequest]:
    """Yield requests without an end, each for one of the ``sizes`` in instances, as ``rng`` draws them."""
    shares = [flavor.share for flavor in flavors]
    while True:
        uuids = [new_uuid(rng) for _ in range(rng.choice(sizes))]
        zone = rng.choice(ZONES) if rng.random() < zone_share else None
        yield BootRequest(uuids, rng.choices(flavors, shares)[0], zone)


def make_requests(count: int, seed: int) -> list[BootRequest]:
    """Return requests for one instance each; the same seed gives the same flavors and zones, not UUIDs."""
    drawn = random_requests(random.Random(seed), new_uuid=lambda _: str(uuid.uuid4()))
    return [next(drawn) for _ in range(count)]


def make_large_request(instances: int, *, spread: bool) -> BootRequest:
    """Return a request for many instances."""
    uuids = [str(uuid.uuid4()) for _ in range(instances)]
    return BootRequest(uuids, FLAVORS[1], group=uuids if spread else ())


@dataclass
class Call:
    """A request that was sent, and what became of it: the Selections of each instance, or an error.

    ``sent`` and ``ended`` are monotonic seconds; it has not ended while its caller waits.
    """

    request: BootRequest
    sent: float
    ended: float | None = None
    selections: Sequence[Sequence[Any]] = ()
    error: str = ""

    @property
    def seconds(self) -> float:
        """How long it took; infinite while its caller waits."""
        return math.inf if self.ended is None else self.ended - self.sent

    @property
    def unanswered(self) -> bool:
        """Whether the caller got neither hosts nor an error of the scheduler."""
        return self.ended is None or self.error == "MessagingTimeout"

    def send(self, client: SchedulerClient) -> None:
        """Send the request, and wait for its answer."""
        context = RequestContext(user_id=USER, project_id=self.request.project, roles=["member", "reader"])
        spec, uuids = self.request.spec(), list(self.request.uuids)
        self.sent = time.monotonic()
        try:
            self.selections = client.select_destinations(
                context, spec, uuids, return_objects=True, return_alternates=True
            )
        except NoValidHost:
            self.error = "NoValidHost"
        except RemoteError as error:
            self.error = f"{error.exc_type}: {error.value}"
        except MessagingException as error:
            self.error = type(error).__name__
        self.ended = time.monotonic()


def ask(client: SchedulerClient, request: BootRequest) -> Call:
    """Send a request and wait for its answer."""
    call = Call(request, time.monotonic())
    call.send(client)
    return call


class Callers:
    """Threads that send one request after the other, each the next that there is.

    Attributes:
        calls: All that were sent so far.
    """

    def __init__(
        self,
        client: SchedulerClient,
        requests: Iterable[BootRequest],
        callers: int,
        *,
        seconds: float = math.inf,
        pause: float = 0.0,
        before: Callable[[Call], object] = lambda _call: None,
        after: Callable[[Call], object] = lambda _call: None,
    ) -> None:
        """Describe the load: so many callers at the same time, which send nothing more after some seconds.

        A caller pauses for at most ``pause`` seconds between two requests. Its thread calls ``before`` with
        each call that it is about to send, and ``after`` once it is answered.
        """
        self.calls: list[Call] = []
        self._client = client
        self._requests = iter(requests)
        self._seconds = seconds
        self._pause = pause
        self._before = before
        self._after = after
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        # An interrupt ends a run although callers wait for answers
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(number),), daemon=True)
            for number in range(callers)
        ]

    def __enter__(self) -> Self:
        self._deadline = time.monotonic() + self._seconds
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether a caller sends more, or waits for an answer."""
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Send no more requests, and wait until all are answered."""
        self._stopping.set()
        self.wait()

    def give_up(self) -> None:
        """Send no more requests, and leave those that are not answered."""
        self._stopping.set()

    def wait(self) -> None:
        """Wait until all requests are sent and answered.

        Raises:
            Exception: What ``before`` or ``after`` raised.
        """
        for thread in self._threads:
            if thread.ident:  # it was started
                thread.join()
        if self._error:
            raise self._error

    def _run(self, rng: random.Random) -> None:
        try:
            while not self._stopping.wait(rng.uniform(0, self._pause)):
                call = self._next()
                if call is None:
                    return
                self._before(call)
                call.send(self._client)
                self._after(call)
        except BaseException as error:  # noqa: BLE001 - raised by ``wait``
            self._error = error
            self._stopping.set()

    def _next(self) -> Call | None:
        with self._lock:
            now = time.monotonic()
            request = next(self._requests, None) if now < self._deadline else None
            if request is None:
                return None
            call = Call(request, now)
            self.calls.append(call)
            return call


def send(bus: Bus, requests: Iterable[BootRequest], callers: int, seconds: float) -> list[Call]:
    """Send requests from a number of callers, none any more after so many seconds; wait for all answers."""
    with Callers(SchedulerClient(bus, timeout=CALL_TIMEOUT), requests, callers, seconds=seconds) as sending:
        sending.wait()
    return sending.calls


def percentile(values: Sequence[float], share: int) -> float:
    """Return the smallest of the sorted values that ``share`` per cent of them do not exceed."""
    return values[max(0, -(-len(values) * share // 100) - 1)]
