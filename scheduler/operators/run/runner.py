"""Carrying a plan out: which move is next, and what is done when something differs."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.errors import BerthError
from scheduler.logs import count_text, sanitize
from scheduler.operators.plan.command import ProgressLine
from scheduler.operators.plan.moves import MovesPlan
from scheduler.operators.run.journal import (
    Ending,
    JournalUnusable,
    MoveState,
    RunJournal,
    RunMove,
    RunState,
    Stay,
)
from scheduler.operators.run.nova_api import ApiError, NovaApi, PlacementView
from scheduler.operators.run.one_move import Clocks, OneMove, Reader, RunLimits, RunStep, Surprise
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

#: Requests for a move that nova refuses before the instance is left where it is.
MOST_TRIES = 2

#: Plans of one run.
MOST_PLANS = 50


#: Makes a plan for what is left after so many moves, from the cloud as it is then; raises BerthError.
MakeRound = Callable[[int], "Round"]


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
    left = found.without_place
    stays = [Stay(one.instance, one.source, one.state, one.why) for one in left]
    busy = [one.instance for one in left if one.task_state or one.state == "building"]
    return Round(found.hosts, steps, stays, busy, nodes)


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


class NotBegun(BerthError):
    """A run cannot begin: nothing was changed."""


class Halted(BerthError):
    """The operator wants the run to end."""


class Terminal:
    """Lines and the progress bar on standard error."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.bar = ProgressLine(stream)

    def line(self, text: str) -> None:
        self.bar.clear()
        self._stream.write(f"{sanitize(text)}\n")
        self._stream.flush()

    def progress(self, done: int, total: int) -> None:
        self.bar("instances moved", done, total)

    def close(self) -> None:
        self.bar.clear()


class Runner:
    """One run, in one thread."""

    def __init__(
        self,
        nova: NovaApi,
        placement: PlacementView,
        plan: MakeRound,
        journal: RunJournal,
        *,
        limits: RunLimits,
        display: Terminal,
        is_halted: Callable[[], bool] = lambda: False,
        timing: Clocks | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            is_halted: Whether the operator wants no further move to begin.
        """
        self._timing = timing or Clocks()
        self._nova = nova
        self._placement = placement
        self._plan = plan
        self._journal = journal
        self._limits = limits
        self._display = display
        self._halt_wanted = is_halted
        self._halt_shown = False
        self._reader = Reader(limits, self._timing)
        self._one = OneMove(nova, placement, journal, limits, self._timing)
        self._until = self._timing.clock() + limits.total
        self._busy_until: float | None = None
        self._waiting: list[RunStep] = []
        self._stays: list[Stay] = []

    def run(
        self, reason: str, *, kind: str = "drain", evacuate: bool = False, repeats: bool = True
    ) -> RunState:
        """Plan, and carry out the plan.

        Args:
            reason: Why hosts are disabled, for nova's API.
            evacuate: Whether the hosts are down.
            repeats: Whether to plan again afterwards, until no move is left.

        Raises:
            BerthError: The cloud cannot be read.
            NotBegun: A service is not as it has to be, or cannot be read.
            JournalUnusable: The state cannot be written.
        """
        plan = self._plan(0)
        services = [self._service(host, evacuate=evacuate) for host in plan.hosts]
        self._journal.state.begin(kind, list(plan.hosts), self._timing.wall_clock())
        self._journal.save()
        self._one.nodes = plan.nodes
        why, held = "", dict[str, list[str]]()
        try:
            if self._finish_open():
                plan = self._plan(self._journal.state.moved)
            self._check()
            self._disable(services, reason)
            self._rounds(plan, repeats=repeats)
            held = {} if evacuate else self._held(plan.hosts)
            ending = Ending.DONE if not self._stays and not held else Ending.STAY
        except Halted:
            ending = Ending.INTERRUPTED
        except KeyboardInterrupt:
            ending, why = Ending.INTERRUPTED, "interrupted while moves were open"
        except BerthError as error:
            ending, why = Ending.STOPPED, str(error)
        self._end(ending, why, held)
        try:
            self._journal.save()
        except JournalUnusable as error:
            self._end(Ending.STOPPED, why or str(error), held)
        return self._journal.state

    def _end(self, ending: Ending, why: str, held: dict[str, list[str]]) -> None:
        state = self._journal.state  # which is another one after a failed write
        state.state, state.why, state.held_in_placement = ending, why or None, held
        state.left = [step.move for step in self._waiting if step.move.state == MoveState.WAITING]
        state.stays = list(self._stays)

    # -- before the first move -------------------------------------------------------------------------------

    def _service(self, host: str, *, evacuate: bool) -> Any:
        try:
            service = self._reader.read(self._nova.service, host)
        except Surprise as error:
            raise NotBegun(str(error)) from error
        if service is None:
            raise NotBegun(f"Nova has no nova-compute on host {host}")
        is_up = service.state == "up"
        if evacuate and is_up:
            raise NotBegun(
                f"Host {host} is up, and nova evacuates only hosts that are down. Make sure that it runs no "
                f"guests any more, then: openstack compute service set --down {host} nova-compute"
            )
        if not evacuate and not is_up:
            raise NotBegun(f"Host {host} is down: nothing can be moved off it. To evacuate it: --evacuate")
        return service

    def _disable(self, services: Sequence[Any], reason: str) -> None:
        for service in services:
            if service.status != "enabled":
                known = service.disabled_reason
                if known != self._journal.state.disabled.get(service.host):
                    self._display.line(f"{service.host} is disabled already: {known or 'no reason'}")
                continue
            self._journal.state.disabled[service.host] = reason
            self._journal.save()
            try:
                self._nova.disable(service, reason)
            except ApiError as error:
                raise Surprise(f"Cannot disable host {service.host}: {error}") from error
            self._display.line(f"disabled {service.host}: {reason}")

    def _finish_open(self) -> bool:
        """Follow the moves of an earlier run to their end; return whether there were moves of one."""
        state = self._journal.state
        if not state.moves:
            return False
        open_ = count_text(len(state.open), "open move")
        self._display.line(f"continuing the run of {state.begun_at}: {state.moved} moved, {open_}")
        self._follow([], state.open)
        return True

    # -- moves -----------------------------------------------------------------------------------------------

    def _rounds(self, plan: Round, *, repeats: bool) -> None:
        """Carry out plans until one has no move left.

        Raises:
            Surprise: The run has to stop.
            Halted: The operator wants it.
        """
        for _ in range(MOST_PLANS):
            self._one.nodes = plan.nodes
            steps = self._to_do(plan)
            if steps:
                differs = self._follow(steps, [])
                if not differs and not repeats:
                    return
            elif not self._wait_for_busy(plan):
                return
            self._check()
            plan = self._plan(self._journal.state.moved)
        raise Surprise(f"The cloud changed under {MOST_PLANS} plans in a row")

    def _to_do(self, plan: Round) -> list[RunStep]:
        """Return the moves of a plan but those that nova refuses, and note what stays."""
        steps, self._stays = [], list(plan.stays)
        refused = {one.instance: one for one in self._journal.state.moves if one.state == MoveState.REFUSED}
        for step in plan.steps:
            move = step.move
            if before := refused.get(move.instance):
                move.tries, move.name = before.tries, before.name
            if before and move.tries >= MOST_TRIES:
                self._stays.append(Stay(move.instance, move.source, step.vm_state, before.why or ""))
            else:
                steps.append(step)
        self._waiting = steps
        return steps

    def _wait_for_busy(self, plan: Round) -> bool:
        """Wait until nova has ended what it does with one of the instances that stay for it.

        Returns:
            Whether a new plan may have moves for them.
        """
        busy, now = plan.busy, self._timing.clock()
        if not busy:
            return False
        if self._busy_until is None:
            self._busy_until = now + self._limits.busy
            self._display.line(f"waiting for {count_text(len(busy), 'instance')} that nova is working on")
        while self._timing.clock() < self._busy_until:
            self._check()
            self._timing.sleep(self._limits.poll)
            for instance in busy:
                server = self._reader.read(self._nova.server, instance)
                if server is None or (not server.task_state and server.vm_state != "building"):
                    return True
        return False

    def _follow(self, steps: Sequence[RunStep], open_: Sequence[RunMove]) -> bool:
        """Begin moves in their order, and follow them and the open ones to their ends.

        Returns:
            Whether something differs from the plan.
        """
        waiting, running = list(steps), list(open_)
        problem, differs = "", False
        while running or (waiting and not problem and not differs and not self._is_halted()):
            self._check_time()
            while not problem and not differs and not self._is_halted():
                step = self._next(waiting, running)
                if step is None:
                    break
                waiting.remove(step)
                text, problem = self._begin(step)
                move = step.move
                differs = differs or bool(text) or move.state == MoveState.REFUSED
                if move.is_open:
                    running.append(move)
                elif move.state != MoveState.WAITING:
                    self._show(move)
            self._waiting = waiting
            if running:
                self._timing.sleep(self._limits.poll)
            for move in list(running):
                problem = self._look(move, running) or problem
                differs = differs or move.state == MoveState.REFUSED
            moved = self._journal.state.moved
            self._display.progress(moved, moved + len(running) + len(waiting))
        if problem:
            raise Surprise(problem)
        self._check()
        return differs

    def _begin(self, step: RunStep) -> tuple[str, str]:
        """Begin a move; return what differs from the plan, and the surprise."""
        try:
            text = self._one.begin(step)
        except Surprise as error:
            return "", str(error)
        if text:
            self._display.line(f"planning again: {text}")
        return text, ""

    def _look(self, move: RunMove, running: list[RunMove]) -> str:
        """Look at an open move, and drop it from those that run when it has ended; return the surprise."""
        late = self._one.is_late(move)
        self._one.look(move)
        if not move.is_open:
            running.remove(move)
            self._show(move)
            return f"{move.label}: {move.why}" if move.state == MoveState.FAILED else ""
        if late:
            running.remove(move)
            return f"{move.label} has not been moved within {self._limits.move:g} s; nova goes on with it"
        return ""

    def _next(self, waiting: Sequence[RunStep], running: Sequence[RunMove]) -> RunStep | None:
        """Return the next move that may begin now; None if one has to end first."""
        if len(running) >= self._limits.parallel:
            return None
        hosts = Counter(host for move in running for host in (move.source, move.to))
        unfinished = {move.instance for move in running}
        for step in waiting:
            free = max(hosts[step.move.source], hosts[step.move.to]) < self._limits.per_host
            if free and unfinished.isdisjoint(step.after):
                return step
            unfinished.add(step.move.instance)
        return None

    def _is_halted(self) -> bool:
        wanted = self._halt_wanted()
        if wanted and not self._halt_shown:
            self._halt_shown = True
            self._display.line(
                "no further move begins; waiting for the open ones (again: leave them to nova)"
            )
        return wanted

    def _check(self) -> None:
        self._check_time()
        if self._is_halted():
            raise Halted

    def _check_time(self) -> None:
        if self._timing.clock() >= self._until:
            raise Surprise(f"The run has taken {self._limits.total:g} s in all")

    # -- what is shown ---------------------------------------------------------------------------------------

    def _show(self, move: RunMove) -> None:
        way = f"{move.source} -> {move.to}, {move.way}"
        if move.state == MoveState.MOVED:
            self._display.line(f"moved {move.label}: {way}, {move.seconds:.0f} s")
        elif move.state == MoveState.GONE:
            self._display.line(f"left out {move.label}: {move.why}")
        else:
            self._display.line(f"{move.state} {move.label}: {way}: {move.why}")

    def _held(self, hosts: Sequence[str]) -> dict[str, list[str]]:
        """Return what holds something of the hosts in Placement, once that changes no more."""
        stay = {one.instance for one in self._stays}
        until = self._timing.clock() + self._limits.agree
        while True:
            found = {
                host: sorted(
                    self._reader.read(self._placement.consumers_of, self._one.nodes.get(host, ())) - stay
                )
                for host in hosts
            }
            found = {host: consumers for host, consumers in found.items() if consumers}
            if not found or self._timing.clock() >= until:
                return found
            self._check()
            self._timing.sleep(self._limits.poll)
