"""The moves with the largest gain: instances that the cloud's own weighers would now put elsewhere.

The gain of a move is the weight of its target less the weight of its source, both without the instance, over
all hosts that the instance may have. Each move is a decision of the scheduler, so every filter allows it.
"""

from collections.abc import Iterator, Sequence
import math
from typing import NamedTuple

import numpy as np

from scheduler.errors import BerthError
from scheduler.operators.plan.movable import way_of
from scheduler.operators.plan.moves import Document, Move, Mover, described
from scheduler.operators.snapshot.planned_cloud import Chosen, PlannedCloud

SPREAD, PACK = "spread", "pack"

#: Gains below it are noise of floating point.
LEAST_GAIN = 1e-6

#: Distinct requests that are compared for one move, those of most instances, and hosts of each.
MOST_KINDS = 40
MOST_HOSTS = 3

#: Hosts that are tried to be emptied, those with the least memory in use first.
MOST_TRIED = 500


class _Found(NamedTuple):
    gain: float
    instance: int
    chosen: Chosen


class Balance:
    """Finds moves, and charges each one that it takes."""

    def __init__(self, cloud: PlannedCloud) -> None:
        """Find moves in a cloud whose requests were all read."""
        self._cloud = cloud
        self._snapshot = cloud.snapshot
        self._mover = Mover(cloud)
        self._ways = [way_of(self._snapshot, index) for index in range(len(self._snapshot.instances))]
        self._moved: set[int] = set()
        self._known: dict[int, float] = {}  # gains as they were when last looked at

    def spread(self, most: int) -> Iterator[tuple[Move, float]]:
        for number in range(most):
            self._snapshot.progress("moves", number, most)
            best = self._best()
            if best is None or best.gain <= LEAST_GAIN:
                return
            yield self._take(best.instance, best.chosen), best.gain

    def _best(self) -> _Found | None:
        """Return the move with the largest gain, among moves off the worst hosts of each kind.

        One move changes gains little: the known gains give the order in which to compute them again.
        """
        candidates = [index for indices in self._kinds() for index in self._worst(indices)]
        for index in candidates:
            if index not in self._known:
                found = self.gain_of(index)
                self._known[index] = -math.inf if found is None else found.gain
        best: _Found | None = None
        for index in sorted(candidates, key=lambda index: -self._known[index]):
            if self._known[index] <= (LEAST_GAIN if best is None else best.gain):
                break
            found = self.gain_of(index)
            self._known[index] = -math.inf if found is None else found.gain
            if found is not None and (best is None or found.gain > best.gain):
                best = found
        return best

    def _kinds(self) -> list[np.ndarray]:
        """Return the instances that can be moved, those of one request and cell together.

        Pinned guests and those with devices are left out: only computes know what they free.
        """
        instances, table = self._snapshot.instances, self._snapshot.table
        cells = table.coded["cell"].codes
        movable = np.array([bool(each.name) for each in self._ways], bool)
        movable &= (instances.specs >= 0) & (self._cloud.places.rows >= 0)
        movable[list(self._moved)] = False
        there = np.flatnonzero(movable)
        keys = (
            instances.specs[there].astype(np.int64) * (int(cells.max(initial=0)) + 1)
            + cells[self._cloud.places.rows[there]]
        )
        _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
        found = []
        for kind in np.argsort(-counts, kind="stable")[:MOST_KINDS].tolist():
            indices = there[which == kind]
            if not self._is_fixed(int(indices[0])):
                found.append(indices)
        return found

    def _is_fixed(self, index: int) -> bool:
        """Whether an instance is pinned, has devices, or has no readable request."""
        requests, number = self._snapshot.requests, int(self._snapshot.instances.specs[index])
        return number < 0 or requests.is_pinned(number) or requests.has_devices(number)

    def _worst(self, indices: np.ndarray) -> list[int]:
        """Return an instance of each of the worst hosts for such instances."""
        rows = self._cloud.places.rows[indices]
        if len(np.unique(rows)) < 2:
            return indices[:1].tolist()
        table = self._snapshot.table
        total = np.maximum(table.numbers["total_usable_ram_mb"][rows], 1)
        used = 1 - table.numbers["free_ram_mb"][rows] / total
        free = table.numbers["free_ram_mb"][rows]
        found: dict[int, int] = {}
        for order in (np.argsort(-used, kind="stable"), np.argsort(free, kind="stable")):
            for at in order.tolist():
                if len(found) >= 2 * MOST_HOSTS:
                    break
                found.setdefault(int(rows[at]), int(indices[at]))
        return list(found.values())

    def gain_of(self, index: int) -> _Found | None:
        """Return the move that the scheduler would decide for an instance, with its gain; None for none.

        The cloud does not change.
        """
        cloud, uuid = self._cloud, self._snapshot.instances.uuids[index]
        source, mark = int(cloud.places.rows[index]), cloud.mark
        spec = self._mover.request([index])
        try:
            decision = cloud.decide(spec, [uuid])
            if not decision.chosen:
                return None
            chosen = decision.chosen[0]
            cloud.remove(index, self._mover.held(index))
            anywhere = self._mover.to_cell(self._snapshot.request(index), self._snapshot.place(source)[0])
            ranking = cloud.rank(anywhere, uuid)
            weight = dict(zip(ranking.hosts.table_rows.tolist(), ranking.totals().tolist(), strict=True))
        except BerthError:
            return None
        finally:
            cloud.rewind(mark)
        if source not in weight or chosen.row not in weight:
            return None
        return _Found(weight[chosen.row] - weight[source], index, chosen)

    def _take(self, index: int, chosen: Chosen) -> Move:
        cloud, instances = self._cloud, self._snapshot.instances
        source, held = int(cloud.places.rows[index]), self._mover.held(index)
        self._moved.add(index)
        cloud.remove(index, held)
        cloud.put(index, chosen, self._snapshot.requests.flavor(int(instances.specs[index])))
        return Move(index, source, chosen.row, self._ways[index].name)

    # -- emptying hosts --------------------------------------------------------------------------------------

    def pack(self, most: int) -> tuple[list[Move], list[int]]:
        """Return moves that empty hosts, and the rows of these hosts, those that need the fewest moves first.

        Instances go to other hosts that have some.
        """
        cloud, instances = self._cloud, self._snapshot.instances
        closed = cloud.closed.copy()
        counts = np.bincount(cloud.places.rows[cloud.places.rows >= 0], minlength=len(closed))
        cloud.closed |= counts == 0
        memory = self._snapshot.table.numbers
        used = memory["total_usable_ram_mb"] - memory["free_ram_mb"]
        hosts = sorted(np.flatnonzero(counts).tolist(), key=lambda row: (counts[row], used[row]))
        moves, emptied = list[Move](), list[int]()
        targets: set[int] = set()
        for done, row in enumerate(hosts[:MOST_TRIED]):
            self._snapshot.progress("hosts", done, min(len(hosts), MOST_TRIED))
            indices = instances.on([row]).tolist()
            if row in targets or len(moves) + len(indices) > most:
                continue
            if not all(self._ways[index].name and not self._is_fixed(index) for index in indices):
                continue
            mark = cloud.mark
            cloud.closed[row] = True
            more, stuck = self._mover.move_all(self._mover.order(indices))
            if stuck:
                cloud.rewind(mark)
                cloud.closed[row] = False
                continue
            moves += more
            emptied.append(row)
            targets |= {move.target for move in more}
        cloud.closed[:] = closed
        return moves, emptied


def balance(cloud: PlannedCloud, goal: str, most: int) -> Document:
    """Return at most so many moves towards a goal. The cloud is left as the plan leaves it."""
    snapshot = cloud.snapshot
    snapshot.load_requests(range(len(snapshot.instances)))
    before = spread_of(cloud)
    plan = Balance(cloud)
    gains: Sequence[float | None]
    emptied: list[int] = []
    if goal == PACK:
        moves, emptied = plan.pack(most)
        gains = [None] * len(moves)
    else:
        taken = list(plan.spread(most))
        moves, gains = [move for move, _ in taken], [gain for _, gain in taken]
    return {
        "plan": "balance",
        "goal": goal,
        "moves": [
            {
                "step": number,
                **described(cloud, move.index, move.source),
                "to": cloud.host(move.target),
                "way": move.way,
                "gain": None if gain is None else round(gain, 6),
            }
            for number, (move, gain) in enumerate(zip(moves, gains, strict=True), 1)
        ],
        "emptied": sorted(cloud.host(row) for row in emptied),
        "before": before,
        "after": spread_of(cloud),
    }


#: Bars of the histogram of memory in use.
TENTHS = 10


def spread_of(cloud: PlannedCloud) -> Document:
    """Return how evenly the memory of hosts is used: mean and deviation in percent, and hosts by tenth."""
    numbers = cloud.snapshot.table.numbers
    used = 1 - numbers["free_ram_mb"] / np.maximum(numbers["total_usable_ram_mb"], 1)
    tenths = np.bincount(np.clip((used * TENTHS).astype(int), 0, TENTHS - 1), minlength=TENTHS)
    counts = np.bincount(cloud.places.rows[cloud.places.rows >= 0], minlength=len(used))
    return {
        "memory_used_mean_percent": round(float(used.mean()) * 100, 2),
        "memory_used_deviation_percent": round(float(used.std()) * 100, 2),
        "hosts_by_tenth_used": tenths.tolist(),
        "empty_hosts": int(np.count_nonzero(counts == 0)),
    }
