"""berth-plan drain: where each instance of some hosts would go, in an order that works, or why it cannot."""

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
import shlex

import msgspec

from scheduler.logs import count_text, sanitize
from scheduler.operators.app import flag, value, values
from scheduler.operators.plan.command import NAMED, SEVERAL, amounts, rows_of_hosts
from scheduler.operators.plan.movable import COLD, EVACUATE, LIVE, Way, way_of, way_off_a_dead_host
from scheduler.operators.plan.moves import (
    Move,
    Mover,
    MovesPlan,
    PlannedMove,
    Stuck,
    causes,
    moves_table,
    planned,
    stays_table,
    summed,
    unplaced,
)
from scheduler.operators.run.journal import NOTHING, RunState
from scheduler.operators.run.nova_api import MICROVERSION
from scheduler.operators.run.run_command import RunnablePlan
from scheduler.operators.shown.shown import Head, Saying, Shown, Table, bars
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import WrongArgument
from scheduler.operators.snapshot.snapshot import Snapshot

# -- arguments -------------------------------------------------------------------------------------------


class DrainCommand(RunnablePlan):
    """Plan how to empty hosts: the new host of each instance, in an order that works, or why it has none.

    Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made. With --run: 0 the
    hosts are empty, 3 some instances stay, 4 stopped, 5 interrupted, 255 not begun.
    """

    empties_hosts = True

    arguments = (
        value("host", "HOST", "a service host to empty", nargs="*"),
        *(values(f"--{name}", "NAME", f"empty all hosts of this {name}") for name in SEVERAL),
        flag("--commands", "print only a shell script with the openstack commands that carry out the moves"),
        flag("--evacuate", "the hosts are down: evacuate their instances"),
        flag(
            "--reset-states",
            "evacuate also instances that nova evacuates only after their state was reset to error, such "
            "as paused ones: they start again as their image or volume has them",
        ),
    )

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, done: RunState = NOTHING) -> "DrainPlan":
        if args.commands and args.run:
            raise WrongArgument("--commands prints a script, and --run runs the moves itself: choose one")
        if args.reset_states and not args.evacuate:
            raise WrongArgument("--reset-states needs --evacuate")
        way = partial(way_off_a_dead_host, reset_states=args.reset_states) if args.evacuate else way_of
        return drain(cloud, rows_of_hosts(cloud, args), way, done.refused)

    def emit(self, shown: Shown, args: argparse.Namespace) -> None:
        if not args.commands or args.undo:
            super().emit(shown, args)
            return
        self.app.stdout.write(f"# {sanitize(str(self.origin(shown)))}\n")
        for line in commands(shown.document.moves):
            self.app.stdout.write(f"{line}\n")


# -- document --------------------------------------------------------------------------------------------


class Target(msgspec.Struct):
    """A host that gets instances: how many, their memory, and the share of memory in use, from 0 to 1."""

    host: str
    instances: int
    memory_mb: int
    used_before: float
    used_after: float


class DrainPlan(MovesPlan, kw_only=True, tag="drain"):
    """How to empty hosts.

    Attributes:
        missing: What the instances without a place request together, by resource class.
    """

    instances: int
    missing: dict[str, int]
    targets: list[Target]

    def words(self) -> tuple[Head, list[Table]]:
        stays = self.without_place
        named = ", ".join(self.hosts) if len(self.hosts) <= NAMED else count_text(len(self.hosts), "host")
        sayings = []
        if stays:
            missing = f", missing {amounts(self.missing)}" if any(self.missing.values()) else ""
            words = f"{count_text(len(stays), 'instance')} without a place{missing}"
            sayings.append(Saying(words, details=causes(stays)))
        subject = f"{named}: {len(self.moves)} of {count_text(self.instances, 'instance')} can move"
        moves = moves_table(self.moves, {"Zone": "zone"})
        return Head("Emptying hosts", subject, self.look, sayings=sayings), [
            _picture(self.targets),
            *([stays_table(stays)] if stays else []),
            moves,
        ]


def _picture(targets: Sequence[Target]) -> Table:
    def words(one: Target) -> str:
        came = f"{one.memory_mb / 1024:.0f} GiB of {count_text(one.instances, 'instance')}"
        return f"{one.used_before:.0%} → {one.used_after:.0%}, {came}"

    ordered = sorted(targets, key=lambda one: one.used_before - one.used_after)
    rows = ((one.host, one.used_after, one.used_before, words(one), "") for one in ordered)
    legend = (("pale", "after"), ("strong", "before"))
    return bars("Memory in use of the hosts that get instances, most change first", rows, legend, most=1)


def drain(
    cloud: PlannedCloud,
    rows: Collection[int],
    way: Callable[[Snapshot, int], Way] = way_of,
    refused: Mapping[str, str] = {},
) -> DrainPlan:
    """Return a plan that empties the hosts in some rows. The cloud is left as the plan leaves it.

    No instance goes to one of them. If some have no place in the order of ``Mover.order``, these go first in
    a second try, and the better of both is the plan.

    Args:
        refused: Hosts to which instances could not be moved, by instance: they go there only if they have to.
    """
    snapshot = cloud.snapshot
    indices = snapshot.instances.on(rows).tolist()
    snapshot.load_requests(indices)
    cloud.closed[list(rows)] = True
    ways = {index: way(snapshot, index) for index in indices}
    fixed = [Stuck(index, its.why, {}) for index, its in ways.items() if not its.name]
    movable = [index for index, its in ways.items() if its.name]
    moves, stuck = _best(Mover(cloud, refused=refused), cloud, movable)
    if refused and stuck:
        more, stuck = Mover(cloud).move_all([each.index for each in stuck])
        moves = [*moves, *more]
    stuck = [*stuck, *fixed]
    return DrainPlan(
        hosts=sorted(map(cloud.host, rows)),
        instances=len(indices),
        moves=[
            PlannedMove(**planned(cloud, number, move, ways[move.index]))
            for number, move in enumerate(moves, 1)
        ],
        without_place=[unplaced(cloud, each, int(snapshot.instances.rows[each.index])) for each in stuck],
        missing=summed(each.amounts for each in stuck),
        targets=list(_targets(cloud, moves)),
        all_placed=not stuck,
    )


def _best(mover: Mover, cloud: PlannedCloud, indices: Sequence[int]) -> tuple[list[Move], list[Stuck]]:
    start = cloud.mark
    first = mover.order(indices)
    moves, stuck = mover.move_all(first)
    if not stuck:
        return moves, stuck
    cloud.rewind(start)
    stays = {each.index for each in stuck}
    others = [index for index in first if index not in stays]
    again = [*mover.order([each.index for each in stuck]), *others]
    second_moves, second_stuck = mover.move_all(again)
    if len(second_stuck) < len(stuck):
        return second_moves, second_stuck
    cloud.rewind(start)
    return mover.move_all(first)


def _targets(cloud: PlannedCloud, moves: Sequence[Move]) -> Iterator[Target]:
    table = cloud.snapshot.table
    sizes: dict[int, list[int]] = {}
    for move in moves:
        sizes.setdefault(move.target, []).append(int(cloud.snapshot.flavor(move.index).memory_mb))
    for row, came_in in sorted(sizes.items()):
        came = sum(came_in)
        total = max(int(table.numbers["total_usable_ram_mb"][row]), 1)
        used = total - int(table.numbers["free_ram_mb"][row])
        before, after = round((used - came) / total, 4), round(used / total, 4)
        yield Target(cloud.host(row), len(came_in), came, before, after)


# -- the moves as a shell script -------------------------------------------------------------------------

#: The commands return at once: their ``--wait`` ends with status 0 also when a migration has failed, and
#: never for an instance that ends paused, or an evacuation. nova-api sets the task state before it answers.
#: For some seconds after its task an evacuated instance is on its old host: nova-compute sets the host last.
HEADER = f"""\
export OS_COMPUTE_API_VERSION={MICROVERSION}
set -e
check_host() {{
    looks=7200 looks_without_task=30
    while
        state=$(openstack server show -f value -c OS-EXT-SRV-ATTR:host -c OS-EXT-STS:task_state "$1" | xargs)
        [ "$state" != "$2 None" ]
    do
        looks=$((looks - 1))
        case $state in "" | *" None") looks_without_task=$((looks_without_task - 1)) ;; esac
        if [ "$looks" -lt 1 ] || [ "$looks_without_task" -lt 1 ]; then
            host=${{state%% *}}
            echo "Stopped: instance $1 is on host ${{host:-unknown}}, the plan says $2" >&2
            exit 1
        fi
        sleep 2
    done
}}"""

_VERBS = {LIVE: "migrate --live-migration", COLD: "migrate", EVACUATE: "evacuate"}


def commands(moves: Sequence[PlannedMove]) -> list[str]:
    """Return the lines of a shell script that carries out moves; none if there is no move.

    The script stops at the first command that fails, and at the first instance that is on another host than
    planned after its move. A cold migration has to be confirmed before the next move.
    """
    lines = HEADER.splitlines() if moves else []
    for move in moves:
        instance, host = shlex.quote(move.instance), shlex.quote(move.to)
        if move.reset_state:
            lines.append(f"openstack server set --state error {instance}")
        lines.append(f"openstack server {_VERBS[move.way]} --host {host} {instance}")
        lines.append(f"check_host {instance} {host}")
        if move.way == COLD:
            lines.append(f"openstack server migration confirm {instance}")
    return lines
