"""A move from its request to its end: each look at the instance decides what is next."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import math
import time
from typing import Any

from scheduler.errors import BerthError, DependencyUnavailable
from scheduler.operators.plan.movable import COLD, EVACUATE
from scheduler.operators.run.journal import MoveState, RunJournal, RunMove, moment
from scheduler.operators.run.nova_api import Action, NotAllowed, NovaApi, PlacementView, Refused, Unanswered
from scheduler.operators.snapshot.snapshot import CloudUnreadable
from scheduler.placement.errors import PlacementAuthFailure, PlacementError

#: Seconds by which nova's clock may differ from ours.
SKEW = 120.0

#: Why an instance is not moved that nova's databases may still have.
NOT_IN_NOVA = "nova's API has no such instance"


@dataclass
class RunStep:
    """A move of a plan.

    Attributes:
        vm_state: The state of the instance for which the way was chosen.
        reset_state: Whether its state is reset to ``error`` first, so that nova evacuates it.
        after: Instances that have to be moved before, if they are moved.
    """

    move: RunMove
    vm_state: str
    reset_state: bool = False
    after: Sequence[str] = ()


class Surprise(BerthError):
    """Something happened that no plan expects: nothing more is begun."""


@dataclass(frozen=True)
class RunLimits:
    """What bounds a run; times in seconds.

    Attributes:
        parallel: Moves at the same time.
        per_host: Moves at the same time off one host, or to one host.
        move: Until a move is left to nova.
        total: Until the run has ended.
        poll: Between two looks.
        grace: Until a request without an answer counts as not received.
        agree: From the end of a task until Placement has the instance on its new host, or nova has a reason.
        silence: How long nova, its databases or Placement may be unavailable.
        busy: How long instances are waited for that nova is still working on.
    """

    parallel: int = 1
    per_host: int = 1
    move: float = 3600.0
    total: float = 8 * 3600.0
    poll: float = 2.0
    grace: float = 90.0
    agree: float = 60.0
    silence: float = 300.0
    busy: float = 600.0


@dataclass(frozen=True)
class Clocks:
    """Where time comes from."""

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


Read = Callable[..., Any]
"""Returns the answer of a call that changes nothing, given with its arguments; raises Surprise."""


def patient(limits: RunLimits, timing: Clocks) -> Read:
    """Return what reads from nova and Placement, and waits out their outages for some time."""

    def read(call: Callable[..., Any], *arguments: Any) -> Any:
        until = timing.clock() + limits.silence
        while True:
            try:
                return call(*arguments)
            except (Refused, NotAllowed, PlacementAuthFailure) as error:
                raise Surprise(f"Cannot read from nova or Placement: {error}") from error
            except (Unanswered, PlacementError, CloudUnreadable, DependencyUnavailable) as error:
                if timing.clock() >= until:
                    waited = f"for {limits.silence:g} s"
                    raise Surprise(f"Nova or Placement is unavailable {waited}: {error}") from error
            timing.sleep(limits.poll)

    return read


@dataclass
class _Watched:
    """What this process has seen of a move since it was requested.

    Attributes:
        answered: Whether nova has accepted the request.
        late_at: When it has taken longer than it may; None before the first look.
        confirmed_at: When it was last confirmed.
        doubted_at: When its task had ended, but neither allocations nor a reason were as they have to be.
    """

    answered: bool = False
    late_at: float | None = None
    confirmed_at: float = -math.inf
    doubted_at: float | None = None


class OneMove:
    """Begins moves, and looks at those that are open. A request is in the journal first.

    Attributes:
        nodes: The providers of each host.
        dead: Whether the hosts that instances leave are down: then only evacuations go on.
        surprise: What the run has to stop for; "" for nothing.
    """

    def __init__(
        self, nova: NovaApi, placement: PlacementView, journal: RunJournal, limits: RunLimits, timing: Clocks
    ) -> None:
        self._nova = nova
        self._placement = placement
        self._journal = journal
        self._limits = limits
        self._timing = timing
        self._read = patient(limits, timing)
        self._seen: defaultdict[str, _Watched] = defaultdict(_Watched)
        self.nodes: Mapping[str, Sequence[str]] = {}
        self.dead = False
        self.surprise = ""

    def begin(self, step: RunStep) -> None:
        """Request a move; if the instance is not as planned, the move has ended instead.

        Raises:
            Surprise: The API does not answer.
        """
        move = step.move
        server = self._read(self._nova.server, move.instance)
        move.tries += 1
        if server is None:
            self._end(move, MoveState.GONE, NOT_IN_NOVA)
            return
        move.name, move.project = server.name, server.project_id
        if server.compute_host != move.source:
            self._end(move, MoveState.GONE, f"it is on host {server.compute_host or 'none'} by now")
        elif server.task_state and move.way != EVACUATE:
            self._end(move, MoveState.REFUSED, f"it has the task state {server.task_state} by now")
        elif server.vm_state != step.vm_state:
            self._end(move, MoveState.REFUSED, f"it is {server.vm_state} by now, not {step.vm_state}")
        else:
            self._request(move, reset_state=step.reset_state)

    def _request(self, move: RunMove, *, reset_state: bool) -> None:
        move.state, move.why = MoveState.REQUESTED, None
        move.requested_at = moment(self._timing.wall_clock())
        self._journal.save_move(move)
        seen = self._seen[move.instance] = _Watched()
        try:
            if reset_state:
                self._nova.reset_state(move.instance)
            self._nova.move(move.instance, move.way, move.to)
            seen.answered = True
        except Refused as error:
            self._end(move, MoveState.REFUSED, str(error))
        except NotAllowed as error:
            self._end(move, MoveState.REFUSED, str(error))
            self.surprise = f"Nova does not let these credentials move {move.label}: {error}"
        except Unanswered:
            pass  # the next looks show whether it was carried out

    def look(self, move: RunMove) -> bool:
        """Look at an open move and do what is next; return whether to look again. Raises as ``begin``."""
        now, seen = self._timing.clock(), self._seen[move.instance]
        if seen.late_at is None:
            seen.late_at = now + self._limits.move
        server = self._read(self._nova.server, move.instance)
        if server is None:
            self._end(move, MoveState.GONE, NOT_IN_NOVA)
        elif self.dead and move.way != EVACUATE and server.compute_host == move.source:
            self._end(move, MoveState.FAILED, f"{move.source} is down")
        elif server.task_state:
            seen.doubted_at = None
        elif server.compute_host == move.to:
            self._arrived(move, server)
        elif server.compute_host != move.source:
            planned = f"neither {move.source} nor {move.to}"
            self._lose(move, f"it is on host {server.compute_host or 'none'}, {planned}")
        else:
            self._still_there(move, server)
        # what was left to nova before is not waited for again
        if move.is_open and (now >= seen.late_at or (move.why and server.task_state)):
            move.why = move.why or f"not moved within {self._limits.move:g} s; nova goes on with it"
            self._journal.save_move(move)
            return False
        return move.is_open

    # -- on the new host -------------------------------------------------------------------------------------

    def _arrived(self, move: RunMove, server: Any) -> None:
        if server.vm_state == "error":
            self._lose(move, f"it is in error on {move.to}: {_fault(server) or 'no reason is known'}")
        elif server.vm_state == "resized":
            self._confirm(move)
        elif differs := self._differs_in_placement(move):
            if not self._may_change(move):
                self._lose(move, differs)
        else:
            self._end(move, MoveState.MOVED, "")

    def _confirm(self, move: RunMove) -> None:
        """Confirm a cold migration, at most once in the time that an answer may take."""
        now, seen = self._timing.clock(), self._seen[move.instance]
        if now < seen.confirmed_at + self._limits.grace:
            return
        action = self._read(self._nova.latest_action, move.instance)
        if move.way != COLD or action is None or not self._is_ours(move, action):
            self._lose(move, "it has an unconfirmed resize that is not of this run")
            return
        seen.confirmed_at = now
        try:
            self._nova.confirm(move.instance)
        except (Refused, Unanswered):
            pass  # nova may have confirmed it by itself; the next looks show it
        except NotAllowed as error:
            self.surprise = move.why = f"Nova does not let these credentials confirm {move.label}: {error}"
            seen.late_at = now  # it stays open for a command with the rights

    def _is_ours(self, move: RunMove, action: Action) -> bool:
        """Return whether what waits for its confirmation is the migration of this run.

        A user may have confirmed that one, and resized the instance since, or migrated it again.
        """
        if action.name == "confirmResize":
            return True  # nothing else waits, and a confirmation that got lost is asked for again
        latest = move.requested + self._limits.grace + SKEW
        return action.name == "migrate" and action.started_at <= latest

    def _differs_in_placement(self, move: RunMove) -> str:
        held = self._read(self._placement.providers_of, move.instance)
        if held.isdisjoint(self.nodes.get(move.to, ())):
            return f"Placement has nothing of it on {move.to}"
        # the allocations on a dead host stay until its compute starts again
        if move.way != EVACUATE and not held.isdisjoint(self.nodes.get(move.source, ())):
            return f"Placement still has it on {move.source}"
        return ""

    # -- on the old host -------------------------------------------------------------------------------------

    def _still_there(self, move: RunMove, server: Any) -> None:
        seen = self._seen[move.instance]
        if not seen.answered and self._timing.wall_clock() < move.requested + self._limits.grace:
            return
        action = self._read(self._nova.latest_action, move.instance)
        if not seen.answered and (action is None or action.started_at < move.requested - SKEW):
            self._end(move, MoveState.REFUSED, "nova did not receive the request")
            return
        goes_on = action is not None and action.goes_on
        why = (action.error if action else "") or _fault(server)
        if goes_on and move.way == EVACUATE:
            return  # nova-compute sets the host of an evacuated instance after it has ended the task
        if (goes_on or not why) and self._may_change(move):
            return  # nova notes the reason after the task has ended; a restarted compute notes nothing
        why = why or "nova gives no reason"
        if server.vm_state == "error" and move.way != EVACUATE:
            self._lose(move, f"it is in error on {move.source}: {why}")
        else:
            self._end(move, MoveState.FAILED, why)

    def _may_change(self, move: RunMove) -> bool:
        """Return whether what differs was not seen for long."""
        now, seen = self._timing.clock(), self._seen[move.instance]
        if seen.doubted_at is None:
            seen.doubted_at = now
        return now < seen.doubted_at + self._limits.agree

    def _lose(self, move: RunMove, why: str) -> None:
        """End a move whose instance is in error, or not where it should be: the run has to stop."""
        self._end(move, MoveState.FAILED, why)
        self.surprise = f"{move.label}: {why}"

    def _end(self, move: RunMove, state: MoveState, why: str) -> None:
        move.end(state, why, self._timing.wall_clock())
        self._journal.save_move(move)


def _fault(server: Any) -> str:
    return (server.fault or {}).get("message", "")
