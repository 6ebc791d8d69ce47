"""What a run did and what is left, in words. Undoing a run."""

from collections.abc import Iterator, Sequence

from scheduler.logs import count_text
from scheduler.operators.run.journal import Enabled, Ending, MoveState, RunJournal, RunMove, RunState
from scheduler.operators.run.nova_api import NovaApi
from scheduler.operators.run.one_move import Reader
from scheduler.operators.shown.shown import BAD, GOOD, Columns, Head, Saying, Shown, Table, table

#: How the first line calls the end of a run.
_ENDS = {
    Ending.DONE: "done",
    Ending.STAY: "done, but not all can be moved",
    Ending.STOPPED: "stopped",
    Ending.INTERRUPTED: "interrupted",
}

#: Consumers that are named of a host.
SHOWN = 5


def shown(state: RunState, status: int) -> Shown:
    """Return the run as it is shown, what was done last. ``status``: the exit status of the command."""
    look = BAD if status else GOOD
    moved = [one for one in state.moves if one.state == MoveState.MOVED]
    if state.services:
        stay = "instance was moved and stays where it is", "instances were moved and stay where they are"
        sayings = [Saying(line) for line in (*map(_line, state.services), *_open(state))]
        head = Head("Run undone", count_text(len(moved), *stay), look, sayings=sayings)
        return Shown(state, head, [_moves(moved)], status=status)
    where = ", ".join(state.hosts) or state.run
    subject = f"{where}: {_ENDS[state.state]}; {count_text(len(moved), 'instance')} moved"
    head = Head("Plan carried out", subject, look, sayings=[*map(Saying, _sayings(state))])
    columns: Columns = {"Instance": "instance", "State": "vm_state", "Stays on": "host", "Why": "why"}
    stays = table(state.stays, columns, "Instances that stay")
    return Shown(state, head, [stays, _moves([*state.left, *state.moves])], status=status)


def _line(one: Enabled) -> str:
    return f"{one.host}: {'enabled' if one.enabled else 'kept'}" + (f", {one.why}" if one.why else "")


def _open(state: RunState) -> Iterator[str]:
    if under_way := len(state.open):
        yield f"{count_text(under_way, 'move')} that nova may still be working on"


def _sayings(state: RunState) -> Iterator[str]:
    if state.why:
        yield f"because: {state.why}"
    yield from _open(state)
    if state.left:
        yield f"{count_text(len(state.left), 'move')} not begun"
    for host, consumers in state.held_in_placement.items():
        more = ", ..." if len(consumers) > SHOWN else ""
        yield (
            f"Placement still has allocations on {host}, of a resize that is not confirmed perhaps: "
            f"{', '.join(consumers[:SHOWN])}{more}"
        )
    if state.state in {Ending.STOPPED, Ending.INTERRUPTED}:
        yield "the same command goes on where this one ended"
    yield f"state: {state.state_file}"


def _moves(moves: Sequence[RunMove]) -> Table:
    columns: Columns = {
        "Instance": "instance", "Server": "name", "From": "source", "To": "to", "Way": "way",
        "Result": lambda one: str(one.state),
        "Seconds": lambda one: None if one.seconds is None else round(one.seconds),
        "Why": "why",
    }  # fmt: skip
    return table(moves, columns, "Moves", searched=bool(moves))


def undo(nova: NovaApi, reader: Reader, journal: RunJournal) -> RunState:
    """Enable the hosts that a run disabled, and return what it had moved. Nothing is moved.

    A host that was not disabled by the run, or was disabled again for another reason, is left as it is. The
    state is kept if there is such a host, or a move that is still open.

    Raises:
        Surprise: Nova cannot be read.
        ApiError: Nova does not enable a host.
        JournalUnusable: The state cannot be written.
    """
    state = journal.state
    services = [_enabled(each, nova, reader, state) for each in state.hosts]
    state.state = Ending.UNDONE
    if state.open:
        journal.save()
    elif all(one.enabled for one in services):
        journal.path.unlink(missing_ok=True)
    state.services = services
    return state


def _enabled(host: str, nova: NovaApi, reader: Reader, state: RunState) -> Enabled:
    service = reader.read(nova.service, host)
    if service is None:
        return Enabled(host, False, "nova has no nova-compute on it")
    if service.status == "enabled":
        return Enabled(host, True, "it was enabled already")
    if state.disabled.get(host) != service.disabled_reason:
        reason = service.disabled_reason or "none"
        return Enabled(host, False, f"it is disabled for another reason: {reason}")
    nova.enable(service)
    return Enabled(host, True, None if service.state == "up" else "but it is down")
