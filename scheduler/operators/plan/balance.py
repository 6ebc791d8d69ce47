"""berth-plan balance: few moves that bring hosts closer to a goal.

Each is a decision of the scheduler: every filter allows it.

    spread  the share of memory that hosts use becomes more even: each move is the one that lowers its
            standard deviation most
    pack    hosts become empty

Pinned guests and those with devices stay where they are: only computes know what they free.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler.errors import BerthError
from scheduler.logs import count_text
from scheduler.operators.app import count, value
from scheduler.operators.plan.command import WrongArgument, unknown
from scheduler.operators.plan.movable import COLD, LIVE, way_of
from scheduler.operators.plan.moves import Move, Mover, MovesPlan, PlannedMove, described, moves_table
from scheduler.operators.run.run_command import RunnablePlan
from scheduler.operators.shown.shown import GOOD, Columns, Fact, Head, Table, bars
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

GOALS = SPREAD, PACK = ("spread", "pack")


class BalanceCommand(RunnablePlan):
    """Propose the moves that bring the cloud closest to a goal. All filters allow each move.

    Exit status: 0, 255 if no plan could be made. With --run: as drain.
    """

    kind = "balance"
    repeats = False

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

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> "BalancePlan":
        return self.left(cloud, args, 0)

    def left(self, cloud: PlannedCloud, args: argparse.Namespace, moved: int) -> "BalancePlan":
        if args.goal not in GOALS:
            raise WrongArgument(unknown("goal", args.goal, GOALS))
        return balance(cloud, args.goal, max(0, args.moves - moved))


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
    """Return what moves cost, in one line."""
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
    snapshot = cloud.snapshot
    snapshot.load_requests(range(len(snapshot.instances)))
    before = spread_of(cloud)
    engine = Balance(cloud)
    found = engine.pack(most) if goal == PACK else engine.spread(most)
    gains: Sequence[float | None] = found.gains or [None] * len(found.moves)
    return BalancePlan(
        goal=goal,
        moves=[
            _described(cloud, number, move, gain)
            for number, (move, gain) in enumerate(zip(found.moves, gains, strict=True), 1)
        ],
        emptied=sorted(cloud.host(row) for row in found.emptied),
        before=before,
        after=spread_of(cloud),
        all_placed=True,
    )


def _described(cloud: PlannedCloud, number: int, move: Move, gain: float | None) -> BalanceMove:
    snapshot = cloud.snapshot
    request = int(snapshot.instances.specs[move.index])
    flavor = snapshot.requests.flavor(request)
    local = not snapshot.requests.boots_from_volume(request)
    return BalanceMove(
        **described(cloud, move.index, move.source),
        step=number,
        to=cloud.host(move.target),
        way=move.way,
        memory_gib=round(flavor.memory_mb / 1024, 2) if move.way == LIVE else 0,
        disk_gib=(flavor.root_gb if local else 0) + flavor.ephemeral_gb,
        down=move.way == COLD and snapshot.instances.states[move.index] == "active",
        gain=None if gain is None else round(gain, 6),
    )


#: Bars of the histogram of memory in use.
TENTHS = 10


def spread_of(cloud: PlannedCloud) -> Spread:
    numbers = cloud.snapshot.table.numbers
    used = 1 - numbers["free_ram_mb"] / np.maximum(numbers["total_usable_ram_mb"], 1)
    tenths = np.bincount(np.clip((used * TENTHS).astype(int), 0, TENTHS - 1), minlength=TENTHS)
    counts = np.bincount(cloud.places.rows[cloud.places.rows >= 0], minlength=len(used))
    return Spread(
        memory_used_mean_percent=round(float(used.mean()) * 100, 2),
        memory_used_deviation_percent=round(float(used.std()) * 100, 2),
        hosts_by_tenth_used=tenths.tolist(),
        empty_hosts=int(np.count_nonzero(counts == 0)),
    )


# -- finding moves ---------------------------------------------------------------------------------------

#: Smaller changes of the variance are noise of floating point.
LEAST_GAIN = 1e-12

#: Hosts of a cell off which instances are moved to spread: those that use the largest share of memory.
MOST_SOURCES = 100

#: Hosts that are tried to be emptied: those with the fewest instances and the least memory in use first.
MOST_TRIED = 500


class _Kind(NamedTuple):
    """Instances with the same request, cell and server group; some of them are on hosts that use much."""

    number: int
    cell: int
    group: str


class _Best(NamedTuple):
    """A move and the variance of the share of memory in use that it leaves."""

    variance: float
    kind: _Kind
    instance: int
    target: int


@dataclass
class Found:
    """Moves towards a goal.

    Attributes:
        gains: By how many percent points each move lowers the deviation; empty for other goals.
        emptied: The rows of hosts that are empty then.
    """

    moves: list[Move] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)


class Balance:
    """Finds moves, and charges each one that it takes."""

    def __init__(self, cloud: PlannedCloud) -> None:
        """Find moves in a cloud whose requests were all read."""
        self._cloud = cloud
        self._snapshot = cloud.snapshot
        self._mover = Mover(cloud, explain=False)
        self._ways = [way_of(self._snapshot, index) for index in range(len(self._snapshot.instances))]
        self._total = np.maximum(self._snapshot.table.numbers["total_usable_ram_mb"], 1)
        self._cells = self._snapshot.table.coded["cell"].codes
        self._moved: set[int] = set()
        #: The hosts that an instance of a kind may have, bool, (hosts,): all until the filters were asked.
        self._allowed: dict[_Kind, np.ndarray] = {}
        self._asked: set[_Kind] = set()

    @property
    def _used(self) -> np.ndarray:
        return 1 - self._snapshot.table.numbers["free_ram_mb"] / self._total

    def _memory(self, index: int) -> int:
        number = int(self._snapshot.instances.specs[index])
        return int(self._snapshot.requests.flavor(number).memory_mb)

    def _stays(self, index: int) -> bool:
        """Whether nova does not move an instance, or only its compute knows what it frees."""
        requests, number = self._snapshot.requests, int(self._snapshot.instances.specs[index])
        if number < 0 or not self._ways[index].name:
            return True
        return requests.is_pinned(number) or requests.has_devices(number)

    def _on(self, row: int) -> list[int]:
        """Return the instances that are on a host now and can be moved, each at most once."""
        indices = np.flatnonzero(self._cloud.places.rows == row).tolist()
        return [at for at in indices if at not in self._moved and not self._stays(at)]

    def _move(self, index: int) -> Move | None:
        """Move an instance to the host that the scheduler decides for; None: it stays."""
        moves, _ = self._mover.move_all([index])
        self._moved.update(move.index for move in moves)
        return moves[0] if moves else None

    # -- spreading -------------------------------------------------------------------------------------------

    def spread(self, most: int) -> Found:
        plan = Found()
        while len(plan.moves) < most:
            self._snapshot.progress("moves", len(plan.moves), most)
            before = float(self._used.std())
            best = self._best()
            if best is None:
                break
            if (move := self._to(best.instance, best.target)) is None:
                self._allowed[best.kind][best.target] = False
                continue
            plan.moves.append(move)
            plan.gains.append(100 * (before - float(self._used.std())))
            for allowed in self._allowed.values():  # either of both may suit others by now
                allowed[[move.source, move.target]] = True
        return plan

    def _to(self, index: int, target: int) -> Move | None:
        """Move an instance to a host if the scheduler allows it."""
        with self._cloud.restoring_closed():
            self._cloud.open_only([target])
            return self._move(index)

    def _best(self) -> _Best | None:
        """Return the move that leaves the least variance, of those off the hosts that use most of a cell."""
        used = self._used
        least = float(used.var()) - LEAST_GAIN
        kinds = self._kinds(used)
        best: _Best | None = None
        # what a kind gains at most with the hosts known so far gives the order in which to ask the filters
        found = {kind: self._best_of(kind, sources, used) for kind, sources in kinds.items()}
        while True:
            best = min((one for one in found.values() if one), key=lambda one: one.variance, default=None)
            if best is None or best.variance >= least:
                return None
            if best.kind in self._asked:
                return best
            self._allowed[best.kind] &= self._passing(best.instance)
            self._asked.add(best.kind)
            found[best.kind] = self._best_of(best.kind, kinds[best.kind], used)

    def _kinds(self, used: np.ndarray) -> dict[_Kind, dict[int, int]]:
        """Return an instance of each source that has one of a kind, by kind and row."""
        instances = self._snapshot.instances
        found: dict[_Kind, dict[int, int]] = {}
        for cell in range(int(self._cells.max(initial=-1)) + 1):
            here = np.flatnonzero(self._cells == cell)
            for row in here[np.argsort(-used[here], kind="stable")][:MOST_SOURCES].tolist():
                for index in self._on(row):
                    kind = _Kind(int(instances.specs[index]), cell, self._mover.group_of(index))
                    found.setdefault(kind, {}).setdefault(row, index)
        return found

    def _best_of(self, kind: _Kind, sources: Mapping[int, int], used: np.ndarray) -> _Best | None:
        """Return the best move of an instance of a kind by memory alone; None if no host may have it.

        With x and y the shares that it has of its host and of the new one, the sum of squares changes by
        (u - x)² - u² on the old host and by (v + y)² - v² on the new one, and the sum of shares by y - x.
        """
        allowed = self._allowed.setdefault(kind, np.ones(len(used), bool))
        rows, memory = list(sources), self._memory(next(iter(sources.values())))
        x, y = (memory / self._total[rows])[:, np.newaxis], memory / self._total
        squares = np.square(used).sum() - 2 * used[rows][:, np.newaxis] * x + x * x + 2 * used * y + y * y
        variances = squares / len(used) - ((used.sum() + y - x) / len(used)) ** 2
        variances[:, ~allowed | (self._cells != kind.cell)] = np.inf
        variances[np.arange(len(rows)), rows] = np.inf
        source, target = np.unravel_index(np.argmin(variances), variances.shape)
        least = float(variances[source, target])
        return None if least == np.inf else _Best(least, kind, sources[rows[source]], int(target))

    def _passing(self, index: int) -> np.ndarray:
        """Return which hosts the filters allow for an instance now; bool, (hosts,)."""
        found = np.zeros(len(self._total), bool)
        spec: Any = self._mover.request([index])
        spec.ignore_hosts = None  # others of its kind may go to its host
        try:
            ranking = self._cloud.rank(spec, self._snapshot.instances.uuids[index])
        except BerthError:
            return found
        found[ranking.hosts.table_rows] = True
        return found

    # -- emptying hosts --------------------------------------------------------------------------------------

    def pack(self, most: int) -> Found:
        """Return moves that empty hosts, those that need the fewest moves first.

        Instances go to other hosts that have some.
        """
        cloud, instances = self._cloud, self._snapshot.instances
        counts = np.bincount(cloud.places.rows[cloud.places.rows >= 0], minlength=len(cloud.closed))
        memory = self._snapshot.table.numbers
        used = memory["total_usable_ram_mb"] - memory["free_ram_mb"]
        hosts = sorted(np.flatnonzero(counts).tolist(), key=lambda row: (counts[row], used[row]))
        moves, emptied = list[Move](), list[int]()
        targets: set[int] = set()
        with cloud.restoring_closed():
            cloud.closed |= counts == 0
            for done, row in enumerate(hosts[:MOST_TRIED]):
                self._snapshot.progress("hosts", done, min(len(hosts), MOST_TRIED))
                indices = instances.on([row]).tolist()
                if row in targets or len(moves) + len(indices) > most:
                    continue
                if any(map(self._stays, indices)):
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
        return Found(moves=moves, emptied=emptied)
