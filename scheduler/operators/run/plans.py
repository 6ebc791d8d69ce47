"""The plans of a run: moves in an order that works."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.operators.plan.moves import MovesPlan
from scheduler.operators.run.journal import RunMove, Stay
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

#: Makes a plan for what is left after so many moves, from the cloud as it is then; raises BerthError.
MakeRound = Callable[[int], "Round"]


@dataclass
class RunStep:
    """A move of a plan.

    Attributes:
        vm_state: The state of the instance for which the way was chosen.
        reset_state: Whether its state is reset to ``error`` first, so that nova evacuates it.
        after: Instances that have to be moved before, if they are moved.
    """

    move: RunMove
    vm_state: str
    reset_state: bool = False
    after: Sequence[str] = ()


@dataclass
class Round:
    """The moves that are left, in an order that works.

    Attributes:
        hosts: Hosts that are to get no instances.
        busy: Those of the instances that stay for which that may change soon: nova is still working on them.
        nodes: The providers of each host.
    """

    hosts: Sequence[str]
    steps: list[RunStep]
    stays: list[Stay]
    busy: list[str]
    nodes: dict[str, list[str]]


def plan_of(cloud: PlannedCloud, found: MovesPlan) -> Round:
    """Return the moves of a plan, with what they need of each other."""
    table = cloud.snapshot.table
    nodes = {host: [table.rows[row].uuid for row in rows] for host, rows in table.rows_named.items()}
    steps: list[RunStep] = []
    for planned in found.moves:
        move = RunMove(instance=planned.instance, source=planned.source, to=planned.to, way=planned.way)
        before = _before(cloud, [step.move for step in steps], move)
        steps.append(RunStep(move, planned.state, planned.reset_state, before))
    left = found.stays()
    stays = [Stay(one.instance, one.source, one.state, one.why.text) for one in left]
    busy = [one.instance for one in left if one.task_state or one.state == "building"]
    return Round(found.to_empty(), steps, stays, busy, nodes)


def _before(cloud: PlannedCloud, earlier: Sequence[RunMove], move: RunMove) -> list[str]:
    """Return the instances to move before: off its target, of the same group, or named by its hints."""
    instances = cloud.snapshot.instances
    stored = cloud.snapshot.stored_request(instances.index_of[move.instance])
    if stored and stored.names_instances:
        return [each.instance for each in earlier]
    group = instances.group_of.get(move.instance)
    return [
        each.instance
        for each in earlier
        if each.source == move.to or (group and instances.group_of.get(each.instance) == group)
    ]
