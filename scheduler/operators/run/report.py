"""What a run did and what is left, as a document for JSON, and as lines and tables."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.logs import count_text
from scheduler.operators.run.journal import DONE, History
from scheduler.operators.run.runner import INTERRUPTED, STAY, STOPPED, Outcome
from scheduler.operators.run.step import MOVED, OPEN, Step
from scheduler.operators.shown.shown import BAD, GOOD, Columns, Head, Saying, Shown, Table, table

Document = dict[str, Any]

#: How the first line calls the end of a run.
_ENDS = {
    DONE: "done",
    STAY: "done, but not all can be moved",
    STOPPED: "stopped",
    INTERRUPTED: "interrupted",
}

#: Consumers that are named of a host.
SHOWN = 5


def document(kind: str, path: str, history: History, outcome: Outcome) -> Document:
    """Return the whole run as values that JSON has."""
    return {
        "run": kind,
        "state": outcome.state,
        "why": outcome.why or None,
        "hosts": history.hosts,
        "disabled": dict(history.disabled),
        "begun_at": history.begun_at,
        "moves": [_move(step) for step in outcome.steps],
        "left": [_move(step) for step in outcome.left],
        "stays": [
            {"instance": one.instance, "host": one.host, "vm_state": one.vm_state, "why": one.why}
            for one in outcome.stays
        ],
        "held_in_placement": dict(outcome.held),
        "state_file": path,
    }


def _move(step: Step) -> Document:
    ended = bool(step.ended_at) and step.state not in OPEN
    return {
        "instance": step.instance,
        "name": step.name or None,
        "project": step.project or None,
        "from": step.source,
        "to": step.target,
        "way": step.way,
        "state": step.state,
        "tries": step.tries,
        "requested_at": _moment(step.requested_at),
        "ended_at": _moment(step.ended_at) if ended else None,
        "seconds": round(step.ended_at - step.requested_at, 1) if ended and step.requested_at else None,
        "why": step.why or None,
    }


def _moment(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else None


def shown(found: Document, status: int) -> Shown:
    """Return a run as it is shown, what was done last.

    Args:
        status: The exit status of the command.
    """
    moves, left, stays = found["moves"], found["left"], found["stays"]
    moved = sum(one["state"] == MOVED for one in moves)
    where = ", ".join(found["hosts"]) or found["run"]
    subject = f"{where}: {_ENDS[found['state']]}; {count_text(moved, 'instance')} moved"
    sayings = [Saying(words) for words in _sayings(found)]
    head = Head("Plan carried out", subject, BAD if status else GOOD, sayings=sayings)
    return Shown(found, head, [_stays(stays), moves_table([*left, *moves])], status=status)


def _sayings(found: Document) -> Iterator[str]:
    if found["why"]:
        yield f"because: {found['why']}"
    if under_way := sum(one["state"] in OPEN for one in found["moves"]):
        yield f"{count_text(under_way, 'move')} that nova may still be working on"
    if found["left"]:
        yield f"{count_text(len(found['left']), 'move')} not begun"
    for host, consumers in found["held_in_placement"].items():
        more = ", ..." if len(consumers) > SHOWN else ""
        yield (
            f"Placement still has allocations on {host}, of a resize that is not confirmed perhaps: "
            f"{', '.join(consumers[:SHOWN])}{more}"
        )
    if found["state"] in {STOPPED, INTERRUPTED}:
        yield "the same command goes on where this one ended"
    yield f"state: {found['state_file']}"


def _stays(stays: Sequence[Document]) -> Table:
    columns: Columns = {"Instance": "instance", "State": "vm_state", "Stays on": "host", "Why": "why"}
    return table(stays, columns, "Instances that stay")


def moves_table(moves: Sequence[Document]) -> Table:
    columns: Columns = {
        "Instance": "instance", "Server": "name", "From": "from", "To": "to", "Way": "way", "Result": "state",
        "Seconds": lambda one: None if one["seconds"] is None else round(one["seconds"]),
        "Why": "why",
    }  # fmt: skip
    return table(moves, columns, "Moves", searched=bool(moves))
