"""Whether an older plan still holds: the same instances, and each target still takes its own."""

from collections.abc import Iterator

from scheduler.errors import BerthError
from scheduler.operators.plan.moves import Document, Mover
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

#: Differences that are named.
SHOWN = 5


class CloudChanged(BerthError):
    """A plan does not hold any more."""


def check(cloud: PlannedCloud, document: Document) -> None:
    """Check a plan against the cloud as it is now. The cloud is left as it was.

    Raises:
        CloudChanged: Something differs; the text says what.
    """
    found = list(_instances(cloud, document))
    if not found:
        with cloud.restoring():
            found = list(_targets(cloud, document))
    if found:
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise CloudChanged(f"The cloud has changed since the plan was made: {'; '.join(found[:SHOWN])}{more}")


def _instances(cloud: PlannedCloud, document: Document) -> Iterator[str]:
    """Yield how the instances of the plan, and those of its hosts, differ from the plan."""
    instances, table = cloud.snapshot.instances, cloud.snapshot.table
    planned = {one["instance"]: one for one in (*document["moves"], *document.get("without_place", ()))}
    for uuid, one in planned.items():
        index = instances.index_of.get(uuid)
        row = -1 if index is None else int(instances.rows[index])
        if index is None or row < 0:
            yield f"instance {uuid} is on no host"
        elif cloud.host(row) != one["from"]:
            yield f"instance {uuid} is on {cloud.host(row)}, not {one['from']}"
        elif instances.states[index] != one["state"]:
            yield f"instance {uuid} is {instances.states[index]}, not {one['state']}"
        elif (instances.tasks[index] or None) != one["task_state"]:
            yield f"instance {uuid} has the task state {instances.tasks[index] or 'none'}"
    rows = [int(row) for host in document.get("hosts", ()) for row in table.rows_named.get(host, ())]
    for index in instances.on(rows).tolist():
        if instances.uuids[index] not in planned:
            yield f"instance {instances.uuids[index]} is new on {cloud.host(int(instances.rows[index]))}"


def _targets(cloud: PlannedCloud, document: Document) -> Iterator[str]:
    """Make the moves of the plan on the snapshot, each with no other target, and yield those that fail."""
    snapshot = cloud.snapshot
    indices = [snapshot.instances.index_of[move["instance"]] for move in document["moves"]]
    snapshot.load_requests(indices)
    mover = Mover(cloud)
    for index, move in zip(indices, document["moves"], strict=True):
        cloud.open_only([int(row) for row in snapshot.table.rows_named.get(move["to"], ())])
        _, stuck = mover.move_all([index])
        for each in stuck:
            yield f"host {move['to']} does not take instance {move['instance']}: {each.why}"
