"""The unit limits of compute nodes, which Placement's answer about all of them lacks.

A plan claims nothing that Placement could refuse, so its mirror must have them before it decides.
"""

from functools import partial

import numpy as np

from scheduler.hosts.table import HostTable
from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror import Mirror
from scheduler.placement.providers import read_inventories
from scheduler.placement.read_each import read_each

#: Nodes that are all read; of more nodes one of each kind of hardware is read.
MOST_READ = 200

#: Nodes that are read at the same time.
AT_ONCE = 4

#: What nodes of one kind have in common besides their capacities: computes report totals as max_unit.
TOTALS = ("vcpus_total", "total_usable_ram_mb", "total_usable_disk_gb")


def learn_unit_limits(mirror: Mirror, client: PlacementClient, table: HostTable) -> None:
    """Let a mirror know the unit limits of all nodes.

    Raises:
        PlacementError: Placement does not answer.
    """
    nodes = mirror.nodes()
    unknown = np.flatnonzero(~nodes.limits_known())
    if not len(unknown):
        return
    rows = np.array([table.row_of_uuid.get(uuid, -1) for uuid in nodes.uuids])
    totals = [np.where(rows >= 0, table.numbers[name][rows], -1) for name in TOTALS]
    hardware = np.vstack([nodes.capacity, *totals])
    is_many = len(unknown) > MOST_READ
    if is_many:
        unknown = unknown[np.unique(hardware[:, unknown], axis=1, return_index=True)[1]]
    uuids = [nodes.uuids[row] for row in unknown.tolist()]
    found = read_each(partial(read_inventories, client), uuids, AT_ONCE)
    for row, inventories in zip(unknown.tolist(), found.values(), strict=True):
        nodes.set_limits(row, inventories)
    if is_many:
        nodes.spread_limits(np.arange(len(nodes)), hardware)
    mirror.learn_limits(nodes)
