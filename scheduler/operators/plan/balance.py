"""berth-plan balance: few moves that bring hosts closer to a goal.

Each is a decision of the scheduler: every filter allows it.

    spread  the share of memory that hosts use becomes more even: each move is the one that lowers its
            standard deviation most
    pack    hosts become empty

Pinned guests and those with devices stay where they are: only computes know what they free.
"""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler.errors import BerthError
from scheduler.logs import count_text
from scheduler.operators.app import count, value
from scheduler.operators.plan.command import unknown
from scheduler.operators.plan.movable import COLD, LIVE, way_of
from scheduler.operators.plan.moves import Move, Mover, MovesPlan, PlannedMove, moves_table, planned
from scheduler.operators.run.journal import NOTHING, RunState
from scheduler.operators.run.run_command import RunnablePlan
from scheduler.operators.shown.shown import GOOD, Columns, Fact, Head, Table, bars
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import WrongArgument

GOALS = SPREAD, PACK = ("spread", "pack")


class BalanceCommand(RunnablePlan):
    """Propose the moves that bring the cloud closest to a goal. All filters allow each move.

    Exit status: 0, 255 if no plan could be made. With --run: as drain.
    """

    arguments = (
        value(
            "--goal",
            "GOAL",
            "spread: make the share of memory in use more even; pack: empty as many hosts as possible "
            "(default: spread)",
            default=SPREAD,
        ),
        count("--moves", 20, "maximum number of moves"),
    )

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, done: RunState = NOTHING) -> "BalancePlan":
        if args.goal not in GOALS:
            raise WrongArgument(unknown("goal", args.goal, GOALS))
        return balance(cloud, args.goal, max(0, args.moves - done.moved))


# -- document --------------------------------------------------------------------------------------------


class BalanceMove(PlannedMove, kw_only=True):
    """A move.

    Attributes:
        memory_gib: What it copies, and ``disk_gib``: unless hosts share the storage of instances, which no
            database says.
        down: Whether the instance is down for that time.
        gain: By how many percent points it lowers the deviation; None for other goals.
    """

    memory_gib: float
    disk_gib: int
    down: bool
    gain: float | None


class Spread(msgspec.Struct, kw_only=True):
    """How evenly the memory of hosts is used: mean and deviation in percent, and hosts by tenth."""

    memory_used_mean_percent: float
    memory_used_deviation_percent: float
    hosts_by_tenth_used: list[int]
    empty_hosts: int


class BalancePlan(MovesPlan, kw_only=True, tag="balance"):
    """Moves towards a goal.

    Attributes:
        emptied: Hosts that are empty then.
    """

    goal: str
    moves: list[BalanceMove]
    emptied: list[str]
    before: Spread
    after: Spread

    def words(self) -> tuple[Head, list[Table]]:
        before, after = self.before, self.after
        deviation = f"{before.memory_used_deviation_percent} % -> {after.memory_used_deviation_percent} %"
        facts = [
            *([Fact("to copy:", _copies(self.moves))] if self.moves else []),
            Fact("deviation of memory in use:", deviation),
            Fact("hosts without instances:", f"{before.empty_hosts} -> {after.empty_hosts}"),
        ]
        if self.emptied:
            facts.append(Fact("emptied:", ", ".join(self.emptied)))
        subject = f"{count_text(len(self.moves), 'move')} to {self.goal}"
        more: Columns = {
            "Memory, GiB": "memory_gib", "Disk, GiB": "disk_gib",
            "Gain": lambda one: None if one.gain is None else f"{one.gain:.3f}",
        }  # fmt: skip
        head = Head("Moves that help", subject, GOOD if self.moves else "", facts=facts)
        return head, [histogram(before, after, "before", "after"), moves_table(self.moves, more)]


def _copies(moves: Sequence[BalanceMove]) -> str:
    memory, disk = sum(one.memory_gib for one in moves), sum(one.disk_gib for one in moves)
    text = f"{memory:g} GiB of memory, {disk} GiB of disk unless hosts share it"
    if down := [one for one in moves if one.down]:
        size = sum(one.disk_gib for one in down)
        text += f"; {count_text(len(down), 'instance')} down while {size} GiB are copied"
    return text


def histogram(before: Spread, after: Spread, pale: str, strong: str) -> Table:
    counts = zip(before.hosts_by_tenth_used, after.hosts_by_tenth_used, strict=True)
    rows = (
        (f"{10 * tenth}-{10 * tenth + 10} %", first, second, f"{first} → {second} hosts", "")
        for tenth, (first, second) in enumerate(counts)
    )
    return bars("Hosts by share of memory in use", rows, (("pale", pale), ("strong", strong)))


def balance(cloud: PlannedCloud, goal: str, most: int) -> BalancePlan:
    """Return at most so many moves towards a goal. The cloud is left as the plan leaves it."""
    cloud.snapshot.load_requests(range(len(cloud.snapshot.instances)))
    before, counts = spread_of(cloud), _counts(cloud)
    engine = Balance(cloud)
    found = engine.pack(most) if goal == PACK else engine.spread(most)
    return BalancePlan(
        goal=goal,
        moves=[_described(cloud, number, *each) for number, each in enumerate(found, 1)],
        emptied=sorted(map(cloud.host, np.flatnonzero((counts > 0) & (_counts(cloud) == 0)).tolist())),
        before=before,
        after=spread_of(cloud),
        all_placed=True,
    )


def _described(cloud: PlannedCloud, number: int, move: Move, gain: float | None) -> BalanceMove:
    snapshot, flavor = cloud.snapshot, cloud.snapshot.flavor(move.index)
    stored = snapshot.stored_request(move.index)
    local = not (stored and stored.boots_from_volume)
    way = way_of(snapshot, move.index)
    return BalanceMove(
        **planned(cloud, number, move, way),
        memory_gib=round(flavor.memory_mb / 1024, 2) if way.name == LIVE else 0,
        disk_gib=(flavor.root_gb if local else 0) + flavor.ephemeral_gb,
        down=way.name == COLD and snapshot.instances.states[move.index] == "active",
        gain=None if gain is None else round(gain, 6),
    )


#: Bars of the histogram of memory in use.
TENTHS = 10


def spread_of(cloud: PlannedCloud) -> Spread:
    numbers = cloud.snapshot.table.numbers
    used = 1 - numbers["free_ram_mb"] / np.maximum(numbers["total_usable_ram_mb"], 1)
    tenths = np.bincount(np.clip((used * TENTHS).astype(int), 0, TENTHS - 1), minlength=TENTHS)
    return Spread(
        memory_used_mean_percent=round(float(used.mean()) * 100, 2),
        memory_used_deviation_percent=round(float(used.std()) * 100, 2),
        hosts_by_tenth_used=tenths.tolist(),
        empty_hosts=int(np.count_nonzero(_counts(cloud) == 0)),
    )


def _counts(cloud: PlannedCloud) -> np.ndarray:
    """Return the number of instances of each host; int64, (hosts,)."""
    return np.bincount(cloud.places.rows[cloud.places.rows >= 0], minlength=len(cloud.closed))


# -- finding moves ---------------------------------------------------------------------------------------

#: Smaller changes of the variance are noise of floating point.
LEAST_GAIN = 1e-12

#: Hosts of a cell off which instances are moved to spread: those that use the largest share of memory.
MOST_SOURCES = 100

#: Hosts that are tried to be emptied: those with the fewest instances and the least memory in use first.
MOST_TRIED = 500

Kind = tuple[int, int, str]
"""Instances with the same request, cell and server group."""

Moves = list[tuple[Move, float | None]]
"""Moves, and by how many percent points each lowers the deviation; None for other goals."""


class _Best(NamedTuple):
    """A move and the variance of the share of memory in use that it leaves; infinite if no host allows it."""

    variance: float
    kind: Kind
    instance: int
    target: int


class Balance:
    """Finds moves, and charges each one that it takes."""

    def __init__(self, cloud: PlannedCloud) -> None:
        """Find moves in a cloud whose requests were all read."""
        self._cloud = cloud
        self._snapshot = cloud.snapshot
        self._mover = Mover(cloud, explain=False)
        self._movable = np.array([self._can_move(at) for at in range(len(self._snapshot.instances))], bool)
        self._total = np.maximum(self._snapshot.table.numbers["total_usable_ram_mb"], 1)
        self._cells = self._snapshot.table.coded["cell"].codes
        #: The hosts that an instance of a kind may have, bool, (hosts,), once the filters were asked.
        self._allowed: dict[Kind, np.ndarray] = {}

    def _can_move(self, index: int) -> bool:
        """Whether nova moves an instance, and not only its compute knows what it frees."""
        stored = self._snapshot.stored_request(index)
        if stored is None or stored.is_pinned or stored.has_devices:
            return False
        return bool(way_of(self._snapshot, index).name)

    @property
    def _used(self) -> np.ndarray:
        return 1 - self._snapshot.table.numbers["free_ram_mb"] / self._total

    # -- spreading -------------------------------------------------------------------------------------------

    def spread(self, most: int) -> Moves:
        found: Moves = []
        while len(found) < most:
            self._snapshot.progress("moves", len(found), most)
            used = self._used
            best = self._best(used)
            if best is None:
                break
            with self._cloud.restoring_closed():
                self._cloud.open_only([best.target])
                moves, _ = self._mover.move_all([best.instance])
            if not moves:
                self._allowed[best.kind][best.target] = False
                continue
            self._movable[best.instance] = False
            found.append((moves[0], 100 * float(used.std() - self._used.std())))
            for allowed in self._allowed.values():  # either of both may suit others by now
                allowed[[moves[0].source, best.target]] = True
        return found

    def _best(self, used: np.ndarray) -> _Best | None:
        """Return the move that leaves the least variance, of those off the hosts that use most of a cell.

        What a kind gains at most by memory alone gives the order in which to ask the filters.
        """
        least = float(used.var()) - LEAST_GAIN
        kinds = self._kinds(used)
        found = {kind: self._best_of(kind, sources, used) for kind, sources in kinds.items()}
        while found and (best := min(found.values())).variance < least:
            if best.kind in self._allowed:
                return best
            self._allowed[best.kind] = self._passing(best.instance)
            found[best.kind] = self._best_of(best.kind, kinds[best.kind], used)
        return None

    def _kinds(self, used: np.ndarray) -> dict[Kind, dict[int, int]]:
        """Return an instance of each source that has one of a kind, by kind and row."""
        specs, rows = self._snapshot.instances.specs, self._cloud.places.rows
        found: dict[Kind, dict[int, int]] = {}
        for cell in np.unique(self._cells).tolist():
            here = np.flatnonzero(self._cells == cell)
            for row in here[np.argsort(-used[here], kind="stable")][:MOST_SOURCES].tolist():
                for index in np.flatnonzero((rows == row) & self._movable).tolist():
                    kind = int(specs[index]), cell, self._mover.group_of(index)
                    found.setdefault(kind, {}).setdefault(row, index)
        return found

    def _best_of(self, kind: Kind, sources: Mapping[int, int], used: np.ndarray) -> _Best:
        """Return the best move of an instance of a kind by memory, to the hosts that are known to allow it.

        With x and y the shares that it has of its host and of the new one, the sum of squares changes by
        (u - x)² - u² on the old host and by (v + y)² - v² on the new one, and the sum of shares by y - x.
        """
        rows = list(sources)
        memory = int(self._snapshot.requests[kind[0]].flavor.memory_mb)
        x, y = (memory / self._total[rows])[:, np.newaxis], memory / self._total
        squares = np.square(used).sum() - 2 * used[rows][:, np.newaxis] * x + x * x + 2 * used * y + y * y
        variances = squares / len(used) - ((used.sum() + y - x) / len(used)) ** 2
        variances[:, self._cells != kind[1]] = np.inf
        if kind in self._allowed:
            variances[:, ~self._allowed[kind]] = np.inf
        variances[np.arange(len(rows)), rows] = np.inf
        source, target = np.unravel_index(np.argmin(variances), variances.shape)
        return _Best(float(variances[source, target]), kind, sources[rows[source]], int(target))

    def _passing(self, index: int) -> np.ndarray:
        """Return which hosts the filters allow for an instance now; bool, (hosts,)."""
        found = np.zeros(len(self._total), bool)
        spec: Any = self._mover.request([index])
        spec.ignore_hosts = None  # others of its kind may go to its host
        with suppress(BerthError):
            ranking = self._cloud.rank(spec, self._snapshot.instances.uuids[index])
            found[ranking.hosts.table_rows] = True
        return found

    # -- emptying hosts --------------------------------------------------------------------------------------

    def pack(self, most: int) -> Moves:
        """Return moves that empty hosts, those that need the fewest moves first.

        Instances go to other hosts that have some.
        """
        cloud, used = self._cloud, self._total * self._used
        counts = _counts(cloud)
        hosts = sorted(np.flatnonzero(counts).tolist(), key=lambda row: (counts[row], used[row]))
        found, targets = list[Move](), set[int]()
        with cloud.restoring_closed():
            cloud.closed |= counts == 0
            for done, row in enumerate(hosts[:MOST_TRIED]):
                self._snapshot.progress("hosts", done, min(len(hosts), MOST_TRIED))
                indices = self._snapshot.instances.on([row])
                many = len(found) + len(indices) > most
                if row in targets or many or not self._movable[indices].all():
                    continue
                mark = cloud.mark
                cloud.closed[row] = True
                moves, stuck = self._mover.move_all(self._mover.order(indices.tolist()))
                if stuck:
                    cloud.rewind(mark)
                    cloud.closed[row] = False
                    continue
                found += moves
                targets |= {move.target for move in moves}
        return [(move, None) for move in found]
