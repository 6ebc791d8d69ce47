"""How much room the hosts of a scheduler have, as it tells others."""

from dataclasses import dataclass

import numpy as np

from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.free_amounts import free_memory
from scheduler.hosts.pending import GUARDED, PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.stream.records import MOST_CELLS

_MEMORY = GUARDED.index("free_ram_mb")


@dataclass(frozen=True, slots=True)
class Room:
    """What hosts have.

    Attributes:
        free_mb: MiB of memory that are free, overcommit included.
        total_mb: MiB of memory, overcommit included.
        cells: The uuids of their cells; empty if there are too many.
    """

    free_mb: int = 0
    total_mb: int = 0
    cells: tuple[str, ...] = ()


def room_of(table: HostTable, pending: PendingPlacements) -> Room:
    """Return the room of the hosts whose compute services are enabled, pending placements subtracted."""
    if not len(table):
        return Room()
    rows = TableRows(np.arange(len(table)))
    total = table.numbers["total_usable_ram_mb"] * table.numbers["ram_allocation_ratio"]
    free = free_memory(table.numbers.__getitem__) + pending.overlay(table, rows)[_MEMORY]
    usable = ~(table.numbers["service_disabled"] | table.numbers["service_forced_down"])
    cells = sorted({row.cell_uuid for row in table.rows})
    return Room(
        int(np.clip(free, 0, total)[usable].sum()),
        int(np.maximum(total, 0)[usable].sum()),
        tuple(cells) if len(cells) <= MOST_CELLS else (),
    )
