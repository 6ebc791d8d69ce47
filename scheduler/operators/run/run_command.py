"""``--run``: the arguments, a run from its begin to its end, what was done and what is left; undo."""

import argparse
from collections.abc import Callable, Iterator, Sequence
import contextlib
import getpass
import hashlib
import os
from pathlib import Path
import re
import signal
import threading

from scheduler import conf as options
from scheduler.logs import count_text
from scheduler.operators.app import positive_integer, positive_number
from scheduler.operators.plan.command import NO_PLACE, SEVERAL, PlanCommand, quiet
from scheduler.operators.plan.moves import MovesPlan
from scheduler.operators.run import nova_api
from scheduler.operators.run.journal import (
    NOTHING,
    Enabled,
    Ending,
    MoveState,
    RunJournal,
    RunMove,
    RunState,
    this_process,
)
from scheduler.operators.run.nova_api import ApiError, NovaApi, PlacementView
from scheduler.operators.run.one_move import Clocks, Read, RunLimits, patient
from scheduler.operators.run.runner import Round, Runner, Terminal, plan_of
from scheduler.operators.shown import files
from scheduler.operators.shown.shown import BAD, GOOD, Columns, Head, Saying, Shown, Table, table
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import WrongArgument

#: How the first line calls the end of a run, and its exit status.
ENDS = {
    Ending.DONE: ("done", 0),
    Ending.STAY: ("done, but not all can be moved", NO_PLACE),
    Ending.STOPPED: ("stopped", 4),
    Ending.INTERRUPTED: ("interrupted", 5),
}

#: Characters of the name of a file with the state of a run.
NAME = 80

RIGHTS = (
    "--run changes the cloud, with the credentials of clouds.yaml or of the variables OS_*. They need the "
    "role admin, or these policies of nova: os-services (list, update), servers:show with "
    "os-extended-server-attributes, os-migrate-server (migrate, migrate_live), servers:confirm_resize, "
    "os-instance-actions (list, show, events), and for --evacuate also os-evacuate and "
    "os-admin-actions:reset_state."
)


#: Arguments of a run: name, type, what the help calls the value, and words.
ARGUMENTS = (
    ("os-cloud", str, "NAME", "an entry of clouds.yaml (default: OS_CLOUD, or the variables OS_*)"),
    ("parallel", positive_integer, "N", f"moves at the same time (default: {RunLimits.parallel})"),
    (
        "parallel-per-host", positive_integer, "N",
        "moves at the same time off one host, or to one host (default: as --parallel)",
    ),
    (
        "move-timeout", positive_number, "SECONDS",
        f"leave a move that takes longer to nova, and go on (default: {RunLimits.move:g})",
    ),
    (
        "run-timeout", positive_number, "SECONDS",
        f"stop if the whole run takes longer (default: {RunLimits.total:g})",
    ),
    (
        "state", str, "FILE",
        "the state of the run, from which the same command goes on (default: one below ~/.local/state/berth)",
    ),
)  # fmt: skip


@contextlib.contextmanager
def halting() -> Iterator[Callable[[], bool]]:
    """Return what says whether the operator wants the run to end: after SIGINT or SIGTERM.

    The first signal lets open moves end, the second one leaves them to nova.
    """
    received: list[int] = []

    def handle(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGINT, signal.SIGTERM) if in_main else ()
    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class RunnablePlan(PlanCommand):
    """A plan whose moves can be carried out.

    Attributes:
        empties_hosts: Whether hosts are disabled, and it is planned again until no move is left.
        timing: Where time comes from.
    """

    empties_hosts = False
    timing = Clocks()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        group = parser.add_argument_group("carrying the plan out", RIGHTS)
        either = group.add_mutually_exclusive_group()
        either.add_argument(
            "--run", action="store_true", help="carry the plan out; without it nothing is changed"
        )
        if self.empties_hosts:
            words = "enable the hosts that --run disabled, and show what it moved; nothing is moved back"
            either.add_argument("--undo", action="store_true", help=words)
            group.add_argument("--reason", metavar="TEXT", help="why the hosts are disabled, for nova's API")
        for name, kind, meta, words in ARGUMENTS:
            group.add_argument(f"--{name}", type=kind, metavar=meta, help=words)
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, done: RunState = NOTHING) -> MovesPlan:
        """Return the plan of what a run has left."""
        raise NotImplementedError

    def show(self, args: argparse.Namespace) -> Shown:
        if getattr(args, "undo", False):
            return self._undo(args)
        if not args.run:
            for name in (*(name for name, *_ in ARGUMENTS), "reason"):
                if getattr(args, name.replace("-", "_"), None) is not None:
                    raise WrongArgument(f"--{name} needs --run")
            return super().show(args)
        options.require_databases(self.conf)
        return self._carry_out(args)

    def _carry_out(self, args: argparse.Namespace) -> Shown:
        terminal = Terminal(self.app.stderr)

        def plan(done: RunState) -> Round:
            with snapshot.read(self.conf, terminal.bar) as read:
                cloud = PlannedCloud(read)
                return plan_of(cloud, self.plan(cloud, args, done))

        nova = nova_api.connect(args.os_cloud)
        with (
            quiet(self.app.options.verbose_level < 2),
            RunJournal(self._state_file(args)) as journal,
            contextlib.ExitStack() as at_end,
            halting() as is_halted,
        ):
            at_end.callback(terminal.bar.clear)
            runner = Runner(
                nova,
                PlacementView(self.conf),
                plan,
                journal,
                limits=_limits(args),
                display=terminal,
                is_halted=is_halted,
                timing=self.timing,
            )
            evacuate = getattr(args, "evacuate", False)
            found = runner.run(
                _reason(args), kind=str(self.cmd_name), evacuate=evacuate, repeats=self.empties_hosts
            )
        return shown(found)

    def _undo(self, args: argparse.Namespace) -> Shown:
        path = self._state_file(args)
        if not path.exists():
            raise WrongArgument(f"There is no run to undo: {path} does not exist")
        nova = nova_api.connect(args.os_cloud)
        with RunJournal(path) as journal:
            if not journal.state.hosts:
                raise WrongArgument(f"There is no run to undo in {path}")
            found = undo(nova, patient(RunLimits(), self.timing), journal)
        return shown(found)

    def _state_file(self, args: argparse.Namespace) -> Path:
        """Return the file of the runs that continue each other: of one cloud, and its hosts or a goal."""
        if args.state:
            return Path(args.state)
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        named = [f"{kind}={name}" for kind in SEVERAL for name in getattr(args, kind, ())]
        of = [*getattr(args, "host", ()), *named, *([args.goal] if "goal" in args else [])]
        words = "_".join((str(self.cmd_name), *sorted(of)))
        name = re.sub(r"[^\w.+-]", "-", words)
        if len(name) > NAME or name != words:
            name = f"{name[:NAME]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
        return Path(base) / "berth" / re.sub(r"[^\w.+-]", "-", files.cloud(self.conf)) / f"{name}.json"


def _limits(args: argparse.Namespace) -> RunLimits:
    given = {
        "parallel": args.parallel,
        "per_host": args.parallel_per_host or args.parallel,
        "move": args.move_timeout,
        "total": args.run_timeout,
    }
    return RunLimits(**{name: value for name, value in given.items() if value is not None})


def _reason(args: argparse.Namespace) -> str:
    given = getattr(args, "reason", None)
    if given:
        return str(given)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown user"
    return f"berth-plan drain --run by {user}, {this_process()}"


# -- words -----------------------------------------------------------------------------------------------

#: Consumers that are named of a host.
SHOWN = 5


def shown(state: RunState) -> Shown:
    """Return the run as it is shown, what was done last."""
    moved = [one for one in state.moves if one.state == MoveState.MOVED]
    if state.services:
        status = 0 if all(one.enabled for one in state.services) else NO_PLACE
        stay = "instance was moved and stays where it is", "instances were moved and stay where they are"
        title, subject = "Run undone", count_text(len(moved), *stay)
        lines, tables = [*map(_line, state.services), *_open(state)], [_moves(moved)]
    else:
        words, status = ENDS[state.state]
        where = ", ".join(state.hosts) or state.run
        title, subject = "Plan carried out", f"{where}: {words}; {count_text(len(moved), 'instance')} moved"
        columns: Columns = {"Instance": "instance", "State": "vm_state", "Stays on": "host", "Why": "why"}
        stays = table(state.stays, columns, "Instances that stay")
        lines, tables = [*_sayings(state)], [stays, _moves([*state.left, *state.moves])]
    head = Head(title, subject, BAD if status else GOOD, sayings=[*map(Saying, lines)])
    return Shown(state, head, tables, status=status)


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


def undo(nova: NovaApi, read: Read, journal: RunJournal) -> RunState:
    """Enable the hosts that a run disabled, and return what it had moved. Nothing is moved.

    A host that was not disabled by the run, or was disabled again for another reason, is left as it is. The
    state is kept if there is such a host, or a move that is still open.
    """
    state = journal.state
    # of an aggregate that has changed: also former ones
    hosts = dict.fromkeys([*state.hosts, *state.disabled])
    services = [_enabled(host, nova, read, state) for host in hosts]
    state.state = Ending.UNDONE
    if state.open:
        journal.save()
    elif all(one.enabled for one in services):
        journal.path.unlink(missing_ok=True)
    state.services = services
    return state


def _enabled(host: str, nova: NovaApi, read: Read, state: RunState) -> Enabled:
    service = read(nova.service, host)
    if service is None:
        return Enabled(host, False, "nova has no nova-compute on it")
    if service.status == "enabled":
        return Enabled(host, True, "it was enabled already")
    if host not in state.disabled or state.disabled[host] != service.disabled_reason:
        reason = service.disabled_reason or "none"
        return Enabled(host, False, f"it is disabled for another reason: {reason}")
    try:
        nova.enable(service)
    except ApiError as error:
        return Enabled(host, False, str(error))
    return Enabled(host, True, None if service.state == "up" else "but it is down")
