"""Carrying plans out, in rounds.

A round begins the moves of one plan in their order, and follows them to their ends, with those that were
open before. A move that fails holds up only those that need it; one that takes too long is left open. Then
the rest is planned again: each round moves an instance or uses up one of its tries, so rounds come to an end.
Only a surprise stops a run earlier: an instance is in error or not where it should be, or no reads succeed.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import logging
from typing import Any

from scheduler.errors import BerthError
from scheduler.logs import count_text, sanitize
from scheduler.operators.plan.command import ProgressLine
from scheduler.operators.plan.moves import MovesPlan
from scheduler.operators.run.journal import (
    NOTHING,
    Ending,
    JournalUnusable,
    MoveState,
    RunJournal,
    RunMove,
    RunState,
    Stay,
)
from scheduler.operators.run.nova_api import ApiError, NovaApi, PlacementView
from scheduler.operators.run.one_move import Clocks, OneMove, RunLimits, RunStep, Surprise, patient
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

LOG = logging.getLogger(f"nova.{__name__}")

#: Moves of an instance that do not come off before it is left where it is.
MOST_TRIES = 2


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


def _stay(step: RunStep) -> Stay:
    return Stay(step.move.instance, step.move.source, step.vm_state, step.move.why or "")


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
        plan: Callable[[RunState], Round],
        journal: RunJournal,
        *,
        limits: RunLimits,
        display: Terminal,
        is_halted: Callable[[], bool] = lambda: False,
        timing: Clocks | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            plan: Makes a plan for what a run has left, from the cloud as it is then; raises BerthError.
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
        self._read = patient(limits, self._timing)
        self._one = OneMove(nova, placement, journal, limits, self._timing)
        self._until = self._timing.clock() + limits.total
        self._busy_until: float | None = None
        self._absent = set[str]()
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
        """
        plan = self._plan(NOTHING)
        services = [self._service(host, evacuate=evacuate) for host in plan.hosts]
        self._journal.state.begin(kind, list(plan.hosts), self._timing.wall_clock())
        self._journal.save()
        self._one.nodes, self._one.dead = plan.nodes, evacuate
        why, held = "", dict[str, list[str]]()
        try:
            if self._journal.state.moves:
                plan = self._continued()
            if not self._one.surprise and not self._is_halted():  # otherwise only open moves are followed
                self._disable(services, reason)
            self._rounds(plan, repeats=repeats)
            held = {} if evacuate else self._held(plan.hosts)
            left = self._stays or held or self._journal.state.open
            ending = Ending.STAY if left else Ending.DONE
        except Halted:
            ending = Ending.INTERRUPTED
        except KeyboardInterrupt:
            ending, why = Ending.INTERRUPTED, "interrupted while moves were open"
        except BerthError as error:
            ending, why = Ending.STOPPED, str(error)
        except Exception as error:
            LOG.exception("The run stops at an unexpected error")
            ending, why = Ending.STOPPED, f"an unexpected error: {error!r}"
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
            service = self._read(self._nova.service, host)
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
                self._one.surprise = f"Cannot disable host {service.host}: {error}"
                return
            self._display.line(f"disabled {service.host}: {reason}")

    def _continued(self) -> Round:
        """Look once where the open moves of earlier commands are, and plan what is left."""
        state = self._journal.state
        open_ = count_text(len(state.open), "open move")
        self._display.line(f"continuing the run of {state.begun_at}: {state.moved} moved, {open_}")
        for move in state.open:
            if not self._one.look(move):
                self._show(move)
        return self._read(self._plan, state)

    # -- moves -----------------------------------------------------------------------------------------------

    def _rounds(self, plan: Round, *, repeats: bool) -> None:
        """Carry out plans until one has no move left."""
        while True:
            self._one.nodes = plan.nodes
            steps, before = self._to_do(plan), self._journal.state.open
            self._follow(list(steps), list(before))
            if not repeats:
                refused = self._journal.state.refused
                self._stays += [_stay(step) for step in steps if step.move.instance in refused]
                return
            if not steps and all(move.is_open for move in before) and not self._wait_for_busy(plan):
                return
            self._check()
            plan = self._read(self._plan, self._journal.state)

    def _to_do(self, plan: Round) -> list[RunStep]:
        """Return the moves of a plan but those that are open or were tried too often, and note what stays."""
        steps, self._stays = [], list(plan.stays)
        before = {one.instance: one for one in self._journal.state.moves if one.state != MoveState.MOVED}
        for step in plan.steps:
            move, last = step.move, before.get(step.move.instance)
            if last is not None:
                move.tries, move.name, move.why = last.tries, last.name, last.why
            if move.tries >= MOST_TRIES:
                self._stays.append(_stay(step))
            elif last is None or not last.is_open:
                steps.append(step)
        return steps

    def _wait_for_busy(self, plan: Round) -> bool:
        """Wait until nova has ended what it does with one of the instances that stay for it.

        Returns:
            Whether a new plan may have moves for them.
        """
        busy, now = [one for one in plan.busy if one not in self._absent], self._timing.clock()
        if not busy:
            return False
        if self._busy_until is None:
            self._busy_until = now + self._limits.busy
            self._display.line(f"waiting for {count_text(len(busy), 'instance')} that nova is working on")
        while self._timing.clock() < self._busy_until:
            self._check()
            self._timing.sleep(self._limits.poll)
            for instance in busy:
                server = self._read(self._nova.server, instance)
                if server is None:
                    self._absent.add(instance)  # the databases may have it for ever, and each plan
                if server is None or (not server.task_state and server.vm_state != "building"):
                    return True
        return False

    def _follow(self, steps: list[RunStep], running: list[RunMove]) -> None:
        """Begin moves in their order, and follow them and the open ones to their ends."""
        self._waiting = steps
        begun = {step.move.instance: step.move for step in steps}
        while True:
            self._check_time()
            while not self._one.surprise and not self._is_halted() and (step := self._next(begun, running)):
                self._one.begin(step)
                self._waiting.remove(step)
                if step.move.is_open:
                    running.append(step.move)
                else:
                    self._show(step.move)
            if not running:
                break
            self._timing.sleep(self._limits.poll)
            for move in list(running):
                shown = move.state, move.why
                if not self._one.look(move):
                    running.remove(move)
                    if shown != (move.state, move.why):  # each round looks again at what is left to nova
                        self._show(move)
            moved = self._journal.state.moved
            self._display.progress(moved, moved + len(running) + len(self._waiting))
        if self._one.surprise:
            raise Surprise(self._one.surprise)
        self._check()

    def _next(self, begun: Mapping[str, RunMove], running: Sequence[RunMove]) -> RunStep | None:
        """Return the next move that may begin now; None if others have to end first, or to be planned again.

        Open moves of earlier commands take no place: one that hangs would hold up all others.

        Args:
            begun: The moves of this round, by instance.
        """
        own = [move for move in running if move.instance in begun]
        if len(own) >= self._limits.parallel:
            return None
        hosts = Counter(host for move in own for host in (move.source, move.to))
        for step in self._waiting:
            free = max(hosts[step.move.source], hosts[step.move.to]) < self._limits.per_host
            before = (begun[instance].state for instance in step.after if instance in begun)
            if free and {MoveState.MOVED, MoveState.GONE}.issuperset(before):
                return step
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
        elif move.is_open:
            self._display.line(f"left to nova {move.label}: {way}: {move.why}")
        else:
            self._display.line(f"{move.state} {move.label}: {way}: {move.why}")

    def _held(self, hosts: Sequence[str]) -> dict[str, list[str]]:
        """Return what holds something of the hosts in Placement, once that changes no more."""
        stay = {one.instance for one in self._stays}
        until = self._timing.clock() + self._limits.agree
        while True:
            found = {
                host: sorted(self._read(self._placement.consumers_of, self._one.nodes.get(host, ())) - stay)
                for host in hosts
            }
            found = {host: consumers for host, consumers in found.items() if consumers}
            if not found or self._timing.clock() >= until:
                return found
            self._check()
            self._timing.sleep(self._limits.poll)
