"""Carrying a plan out: which move is next, and what is done when something differs."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from scheduler.errors import BerthError
from scheduler.logs import count_text, sanitize
from scheduler.operators.plan.command import ProgressLine
from scheduler.operators.run.journal import OPEN, Ending, JournalUnusable, MoveState, RunJournal, RunStep
from scheduler.operators.run.nova_api import ApiError, NovaApi, NovaService, PlacementView
from scheduler.operators.run.one_move import Clocks, OneMove, Reader, RunLimits, Surprise
from scheduler.operators.run.plans import Planner, Round, Stay
from scheduler.operators.run.report import RunReport

#: Requests for a move that nova refuses before the instance is left where it is.
MOST_TRIES = 2

#: Plans of one run.
MOST_PLANS = 50


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


class Runner:
    """One run, in one thread."""

    def __init__(
        self,
        nova: NovaApi,
        placement: PlacementView,
        planner: Planner,
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
        self._planner = planner
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
        self._nodes: dict[str, list[str]] = {}

    def run(self, plan: Round, reason: str, *, evacuate: bool = False, kind: str = "drain") -> RunReport:
        """Carry out a plan, or what is left of it.

        Args:
            reason: Why hosts are disabled, for nova's API.
            evacuate: Whether the hosts are down.

        Raises:
            NotBegun: A service is not as it has to be, or cannot be read.
            JournalUnusable: The state cannot be written.
        """
        services = [self._service(host, evacuate=evacuate) for host in plan.hosts]
        self._journal.write("begin", hosts=plan.hosts, evacuate=evacuate)
        self._nodes = plan.nodes
        why, held = "", dict[str, list[str]]()
        try:
            if self._finish_open():
                plan = self._planner.plan(self._moved)
            self._disable(services, reason)
            self._rounds(plan)
            held = {} if evacuate else self._held(plan.hosts)
            state = Ending.DONE if not self._stays and not held else Ending.STAY
        except Halted:
            state = Ending.INTERRUPTED
        except KeyboardInterrupt:
            state, why = Ending.INTERRUPTED, "interrupted while moves were open"
        except BerthError as error:
            state, why = Ending.STOPPED, str(error)
        try:
            self._journal.write("end", state=state, why=why)
        except JournalUnusable as error:
            state, why = Ending.STOPPED, why or str(error)
        left = [step for step in self._waiting if step.state == MoveState.WAITING]
        report = RunReport.of(kind, state, self._journal, left)
        report.why, report.stays, report.held_in_placement = why or None, list(self._stays), held
        return report

    @property
    def _moved(self) -> int:
        return sum(step.state == MoveState.MOVED for step in self._journal.history.steps.values())

    # -- before the first move -------------------------------------------------------------------------------

    def _service(self, host: str, *, evacuate: bool) -> NovaService:
        try:
            service = self._reader.read(self._nova.service, host)
        except Surprise as error:
            raise NotBegun(str(error)) from error
        if service is None:
            raise NotBegun(f"Nova has no nova-compute on host {host}")
        if evacuate and service.up:
            raise NotBegun(
                f"Host {host} is up, and nova evacuates only hosts that are down. Make sure that it runs no "
                f"guests any more, then: openstack compute service set --down {host} nova-compute"
            )
        if not evacuate and not service.up:
            raise NotBegun(f"Host {host} is down: nothing can be moved off it. To evacuate it: --evacuate")
        return service

    def _disable(self, services: Sequence[NovaService], reason: str) -> None:
        for service in services:
            if not service.enabled:
                if service.reason != self._journal.history.disabled.get(service.host):
                    self._display.line(f"{service.host} is disabled already: {service.reason or 'no reason'}")
                continue
            self._journal.write("disable", host=service.host, reason=reason)
            try:
                self._nova.disable(service, reason)
            except ApiError as error:
                raise Surprise(f"Cannot disable host {service.host}: {error}") from error
            self._display.line(f"disabled {service.host}: {reason}")

    def _finish_open(self) -> bool:
        """Follow the moves of an earlier run to their end; return whether there were moves of one."""
        history = self._journal.history
        if not history.steps:
            return False
        self._display.line(
            f"continuing the run of {history.begun_at}: {self._moved} moved, "
            f"{count_text(len(history.open), 'open move')}"
        )
        self._follow([], history.open)
        return True

    # -- moves -----------------------------------------------------------------------------------------------

    def _rounds(self, plan: Round) -> None:
        """Carry out plans until one has no move left.

        Raises:
            Surprise: The run has to stop.
            Halted: The operator wants it.
        """
        for _ in range(MOST_PLANS):
            self._nodes = plan.nodes
            steps = self._to_do(plan)
            if steps:
                differs = self._follow(steps, [])
                if not differs and not self._planner.repeats:
                    return
            elif not self._wait_for_busy(plan):
                return
            self._check()
            plan = self._planner.plan(self._moved)
        raise Surprise(f"The cloud changed under {MOST_PLANS} plans in a row")

    def _to_do(self, plan: Round) -> list[RunStep]:
        """Return the moves of a plan but those that nova refuses, and note what stays."""
        steps, self._stays = [], list(plan.stays)
        for step in plan.steps:
            before = self._journal.history.steps.get(step.instance)
            if before is not None and before.state == MoveState.REFUSED:
                step.tries, step.name = before.tries, before.name
            if step.tries < MOST_TRIES:
                steps.append(step)
            else:
                why = before.why if before else ""
                self._stays.append(Stay(step.instance, step.source, step.vm_state, why))
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
                if server is None or (not server.task and server.vm_state != "building"):
                    return True
        return False

    def _follow(self, steps: Sequence[RunStep], open_: Sequence[RunStep]) -> bool:
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
                differs = differs or bool(text) or step.state == MoveState.REFUSED
                if step.state in OPEN:
                    running.append(step)
                elif step.state != MoveState.WAITING:
                    self._show(step)
            self._waiting = waiting
            if running:
                self._timing.sleep(self._limits.poll)
            for step in list(running):
                problem = self._look(step, running) or problem
                differs = differs or step.state == MoveState.REFUSED
            self._display.progress(self._moved, self._moved + len(running) + len(waiting))
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

    def _look(self, step: RunStep, running: list[RunStep]) -> str:
        """Look at an open move, and drop it from those that run when it has ended; return the surprise."""
        late = self._one.is_late(step)
        self._one.look(step)
        if step.state not in OPEN:
            running.remove(step)
            self._show(step)
            return f"{step.label}: {step.why}" if step.state == MoveState.FAILED else ""
        if late:
            running.remove(step)
            return f"{step.label} has not been moved within {self._limits.move:g} s; nova goes on with it"
        return ""

    def _next(self, waiting: Sequence[RunStep], running: Sequence[RunStep]) -> RunStep | None:
        """Return the next move that may begin now; None if one has to end first."""
        if len(running) >= self._limits.parallel:
            return None
        hosts = Counter(host for step in running for host in (step.source, step.target))
        unfinished = {step.instance for step in running}
        for step in waiting:
            free = max(hosts[step.source], hosts[step.target]) < self._limits.per_host
            if free and unfinished.isdisjoint(step.after):
                return step
            unfinished.add(step.instance)
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

    def _show(self, step: RunStep) -> None:
        way = f"{step.source} -> {step.target}, {step.way}"
        if step.state == MoveState.MOVED:
            seconds = step.ended_at - step.requested_at
            self._display.line(f"moved {step.label}: {way}, {seconds:.0f} s")
        elif step.state == MoveState.GONE:
            self._display.line(f"left out {step.label}: {step.why}")
        else:
            self._display.line(f"{step.state} {step.label}: {way}: {step.why}")

    def _held(self, hosts: Sequence[str]) -> dict[str, list[str]]:
        """Return what holds something of the hosts in Placement, once that changes no more."""
        stay = {one.instance for one in self._stays}
        until = self._timing.clock() + self._limits.agree
        while True:
            found = {
                host: sorted(
                    self._reader.read(self._placement.consumers_of, self._nodes.get(host, ())) - stay
                )
                for host in hosts
            }
            found = {host: consumers for host, consumers in found.items() if consumers}
            if not found or self._timing.clock() >= until:
                return found
            self._check()
            self._timing.sleep(self._limits.poll)
