"""Hosts, what Placement has allocated on them, and what their computes have reported."""

import copy
from datetime import UTC, datetime
import random
import uuid

import numpy as np

from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.coordinates import TableRow, TableRows
from scheduler.hosts.rows import HostRow, ServiceRow, Supported
from scheduler.hosts.table import HostTable
from scheduler.selection.consume import consumed_amounts
from tools.rig.load import Flavor

PLACES = 16
"""Places of a host, one for each instance."""

#: What an instance takes.
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 4096, "DISK_GB": 20}

#: The flavor of an instance.
FLAVOR = Flavor(1, "place", AMOUNTS["VCPU"], AMOUNTS["MEMORY_MB"], AMOUNTS["DISK_GB"]).wire()

#: Seconds between two readings of what computes have reported.
REFRESH_INTERVAL = 0.25

_CELL = str(uuid.UUID(int=1))
_KVM = Supported((("x86_64", "kvm", "hvm"),))


class Cloud:
    """The hosts of a run, shared by its schedulers.

    Attributes:
        used: Places that Placement has allocated, int64, shape (hosts,).
        allocations: The host of each instance that has an allocation.
        refused: How many claims were refused.
        problems: What must not be, one line each.
    """

    def __init__(self, hosts: int, most_free: int, rng: random.Random) -> None:
        """Fill hosts up to between one place and ``most_free``."""
        free = rng.choices(range(1, most_free + 1), k=hosts)
        self.used = PLACES - np.array(free, np.int64)
        self.allocations: dict[str, TableRow] = {}
        self.refused = 0
        self.problems: list[str] = []
        self._start = self.used.copy()
        self._table = _table(self.used)
        self._reported: list[tuple[float, str, TableRow]] = []

    def table(self) -> HostTable:
        """Return the host table as last read."""
        return self._table

    def with_room(self) -> TableRows:
        """Return the hosts that Placement offers for an instance."""
        return TableRows(np.flatnonzero(self.used < PLACES))

    def claim(self, instance: str, row: TableRow, reported_at: float) -> bool:
        """Allocate an instance on a host if there is room; its compute reports it at a time."""
        if instance in self.allocations:
            self.problems.append(f"Instance {instance} is claimed a second time")
        if self.used[row] >= PLACES:
            self.refused += 1
            return False
        self.used[row] += 1
        self.allocations[instance] = row
        self._reported.append((reported_at, instance, row))
        return True

    def refresh(self, now: float) -> list[str]:
        """Read what computes have reported up to now. Return the instances that are new."""
        due = [each for each in self._reported if each[0] <= now]
        if not due:
            return []
        self._reported = [each for each in self._reported if each[0] > now]
        numbers = dict(self._table.numbers)
        rows = np.array([row for *_, row in due])
        for name, amount in consumed_amounts(FLAVOR).items():
            if name == "num_io_ops":
                continue  # the build is over
            numbers[name] = numbers[name].copy()
            np.add.at(numbers[name], rows, amount)
        self._table = copy.copy(self._table)
        self._table.numbers = numbers
        return [instance for _, instance, _ in due]

    def added(self) -> np.ndarray:
        """Return the places that were allocated since the start, int64, shape (hosts,)."""
        return self.used - self._start

    def check(self) -> list[str]:
        """Return what is wrong with the allocations."""
        held = self._start.copy()
        np.add.at(held, np.array(list(self.allocations.values()), np.int64), 1)
        found = list(self.problems)
        if (self.used > PLACES).any():
            found.append(f"{(self.used > PLACES).sum()} hosts are over-committed")
        if not np.array_equal(held, self.used):
            found.append("What is used is not what the instances hold")
        return found


def _table(used: np.ndarray) -> HostTable:
    rows = [_row(number, int(places)) for number, places in enumerate(used)]
    seen = datetime.now(UTC).replace(tzinfo=None)
    services = {
        (row.cell_uuid, row.host): ServiceRow(row.id, None, row.host, last_seen_up=seen) for row in rows
    }
    table = HostTable(rows, services, Aggregates())
    _ = table.row_of_uuid  # made once for all tables that come of this one
    return table


def _row(number: int, used: int) -> HostRow:
    return HostRow(
        id=number,
        uuid=str(uuid.UUID(int=(1 << 64) + number)),
        cell_uuid=_CELL,
        host=f"compute-{number:06d}",
        nodename=f"compute-{number:06d}",
        free_ram_mb=(PLACES - used) * AMOUNTS["MEMORY_MB"],
        total_usable_ram_mb=PLACES * AMOUNTS["MEMORY_MB"],
        free_disk_mb=(PLACES - used) * AMOUNTS["DISK_GB"] * 1024,
        total_usable_disk_gb=PLACES * AMOUNTS["DISK_GB"],
        vcpus_total=PLACES * AMOUNTS["VCPU"],
        vcpus_used=used * AMOUNTS["VCPU"],
        num_instances=used,
        cpu_allocation_ratio=1.0,
        hypervisor_type="QEMU",
        supported_instances=_KVM,
    )
