"""A month of arrivals and deletions: how much room is left for a large flavor, by how hosts are chosen.

The hosts, the requests and the times are the same for each policy and seed. Nothing but the weighers decides:
a request may have each host with room for it. Every six hours, from the tenth day on, it is counted how many
instances of the large flavor would fit.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
import heapq
import random
from statistics import mean
from typing import NamedTuple
import uuid

import numpy as np

from scheduler import objects
from scheduler.filters.chain import FilterChain
from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import load_weighers
from scheduler.selection.consume import consumed_amounts
from scheduler.selection.ranking import rank
from scheduler.weights.base import HostWeigher
from scheduler.weights.scores import prepare_weighers
from tools.bench import requests
from tools.rig import command
from tools.rig.load import BootRequest, Flavor

CELL = str(uuid.UUID(int=1))
CPUS, RAM, DISK = 64, 380 << 10, 4000

LARGE = Flavor(1, "large", 32, 128 << 10, 200)
#: Flavors, and how often they are requested.
FLAVORS: Mapping[Flavor, int] = {
    Flavor(1, "small", 2, 8 << 10, 20): 50,
    Flavor(1, "medium", 4, 16 << 10, 40): 30,
    Flavor(1, "big", 8, 32 << 10, 80): 18,
    LARGE: 2,
}
#: Days that instances live, on average, and the first day that is counted.
LIFETIME, FIRST_DAY = 4.0, 10
SAMPLES_A_DAY = 4

KEPT = ["large=32:131072:200"]
FILL_FIRST = {"ram_weight_multiplier": -1.0, "cpu_weight_multiplier": -1.0, "disk_weight_multiplier": -1.0}

#: Options of [filter_scheduler] and of [berth] of each policy.
POLICIES: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "nova's defaults": ({}, {}),
    "fill first": (FILL_FIRST, {}),
    "keep room": ({}, {"keep_room_for": KEPT, "keep_room_weight_multiplier": 10.0}),
    "keep room, else fill first": (
        FILL_FIRST,
        {"keep_room_for": KEPT, "keep_room_weight_multiplier": 10.0},
    ),
}


class Arrival(NamedTuple):
    """A request at some day, and how many days its instance lives."""

    day: float
    flavor: Flavor
    lifetime: float


class Outcome(NamedTuple):
    """What a policy came to.

    Attributes:
        room: How many of the large flavor fit, at each sample.
        refused: Requests without a host, by flavor.
        spread: The hosts with instances, at each sample.
    """

    room: Sequence[int]
    refused: Counter[str]
    spread: Sequence[int]


def arrivals(hosts: int, days: int, used: float, seed: int) -> list[Arrival]:
    """Return the requests of some days, with which a share of the memory would be in use on average."""
    chance, found, day = random.Random(seed), list[Arrival](), 0.0
    kinds, weights = list(FLAVORS), list(FLAVORS.values())
    average = sum(each.memory_mb * weight for each, weight in FLAVORS.items()) / sum(weights)
    a_day = hosts * RAM * used / average / LIFETIME
    while (day := day + chance.expovariate(a_day)) < days:
        found.append(Arrival(day, chance.choices(kinds, weights)[0], chance.expovariate(1 / LIFETIME)))
    return found


class Month:
    """A cloud of equal hosts, from empty on."""

    def __init__(self, hosts: int, weighers: Sequence[HostWeigher], options: object) -> None:
        """Begin with hosts that have nothing on them."""
        rows = [_row(number) for number in range(hosts)]
        services = {(CELL, row.host): ServiceRow(row.id, row.uuid, row.host, alive=True) for row in rows}
        self.table = HostTable(rows, services, Aggregates())
        self._weighers = weighers
        self._options = options
        self._ending: list[tuple[float, int, int, Flavor]] = []
        self._specs = {flavor: BootRequest([str(uuid.UUID(int=9))], flavor).spec() for flavor in FLAVORS}

    def build(self, number: int, arrival: Arrival) -> bool:
        """Build an instance, and say whether there is a host for it."""
        self._end_until(arrival.day)
        spec = self._specs[arrival.flavor]
        rows = np.flatnonzero(self._room(arrival.flavor) >= 1)
        if not len(rows):
            return False
        request = SchedulingRequest.of(spec, None)
        hosts = HostView.of(self.table, TableRows(rows))
        chain = FilterChain([]).prepare(request)
        ranking = rank(chain, prepare_weighers(self._weighers, request), hosts, request, self._options)
        row = int(rows[next(ranking.best_first())])
        self._charge(row, spec.flavor, 1)
        heapq.heappush(self._ending, (arrival.day + arrival.lifetime, number, row, arrival.flavor))
        return True

    def room(self, day: float) -> int:
        """Return how many instances of the large flavor fit at some day."""
        self._end_until(day)
        return int(self._room(LARGE).sum())

    def occupied(self) -> int:
        """Return how many hosts have instances."""
        return int(np.count_nonzero(self.table.numbers["num_instances"]))

    def _room(self, flavor: Flavor) -> np.ndarray:
        numbers = self.table.numbers
        vcpus = numbers["vcpus_total"] * numbers["cpu_allocation_ratio"] - numbers["vcpus_used"]
        ram, disk = numbers["free_ram_mb"] // flavor.memory_mb, numbers["free_disk_mb"] // 1024
        return np.minimum(np.minimum(ram, vcpus // flavor.vcpus), disk // flavor.root_gb)

    def _end_until(self, day: float) -> None:
        while self._ending and self._ending[0][0] <= day:
            _, _, row, flavor = heapq.heappop(self._ending)
            self._charge(row, self._specs[flavor].flavor, -1)

    def _charge(self, row: int, flavor: objects.Flavor, sign: int) -> None:
        for name, amount in consumed_amounts(flavor).items():
            if name != "num_io_ops":
                self.table.numbers[name][row] += sign * amount


def _row(number: int) -> HostRow:
    name = f"cmp-{number:05d}"
    return HostRow(
        id=number + 1,
        uuid=str(uuid.UUID(int=1000 + number)),
        cell_uuid=CELL,
        host=name,
        nodename=name,
        free_ram_mb=RAM,
        total_usable_ram_mb=RAM,
        free_disk_mb=DISK << 10,
        total_usable_disk_gb=DISK,
        vcpus_total=CPUS,
    )


def run(policy: str, hosts: int, days: int, requested: Sequence[Arrival]) -> Outcome:
    """Let the requests come to a cloud with a policy."""
    of_nova, of_berth = POLICIES[policy]
    conf = requests.make_conf(**of_nova)
    for name, value in of_berth.items():
        conf.set_override(name, value, "berth")
    month = Month(hosts, load_weighers.load(conf), conf.filter_scheduler)
    samples = iter([*_samples(days), float("inf")])
    room, refused, spread, due = list[int](), Counter[str](), list[int](), next(samples)
    for number, arrival in enumerate(requested):
        while arrival.day >= due:
            room.append(month.room(due))
            spread.append(month.occupied())
            due = next(samples)
        if not month.build(number, arrival):
            refused[arrival.flavor.name] += 1
    return Outcome(room, refused, spread)


def _samples(days: int) -> Iterator[float]:
    return (each / SAMPLES_A_DAY for each in range(FIRST_DAY * SAMPLES_A_DAY, days * SAMPLES_A_DAY))


def main(arguments: list[str] | None = None) -> int:
    """Run the month with each policy, and print what it came to."""
    options = _parse(arguments)
    requested = arrivals(options.hosts, options.days, options.used, options.seed)
    print(f"{len(requested)} requests in {options.days} days on {options.hosts} hosts, seed {options.seed}")
    print(f"{'policy':<28}{'large, mean':>12}{'fewest':>8}{'refused':>9}{'of them large':>15}{'hosts':>7}")
    for policy in POLICIES:
        found = run(policy, options.hosts, options.days, requested)
        print(
            f"{policy:<28}{mean(found.room):>12.1f}{min(found.room):>8}{found.refused.total():>9}"
            f"{found.refused[LARGE.name]:>15}{mean(found.spread):>7.1f}",
            flush=True,
        )
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/keep-room", __doc__)
    parser.share(hosts=60, seed=1)
    parser.add("--days", 30, "days")
    parser.add("--used", 0.7, "share of the memory that would be in use if each request had a host")
    options = parser.parse_args(arguments)
    parser.bound(options, hosts=(1, 10_000), days=(FIRST_DAY + 1, 365), used=(0.1, 2.0))
    return options
