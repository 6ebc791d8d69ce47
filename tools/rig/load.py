"""Requests as conductors send them, sent by many callers at once."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
import random
import threading
import time
from typing import Any
import uuid

from oslo_messaging import MessagingException, RemoteError

from conductor_client.bus import Bus
from conductor_client.client import SchedulerClient
from conductor_client.errors import NoValidHost
from scheduler import objects
from scheduler.rpc.context import RequestContext
from tools.rig.fleet import ZONES

PROJECT, USER = "5f6d2f0f3c2b4d0c9f3e7f2e5c9a1b22", "a6bfbc0a4b1d4f3f8a4a5d2f1f0c7e11"
IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
#: Share in tenths, vCPUs, MiB of memory, GiB of disk.
FLAVORS = ((4, 1, 2048, 20), (3, 2, 4096, 40), (2, 4, 8192, 80), (1, 8, 16384, 80))
#: Share of the requests that name a zone.
ZONE_SHARE = 0.2
#: Seconds that a caller waits for an answer, as nova's ``long_rpc_timeout``.
CALL_TIMEOUT = 1800


def flavor_name(flavor: tuple[int, int, int, int]) -> str:
    """Return the name of a row of ``FLAVORS``."""
    return f"m1.{flavor[1]}"


def amounts_of(flavor: tuple[int, int, int, int]) -> dict[str, int]:
    """Return what an instance of a row of ``FLAVORS`` holds of each resource class."""
    _share, vcpus, memory_mb, root_gb = flavor
    return {"VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": root_gb}


@dataclass(frozen=True)
class BootRequest:
    """The request for equal instances.

    Attributes:
        uuids: One for each instance.
        flavor: A row of ``FLAVORS``.
        zone: The availability zone, or None.
        group: The members of the anti-affinity group that the instances are in; none: they are in no group.
        excluded: Service hosts that must not be chosen.
    """

    uuids: Sequence[str]
    flavor: tuple[int, int, int, int]
    zone: str | None = None
    group: Sequence[str] = ()
    excluded: Sequence[str] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """What one instance holds of each resource class."""
        return amounts_of(self.flavor)

    def spec(self) -> objects.RequestSpec:
        """Return the RequestSpec, with all fields that a conductor sends."""
        return objects.RequestSpec(
            image=_image(),
            numa_topology=None,
            pci_requests=objects.InstancePCIRequests(instance_uuid=self.uuids[0], requests=[]),
            project_id=PROJECT,
            user_id=USER,
            availability_zone=self.zone,
            flavor=self._flavor(),
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

    def _flavor(self) -> objects.Flavor:
        _share, vcpus, memory_mb, root_gb = self.flavor
        return objects.Flavor(
            id=vcpus,
            name=flavor_name(self.flavor),
            flavorid=str(vcpus),
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=root_gb,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            vcpu_weight=0,
            disabled=False,
            is_public=True,
            extra_specs={},
            description=None,
        )

    def _group(self) -> objects.InstanceGroup:
        return objects.InstanceGroup(
            id=1,
            uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, self.group[0])),
            name="spread",
            project_id=PROJECT,
            user_id=USER,
            policy="anti-affinity",
            policies=["anti-affinity"],
            members=list(self.group),
            hosts=[],
        )


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    Attributes:
        request: The request.
        started: When it was sent; monotonic seconds.
        ended: When it was answered.
        selections: The Selections of each instance; empty if there was none.
        error: Why there was none; "" if there was one.
    """

    request: BootRequest
    started: float
    ended: float
    selections: Sequence[Sequence[Any]] = ()
    error: str = ""


def make_requests(count: int, seed: int) -> list[BootRequest]:
    """Return requests for one instance each; the same seed gives the same flavors and zones, not UUIDs."""
    rng = random.Random(seed)
    flavors = [flavor for flavor in FLAVORS for _ in range(flavor[0])]
    return [
        BootRequest(
            [str(uuid.uuid4())],
            rng.choice(flavors),
            rng.choice(ZONES) if rng.random() < ZONE_SHARE else None,
        )
        for _ in range(count)
    ]


def make_large_request(instances: int, *, spread: bool) -> BootRequest:
    """Return a request for many instances."""
    uuids = [str(uuid.uuid4()) for _ in range(instances)]
    return BootRequest(uuids, FLAVORS[1], group=uuids if spread else ())


def send(bus: Bus, requests: Sequence[BootRequest], callers: int, seconds: float) -> list[Answer]:
    """Send requests from a number of callers, none any more after so many seconds; wait for all answers."""
    client = SchedulerClient(bus, timeout=CALL_TIMEOUT)
    waiting, answers, lock = deque(requests), [], threading.Lock()
    deadline = time.monotonic() + seconds

    def call() -> None:
        while time.monotonic() < deadline:
            with lock:
                if not waiting:
                    return
                request = waiting.popleft()
            answer = ask(client, request)
            with lock:
                answers.append(answer)

    with ThreadPoolExecutor(callers) as pool:
        threads = [pool.submit(call) for _ in range(callers)]
    for thread in threads:
        thread.result()
    return answers


def ask(client: SchedulerClient, request: BootRequest) -> Answer:
    """Send a request and wait for its answer."""
    context = RequestContext(user_id=USER, project_id=PROJECT, roles=["member", "reader"])
    spec = request.spec()
    started = time.monotonic()
    try:
        selections = client.select_destinations(
            context, spec, list(request.uuids), return_objects=True, return_alternates=True
        )
    except NoValidHost:
        return Answer(request, started, time.monotonic(), error="NoValidHost")
    except RemoteError as error:
        return Answer(request, started, time.monotonic(), error=f"{error.exc_type}: {error.value}")
    except MessagingException as error:
        return Answer(request, started, time.monotonic(), error=type(error).__name__)
    return Answer(request, started, time.monotonic(), selections)


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
