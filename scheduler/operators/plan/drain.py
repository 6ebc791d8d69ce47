"""Emptying hosts: where each instance would go, in an order that works, or why it cannot."""

from collections.abc import Callable, Collection, Mapping, Sequence

from scheduler.operators.plan.movable import Way, way_of
from scheduler.operators.plan.moves import (
    Document,
    Move,
    Mover,
    Stuck,
    described,
    stuck_document,
    summed,
)
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.snapshot import Snapshot

#: How nova moves an instance, by its index; its request has been read.
WayOf = Callable[[Snapshot, int], Way]


def drain(cloud: PlannedCloud, rows: Collection[int], way: WayOf = way_of) -> Document:
    """Return a plan that empties the hosts in some rows. The cloud is left as the plan leaves it.

    No instance goes to one of them. If some have no place in the order of ``Mover.order``, these go first in
    a second try, and the better of both is the plan.

    Args:
        way: How instances leave the hosts: ``way_of``, or ``way_off_a_dead_host``.
    """
    snapshot = cloud.snapshot
    indices = snapshot.instances.on(rows).tolist()
    snapshot.load_requests(indices)
    cloud.closed[list(rows)] = True
    ways = {index: way(snapshot, index) for index in indices}
    fixed = [Stuck(index, its.why, {}) for index, its in ways.items() if not its.name]
    movable = [index for index, its in ways.items() if its.name]
    sources = dict(zip(indices, snapshot.instances.rows[indices].tolist(), strict=True))
    moves, stuck = _best(cloud, movable)
    return _document(cloud, rows, sources, ways, moves, [*stuck, *fixed])


def _best(cloud: PlannedCloud, indices: Sequence[int]) -> tuple[list[Move], list[Stuck]]:
    mover, start, progress = Mover(cloud), cloud.mark, cloud.snapshot.progress
    first = mover.order(indices)
    moves, stuck = mover.move_all(first, progress)
    if not stuck:
        return moves, stuck
    cloud.rewind(start)
    stays = {each.index for each in stuck}
    others = [index for index in first if index not in stays]
    again = [*mover.order([each.index for each in stuck]), *others]
    second_moves, second_stuck = mover.move_all(again, progress)
    if len(second_stuck) < len(stuck):
        return second_moves, second_stuck
    cloud.rewind(start)
    return mover.move_all(first, progress)


def _document(
    cloud: PlannedCloud,
    rows: Collection[int],
    sources: Mapping[int, int],
    ways: Mapping[int, Way],
    moves: Sequence[Move],
    stuck: Sequence[Stuck],
) -> Document:
    names = cloud.snapshot.cell_names()
    return {
        "plan": "drain",
        "hosts": sorted(cloud.host(row) for row in rows),
        "instances": len(sources),
        "moves": [
            {
                "step": number,
                **described(cloud, move.index, move.source),
                "to": cloud.host(move.target),
                "cell": names.get(cloud.snapshot.place(move.target)[0]),
                "zone": cloud.snapshot.zone(move.target),
                "way": ways[move.index].name,
                "reset_state": ways[move.index].reset,
            }
            for number, move in enumerate(moves, 1)
        ],
        "without_place": [stuck_document(cloud, each, sources[each.index]) for each in stuck],
        "missing": summed(stuck),
        "targets": _targets(cloud, moves),
    }


def _targets(cloud: PlannedCloud, moves: Sequence[Move]) -> list[Document]:
    """Return the hosts that get instances, and the share of their memory that is used before and after."""
    table = cloud.snapshot.table
    found = []
    sizes: dict[int, list[int]] = {}
    for move in moves:
        sizes.setdefault(move.target, []).append(_memory(cloud, move))
    for row, came_in in sorted(sizes.items()):
        came, count = sum(came_in), len(came_in)
        total = max(int(table.numbers["total_usable_ram_mb"][row]), 1)
        used = total - int(table.numbers["free_ram_mb"][row])
        shares = {"before": round((used - came) / total, 4), "after": round(used / total, 4)}
        found.append({"host": cloud.host(row), "instances": count, "memory_mb": came, "memory_used": shares})
    return found


def _memory(cloud: PlannedCloud, move: Move) -> int:
    snapshot = cloud.snapshot
    return int(snapshot.requests.flavor(int(snapshot.instances.specs[move.index])).memory_mb)
