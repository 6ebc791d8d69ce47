"""What a run did and what is left, as a document for JSON, and as lines and tables."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.logs import count_text
from scheduler.operators.command.tables import Table
from scheduler.operators.explain.decision_commands import Shown
from scheduler.operators.run.journal import DONE, History
from scheduler.operators.run.runner import INTERRUPTED, STAY, STOPPED, Outcome
from scheduler.operators.run.step import MOVED, OPEN, Step

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


def shown(found: Document) -> Shown:
    """Return a run as lines and tables, what was done last."""
    moves, left, stays = found["moves"], found["left"], found["stays"]
    moved = sum(one["state"] == MOVED for one in moves)
    where = ", ".join(found["hosts"]) or found["run"]
    head = [f"{where}: {_ENDS[found['state']]}; {count_text(moved, 'instance')} moved"]
    if found["why"]:
        head.append(f"  because: {found['why']}")
    if under_way := sum(one["state"] in OPEN for one in moves):
        head.append(f"  {count_text(under_way, 'move')} that nova may still be working on")
    if left:
        head.append(f"  {count_text(len(left), 'move')} not begun")
    for host, consumers in found["held_in_placement"].items():
        more = ", ..." if len(consumers) > SHOWN else ""
        head.append(
            f"  Placement still has allocations on {host}, of a resize that is not confirmed perhaps: "
            f"{', '.join(consumers[:SHOWN])}{more}"
        )
    if found["state"] in {STOPPED, INTERRUPTED}:
        head.append("  the same command goes on where this one ended")
    head.append(f"  state: {found['state_file']}")
    return Shown(found, head, [_stays(stays), _moves([*left, *moves])])


def _stays(stays: Sequence[Document]) -> Table:
    rows = [(one["instance"], one["vm_state"], one["host"], one["why"]) for one in stays]
    return ("Instance", "State", "Stays on", "Why"), rows


def _moves(moves: Sequence[Document]) -> Table:
    columns = ("Instance", "Name", "From", "To", "Way", "Result", "Seconds", "Why")
    return columns, [
        (
            one["instance"],
            one["name"] or "",
            one["from"],
            one["to"],
            one["way"],
            one["state"],
            "" if one["seconds"] is None else f"{one['seconds']:.0f}",
            one["why"] or "",
        )
        for one in moves
    ]
