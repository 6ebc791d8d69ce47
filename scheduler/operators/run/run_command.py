"""``--run``: the arguments, and a run from its begin to its end."""

import argparse
from collections.abc import Callable, Iterator
import contextlib
import getpass
import hashlib
import os
from pathlib import Path
import re
import signal
import threading

from scheduler import conf as options
from scheduler.operators.app import positive_integer, positive_number
from scheduler.operators.plan.command import NO_PLACE, SEVERAL, PlanCommand, WrongArgument, quiet
from scheduler.operators.plan.moves import MovesPlan
from scheduler.operators.run import nova_api, report
from scheduler.operators.run.journal import Ending, RunJournal, this_process
from scheduler.operators.run.nova_api import PlacementView
from scheduler.operators.run.one_move import Clocks, Reader, RunLimits
from scheduler.operators.run.runner import Round, Runner, Terminal, plan_of
from scheduler.operators.shown.shown import Shown
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

#: Exit statuses of runs.
STATUSES = {Ending.DONE: 0, Ending.STAY: NO_PLACE, Ending.STOPPED: 4, Ending.INTERRUPTED: 5}

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
        f"stop if a move takes longer (default: {RunLimits.move:g})",
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

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, moved: int = 0) -> MovesPlan:
        """Return the plan of what is left after so many moves."""
        raise NotImplementedError

    def show(self, args: argparse.Namespace) -> Shown:
        if getattr(args, "undo", False):
            return self._undo(args)
        if not args.run:
            self._check_planning(args)
            return super().show(args)
        options.require_databases(self.conf)
        return self._carry_out(args)

    def _check_planning(self, args: argparse.Namespace) -> None:
        names = *(name for name, *_ in ARGUMENTS), "reason"
        for name in names:
            if getattr(args, name.replace("-", "_"), None) is not None:
                raise WrongArgument(f"--{name} needs --run")

    def _carry_out(self, args: argparse.Namespace) -> Shown:
        terminal = Terminal(self.app.stderr)

        def plan(moved: int) -> Round:
            with snapshot.read(self.conf, terminal.bar) as read:
                cloud = PlannedCloud(read)
                return plan_of(cloud, self.plan(cloud, args, moved))

        nova = nova_api.connect(args.os_cloud)
        with (
            quiet(self.app.options.verbose_level < 2),
            RunJournal(self._state_file(args)) as journal,
            contextlib.closing(terminal),
            halting() as is_halted,
        ):
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
        return report.shown(found, STATUSES[found.state])

    def _undo(self, args: argparse.Namespace) -> Shown:
        path = self._state_file(args)
        if not path.exists():
            raise WrongArgument(f"There is no run to undo: {path} does not exist")
        nova = nova_api.connect(args.os_cloud)
        with RunJournal(path) as journal:
            if not journal.state.hosts:
                raise WrongArgument(f"There is no run to undo in {path}")
            found = report.undo(nova, Reader(RunLimits(), self.timing), journal)
        return report.shown(found, 0 if all(one.enabled for one in found.services or ()) else NO_PLACE)

    def _state_file(self, args: argparse.Namespace) -> Path:
        if args.state:
            return Path(args.state)
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        named = [f"{kind}={name}" for kind in SEVERAL for name in getattr(args, kind, ())]
        words = "_".join((str(self.cmd_name), *sorted([*getattr(args, "host", ()), *named])))
        name = re.sub(r"[^\w.+-]", "-", words)
        if len(name) > NAME or name != words:
            name = f"{name[:NAME]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
        return Path(base) / "berth" / f"{name}.json"


def _limits(args: argparse.Namespace) -> RunLimits:
    per_host = args.parallel_per_host or args.parallel
    given = {
        "parallel": args.parallel,
        "per_host": per_host,
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
