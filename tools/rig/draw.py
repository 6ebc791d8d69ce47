"""Clouds and requests by chance, the same for the same seed.

``draw`` gives the hosts of a cloud with their hardware, traits, trees, pools, aggregates and instances;
``draw_request`` what is asked of such a cloud. Both are plain values. Their sinks are nova's databases and
Placement (``Fleet.write``, ``Fleet.providers``, ``instances``), tables in memory, and wire objects
(``Wanted.spec``). ``saved`` and ``read`` keep a cloud and a request that once showed a defect.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
import json
import random
from typing import Any

from tools.rig.fleet import ZONES, Aggregate, Cell, Fleet, Hardware, Host, Placed
from tools.rig.load import Flavor, random_uuid
from tools.rig.wanted import ISOLATING, TENANT, Wanted

TRAITS = ("HW_GPU_API_VULKAN", "STORAGE_DISK_SSD", "HW_CPU_X86_AVX512F", "COMPUTE_TRUSTED_CERTS")
#: The flavor of instances that are there.
THERE = Flavor(1, "there", 2, 2048, 10)
#: Of more hosts the scheduler does not read each limit: hosts of one kind have equal ones, as in nova.
ANY_LIMITS = 16
THREADS = (4, 8, 16, 24, 32)
#: The most hosts of a cloud, and how many clouds of ten have at most so many.
SIZES = {9: 6, 16: 2, 60: 1, 300: 1}


@dataclass(frozen=True)
class Kinds:
    """What is drawn.

    Attributes:
        hosts: The fewest and the most of them.
        without: What no cloud has: ``limits`` of single amounts, ``trees`` of devices, ``pools`` of disk, PCI
            ``devices``, ``states`` other than up, ``instances``, an ``isolated`` aggregate. What no request
            has: ``groups``.
        also: What only some clouds have: ``memory steps``, which no nova-compute reports. What only some
            requests have: ``forced`` hosts, ``hints``, a requested one of the ``cells``, groups with ``soft``
            policies.
        few: The chances of each unusual wish, one of which a request has.
    """

    hosts: tuple[int, int] = (3, 9)
    without: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    few: tuple[float, ...] = (0.15, 0.15, 0.3)


SMALL = Kinds()


def draw(rng: random.Random, cells: Sequence[Cell], kinds: Kinds = SMALL) -> Fleet:
    """Return hosts in some aggregates, with instances."""

    def chance(what: str, share: float) -> bool:
        return rng.random() < share and what not in kinds.without

    least, most = kinds.hosts
    (size,) = rng.choices(list(SIZES), SIZES.values())
    count = rng.randint(least, max(least, min(most, size)))
    pool_gb = rng.choice((30, 200, 1000)) if chance("pools", 0.15) else 0
    machines = _draw_machines(rng, kinds, count)
    hosts = [draw_host(rng, place, kinds, next(machines)) for place in Fleet(count, cells).hosts]
    if pool_gb:
        hosts = [replace(host, machine=replace(host.hardware, own_disk=False)) for host in hosts]
    fleet = Fleet(hosts, cells)
    fleet.pool_gb = pool_gb

    def some(share: float) -> list[Host]:
        return [host for host in hosts if rng.random() < share]

    fleet.aggregates.append(Aggregate("fast", {"speed": "fast"}, some(0.5)))
    fleet.aggregates.append(Aggregate("tenant", {"filter_tenant_id": TENANT}, some(0.4)))
    if chance("isolated", 0.3):
        fleet.aggregates.append(Aggregate("isolated", {f"trait:{ISOLATING}": "required"}, some(0.3)))
    if "instances" not in kinds.without:
        there = [host for host in hosts for _ in range(_draw_number(rng, host.hardware))]
        fleet.placed = [Placed(random_uuid(rng), host, THERE, at) for at, host in enumerate(there)]
    return fleet


def _draw_number(rng: random.Random, machine: Hardware) -> int:
    """Return how many instances of the flavor ``THERE`` a host has; all of them have room."""
    return min(rng.choice((0, 0, 1, 2)), (machine.memory_mb - machine.reserved_mb) // THERE.memory_mb)


def _draw_machines(rng: random.Random, kinds: Kinds, count: int) -> Iterator[Hardware]:
    """Yield the hardware of each host. Memory differs from host to host where its limit is the total."""
    made = [_draw_hardware(rng, kinds, threads) for threads in rng.sample(THREADS, rng.randint(2, 4))]
    while True:
        machine = (
            rng.choice(made) if count > ANY_LIMITS else _draw_hardware(rng, kinds, rng.choice(THREADS[:3]))
        )
        less = rng.choice((0, rng.randrange(256))) if "MEMORY_MB" not in machine.limits else 0
        yield replace(machine, memory_mb=machine.memory_mb - less)


def _draw_hardware(rng: random.Random, kinds: Kinds, threads: int) -> Hardware:
    """Return a kind of machine. Instances of the flavor ``THERE`` are within all its limits."""
    memory_mb = rng.choice((8192, 16384, 32768))
    usual: tuple[dict, ...] = ({}, {}, {})
    memory = ({"max_unit": memory_mb // 2},)
    if "memory steps" in kinds.also:
        memory += ({"min_unit": 512}, {"step_size": 512})
    step, least = {"step_size": 10}, {"min_unit": 10}
    limits = {
        "VCPU": rng.choice((*usual, {"max_unit": threads // 2})),
        "MEMORY_MB": rng.choice((*usual, *memory)),
        "DISK_GB": rng.choice((*usual, *usual, step, least, step | least)),
    }
    return Hardware(
        threads,
        memory_mb,
        rng.choice((50, 100, 400)),
        cpu_ratio=rng.choice((1.0, 2.0, 4.0)),
        reserved_mb=rng.choice((0, 512, 4096)),
        dedicated=rng.choice((0, 0, 4)),
        own_disk=rng.random() < 0.95,
        limits={} if "limits" in kinds.without else {name: some for name, some in limits.items() if some},
    )


def draw_host(rng: random.Random, place: Host, kinds: Kinds = SMALL, machine: Hardware | None = None) -> Host:
    """Return a host in the place of another one; without a machine with hardware of its own."""
    host = replace(
        place,
        machine=machine or _draw_hardware(rng, kinds, rng.choice(THREADS[:3])),
        traits=tuple(trait for trait in TRAITS if rng.random() < 0.6),
        vgpus=rng.choice((0, 0, 1, 2)),
        devices=rng.choice((0, 0, 1, 2)),
        state=rng.choice(("up", "up", "up", "up", "disabled", "down")),
    )
    usual = {"trees": {"vgpus": 0}, "devices": {"devices": 0}, "states": {"state": "up"}}
    for name in kinds.without & usual.keys():
        host = replace(host, **usual[name])
    return host


def draw_request(rng: random.Random, fleet: Fleet, kinds: Kinds = SMALL) -> Wanted:
    """Return a request that often finds no host."""
    share = rng.choice(kinds.few)

    def perhaps(usual: Any, *others: Any) -> Any:
        return rng.choice(others) if rng.random() < share else usual

    wanted = Wanted(
        vcpus=perhaps(1, 2, 6, 12, 20, 40),
        memory_mb=perhaps(1024, 9000, 14000, 20000, 40000),
        root_gb=perhaps(5, 0, 15, 80, 150, 500),
        traits=tuple(trait for trait in TRAITS if rng.random() < share),
        zone=perhaps(None, *ZONES),
        vgpus=perhaps(0, 1, 2, 3),
        tree_vgpus=perhaps(0, 0, 1, 2),
        tenant=perhaps(False, True),
        devices=perhaps(0, 1, 2),
        numa=perhaps(False, True),
        fast=perhaps(False, True),
        ironic=perhaps(False, True),
        count=perhaps(1, 2, 3, 5, 9),
    )
    free = [name for name in TRAITS if name not in wanted.traits]
    if rng.random() < share and free:
        wanted = replace(wanted, forbidden=(rng.choice(free),))
    if rng.random() < 1.5 * share and "groups" not in kinds.without:
        wanted = replace(wanted, **_draw_group(rng, fleet, kinds))
    return replace(wanted, **_draw_places(rng, fleet, kinds, share))


def _draw_group(rng: random.Random, fleet: Fleet, kinds: Kinds) -> dict[str, Any]:
    soft = ("soft-affinity", "soft-anti-affinity") if "soft" in kinds.also else ()
    members = {each.host.name: each.uuid for each in fleet.placed}
    chosen = rng.sample(sorted(members), min(len(members), rng.randint(0, 2)))
    return {
        "policy": rng.choice(("affinity", "anti-affinity", *soft)),
        "group_hosts": tuple(chosen),
        "group_members": tuple(members[name] for name in chosen),
    }


def _draw_places(rng: random.Random, fleet: Fleet, kinds: Kinds, share: float) -> dict[str, Any]:
    hosts, found = fleet.hosts, dict[str, Any]()

    def also(what: str) -> bool:
        return what in kinds.also and rng.random() < share

    if rng.random() < share:
        found["ignored"] = tuple(host.name for host in rng.sample(hosts, rng.randint(1, 2)))
    if rng.random() < share:
        host = rng.choice(hosts)
        found["destination"] = host.name, host.nodename
    elif also("cells"):
        found["cell"] = rng.choice(fleet.cells).uuid
    if also("forced"):
        found["forced"] = (rng.choice(hosts).name,)
    if also("hints") and fleet.placed:
        found["different"] = (rng.choice(fleet.placed).uuid,)
    return found


def saved(fleet: Fleet, wanted: Wanted) -> str:
    """Return a cloud and a request as JSON, for ``read``."""
    hosts = [{**asdict(host), "cell": fleet.cells.index(host.cell)} for host in fleet.hosts]
    aggregates = [
        {
            "name": each.name,
            "metadata": each.metadata,
            "hosts": [fleet.hosts.index(host) for host in each.hosts],
        }
        for each in fleet.aggregates
    ]
    placed = [[each.uuid, fleet.hosts.index(each.host)] for each in fleet.placed]
    cloud = {"hosts": hosts, "aggregates": aggregates, "pool_gb": fleet.pool_gb, "placed": placed}
    return json.dumps({**cloud, "wanted": asdict(wanted)})


def read(text: str, cells: Sequence[Cell]) -> tuple[Fleet, Wanted]:
    """Return the cloud and the request that were ``saved``, in these cells."""
    cloud = json.loads(text)
    hosts = [
        Host(**{**host, "cell": cells[host["cell"]], "machine": Hardware(**host["machine"])})
        for host in cloud["hosts"]
    ]
    fleet = Fleet([replace(host, traits=tuple(host.traits)) for host in hosts], cells)
    fleet.pool_gb = cloud["pool_gb"]
    fleet.aggregates = [
        Aggregate(each["name"], each["metadata"], [fleet.hosts[at] for at in each["hosts"]])
        for each in cloud["aggregates"]
    ]
    fleet.placed = [Placed(each, fleet.hosts[at], THERE) for each, at in cloud["placed"]]
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in cloud["wanted"].items()}
    return fleet, Wanted(**values)
