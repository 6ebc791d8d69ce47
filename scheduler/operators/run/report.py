"""What a run did and what is left: the document, and its words. Undoing a run."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from scheduler.logs import count_text
from scheduler.operators.run.journal import OPEN, Ending, MoveState, RunJournal, RunStep
from scheduler.operators.run.nova_api import NovaApi
from scheduler.operators.run.one_move import Reader
from scheduler.operators.run.plans import Stay
from scheduler.operators.shown.shown import BAD, GOOD, Columns, Head, Saying, Shown, Table, table

#: How the first line calls the end of a run.
_ENDS = {
    Ending.DONE: "done",
    Ending.STAY: "done, but not all can be moved",
    Ending.STOPPED: "stopped",
    Ending.INTERRUPTED: "interrupted",
}

#: What was done with a host that a run disabled.
ENABLED, KEPT = "enabled", "kept"

#: Consumers that are named of a host.
SHOWN = 5


class Done(msgspec.Struct):
    """A move, as far as it came."""

    instance: str
    name: str | None
    project: str | None
    source: str = msgspec.field(name="from")
    to: str
    way: str
    state: str
    tries: int
    requested_at: str | None
    ended_at: str | None
    seconds: float | None
    why: str | None

    @classmethod
    def of(cls, step: RunStep) -> "Done":
        ended = bool(step.ended_at) and step.state not in OPEN
        return cls(
            step.instance,
            step.name or None,
            step.project or None,
            step.source,
            step.target,
            step.way,
            step.state,
            step.tries,
            _moment(step.requested_at),
            _moment(step.ended_at) if ended else None,
            round(step.ended_at - step.requested_at, 1) if ended and step.requested_at else None,
            step.why or None,
        )


def _moment(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else None


class Enabled(msgspec.Struct):
    """What was done with a host that the run disabled: ``ENABLED`` or ``KEPT``, and why."""

    host: str
    result: str
    why: str | None = None

    @property
    def line(self) -> str:
        return f"{self.host}: {self.result}" + (f", {self.why}" if self.why else "")


class RunReport(msgspec.Struct, kw_only=True):
    """A whole run.

    Attributes:
        run: The kind of its plan.
        state: How it ended.
        why: The surprise; None for none.
        moves: All moves of this run and of those that it continues.
        left: Moves of the last plan that were not begun.
        stays: Instances for which there is no move, with the reason.
        held_in_placement: Consumers that still hold something of a host, by host.
        services: What was done with the hosts, if the run was undone.
    """

    run: str
    state: Ending
    why: str | None = None
    hosts: list[str]
    disabled: dict[str, str]
    begun_at: str
    moves: list[Done]
    left: list[Done] = []
    stays: list[Stay] = []
    held_in_placement: dict[str, list[str]] = {}
    state_file: str
    services: list[Enabled] | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, kind: str, state: Ending, journal: RunJournal, left: Sequence[RunStep] = ()) -> "RunReport":
        history = journal.history
        return cls(
            run=kind,
            state=state,
            hosts=history.hosts,
            disabled=dict(history.disabled),
            begun_at=history.begun_at,
            moves=[Done.of(step) for step in history.steps.values()],
            left=[Done.of(step) for step in left],
            state_file=str(journal.path),
        )

    def shown(self, status: int) -> Shown:
        """Return the run as it is shown, what was done last. ``status``: the exit status of the command."""
        look = BAD if status else GOOD
        moved = [one for one in self.moves if one.state == MoveState.MOVED]
        if self.services:
            stay = "instance was moved and stays where it is", "instances were moved and stay where they are"
            sayings = [Saying(one.line) for one in self.services]
            head = Head("Run undone", count_text(len(moved), *stay), look, sayings=sayings)
            return Shown(self, head, [_moves(moved)], status=status)
        where = ", ".join(self.hosts) or self.run
        subject = f"{where}: {_ENDS[self.state]}; {count_text(len(moved), 'instance')} moved"
        head = Head("Plan carried out", subject, look, sayings=[*map(Saying, self._sayings())])
        columns: Columns = {"Instance": "instance", "State": "vm_state", "Stays on": "host", "Why": "why"}
        stays = table(self.stays, columns, "Instances that stay")
        return Shown(self, head, [stays, _moves([*self.left, *self.moves])], status=status)

    def _sayings(self) -> Iterator[str]:
        if self.why:
            yield f"because: {self.why}"
        if under_way := sum(one.state in OPEN for one in self.moves):
            yield f"{count_text(under_way, 'move')} that nova may still be working on"
        if self.left:
            yield f"{count_text(len(self.left), 'move')} not begun"
        for host, consumers in self.held_in_placement.items():
            more = ", ..." if len(consumers) > SHOWN else ""
            yield (
                f"Placement still has allocations on {host}, of a resize that is not confirmed perhaps: "
                f"{', '.join(consumers[:SHOWN])}{more}"
            )
        if self.state in {Ending.STOPPED, Ending.INTERRUPTED}:
            yield "the same command goes on where this one ended"
        yield f"state: {self.state_file}"


def _moves(moves: Sequence[Done]) -> Table:
    columns: Columns = {
        "Instance": "instance", "Server": "name", "From": "source", "To": "to", "Way": "way",
        "Result": lambda one: str(one.state),
        "Seconds": lambda one: None if one.seconds is None else round(one.seconds),
        "Why": "why",
    }  # fmt: skip
    return table(moves, columns, "Moves", searched=bool(moves))


def undo(nova: NovaApi, reader: Reader, journal: RunJournal, kind: str) -> RunReport:
    """Enable the hosts that a run disabled, and return what it had moved. Nothing is moved.

    A host that was not disabled by the run, or was disabled again for another reason, is left as it is.

    Raises:
        Surprise: Nova cannot be read.
        ApiError: Nova does not enable a host.
    """
    found = RunReport.of(kind, Ending.UNDONE, journal)
    found.services = [_enabled(host, nova, reader, journal) for host in journal.history.hosts]
    if all(one.result == ENABLED or one.why == "it is enabled" for one in found.services):
        journal.write("undo")
    return found


def _enabled(host: str, nova: NovaApi, reader: Reader, journal: RunJournal) -> Enabled:
    service = reader.read(nova.service, host)
    if service is None:
        return Enabled(host, KEPT, "nova has no nova-compute on it")
    if service.enabled:
        return Enabled(host, KEPT, "it is enabled")
    if journal.history.disabled.get(host) != service.reason:
        return Enabled(host, KEPT, f"it is disabled for another reason: {service.reason or 'none'}")
    nova.enable(service)
    return Enabled(host, ENABLED, None if service.up else "but it is down")
