"""Tasks, processes and a virtual clock.

A task is a greenlet: it runs until it blocks or reaches a step at which another may run. Which task runs
next is drawn from the seed, so one seed always gives one order. Time stands still while a task runs, and
moves to the next timer when no task is ready.

A process is a group of tasks. A killed process never runs again, and no cleanup code of it runs. A paused
process keeps its place: its timers fire, but its tasks wait until it is resumed.
"""

from collections.abc import Callable
import heapq
import itertools
import math
import random
from typing import Any, Self

import greenlet

#: Steps of tasks and of the clock in a history: ten times the most of 200 histories of all profiles.
MOST_STEPS = 350_000


class Stopped(BaseException):
    """Raised in the tasks that are left when a history is over, to end them."""


class Endless(Exception):
    """A history did not end within ``MOST_STEPS``."""

    def __init__(self) -> None:
        super().__init__(f"the history did not end within {MOST_STEPS} steps")


class Deadlock(Exception):
    """A call would block where no task can be switched."""


class Process:
    """A group of tasks that live and die together.

    Attributes:
        name: For the trace.
        pid: A number that no other process of the history has.
        alive: False after it exited or was killed.
        paused: Whether its tasks wait for ``Runtime.resume``.
        was_paused: Whether they ever did.
        stopping_since: When it was told to stop; infinity before.
        at_exit: Called without arguments when the process ends, in whatever way.
    """

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.alive = True
        self.paused = False
        self.was_paused = False
        self.stopping_since = math.inf
        self.at_exit: list[Callable[[], None]] = []
        self.tasks: set[Task] = set()
        self.held_back: list[Task] = []
        self.fuse: int | None = None
        self.on_fuse: Callable[[], None] | None = None
        self.thread_starts_fail = False

    def __repr__(self) -> str:
        return self.name


class Task:
    """A thread of control. ``done`` is true when its function has returned or raised."""

    def __init__(self, runtime: "Runtime", process: Process, name: str, function: Callable[[], None]) -> None:
        self.process = process
        self.name = name
        self.done = False
        self.woken = False
        self.blocked = False
        self.timer: Timer | None = None
        self.waiters: list[Task] = []
        self.owner: Any = None
        self._runtime = runtime
        self._function = function
        self.greenlet = greenlet.greenlet(self._run, runtime.hub)

    def _run(self) -> None:
        try:
            self._function()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - noted, as at the end of a thread
            self._runtime.crashed(self.process, self.name, error)
        finally:
            self._runtime.finished(self)


class Timer:
    """Something due at a time; without a function it was cancelled."""

    __slots__ = ("args", "due", "function", "number")

    def __init__(self, due: float, number: int, function: Callable[..., None], args: tuple) -> None:
        self.due = due
        self.number = number
        self.function: Callable[..., None] | None = function
        self.args = args

    def __lt__(self, other: "Timer") -> bool:
        return (self.due, self.number) < (other.due, other.number)

    def cancel(self) -> None:
        """Let it not happen."""
        self.function = None


class Runtime:
    """Runs tasks in an order drawn from a seed. The virtual modules use the one that was entered."""

    active: "Runtime | None" = None

    def __init__(self, seed: object, preemption: float = 0.2) -> None:
        """Make a runtime at time 0.

        Args:
            seed: Of the order of tasks.
            preemption: The probability that another ready task is run at a step.
        """
        self.random = random.Random(f"schedule {seed}")
        self.chance = random.Random(f"product {seed}")
        self.clock = 0.0
        self.hub = greenlet.getcurrent()
        self.current: Task | None = None
        self.preemption = preemption
        self.closed = False
        self.steps = 0
        self.crashes: list[tuple[Process, str, BaseException]] = []
        self._ready: list[Task] = []
        self._timers: list[Timer] = []
        self._tasks: set[Task] = set()
        self._numbers = itertools.count(1)
        self._pids = itertools.count(1)

    def __enter__(self) -> Self:
        if Runtime.active is not None:
            raise RuntimeError("a simulation is running already")
        Runtime.active = self
        return self

    def __exit__(self, *_details: object) -> None:
        try:
            self.close()
        finally:
            Runtime.active = None

    # -- processes -------------------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """Return a new process without tasks."""
        return Process(name, next(self._pids))

    def kill(self, process: Process) -> None:
        """End a process at once: none of its tasks runs again, also not the caller if it is one of them."""
        if not process.alive:
            return
        process.alive = False
        for callback in process.at_exit:
            callback()
        if self.current is not None and self.current.process is process:
            self._switch()

    def pause(self, process: Process) -> None:
        """Stop a process as SIGSTOP does."""
        process.paused = process.was_paused = True
        if self.current is not None and self.current.process is process:
            self.ready(self.current)
            self._switch()

    def resume(self, process: Process) -> None:
        """Continue a process as SIGCONT does."""
        process.paused = False
        # A frozen process reads a signal once it resumes
        process.stopping_since = max(process.stopping_since, self.clock)
        held, process.held_back = process.held_back, []
        self._ready.extend(held)

    def light_fuse(self, process: Process, steps: int, action: Callable[[], None]) -> None:
        """Call ``action`` after some more steps of a process, in the task that takes the last of them."""
        process.fuse, process.on_fuse = steps, action

    # -- tasks -----------------------------------------------------------------------------------------------

    def spawn(self, process: Process, name: str, function: Callable[[], None]) -> Task:
        """Start a task; it runs when its turn comes."""
        task = Task(self, process, name, function)
        process.tasks.add(task)
        self._tasks.add(task)
        self._ready.append(task)
        return task

    def finished(self, task: Task) -> None:
        """Note that a task has ended, and wake those who wait for it."""
        task.done = True
        task.process.tasks.discard(task)
        self._tasks.discard(task)
        self.wake_all(task.waiters)

    def crashed(self, process: Process, where: str, error: BaseException) -> None:
        """Note an error that ended a task."""
        self.crashes.append((process, where, error))

    def after(self, delay: float, function: Callable[..., None], *args: object) -> Timer:
        """Call a function, which must not block, when the time has come."""
        timer = Timer(self.clock + max(0.0, delay), next(self._numbers), function, args)
        heapq.heappush(self._timers, timer)
        return timer

    def ready(self, task: Task) -> None:
        """Let a task run when its turn comes."""
        self._ready.append(task)

    def step(self) -> None:
        """Mark a place at which another task may run; mostly none does."""
        task = self.current
        if task is None:
            return
        if self.closed:
            raise Stopped
        process = task.process
        if process.fuse is not None:
            self._burn(process)
        self.steps += 1
        if self.steps > MOST_STEPS or (self._ready and self.random.random() < self.preemption):
            self._ready.append(task)
            self._switch()

    def sleep(self, seconds: float) -> None:
        """Block the current task for a time."""
        self.block(max(0.0, seconds))

    def block(self, timeout: float | None = None) -> bool:
        """Block the current task until it is woken: True; False if ``timeout`` seconds passed before."""
        task = self.current
        if self.closed:
            raise Stopped
        if task is None:
            raise Deadlock("nothing can be waited for outside of tasks")
        task.woken, task.blocked = False, True
        if timeout is not None:
            task.timer = self.after(timeout, self._time_is_up, task)
        self._switch()
        return task.woken

    def wait(self, waiters: list[Task], timeout: float | None = None) -> bool:
        """Block the current task in a list of waiters; True if it was woken from there."""
        task = self.current
        if task is None:
            raise Deadlock("nothing can be waited for outside of tasks")
        waiters.append(task)
        woken = self.block(timeout)
        if not woken and task in waiters:
            waiters.remove(task)
        return woken

    def wake(self, task: Task) -> None:
        """End the blocking of a task."""
        if not task.blocked:
            return
        task.woken, task.blocked = True, False
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
        self._ready.append(task)

    def wake_any(self, waiters: list[Task]) -> None:
        """Wake one of the waiters, drawn from the seed; none if there is none."""
        if waiters:
            self.wake(waiters.pop(self._draw(len(waiters))))

    def wake_all(self, waiters: list[Task]) -> None:
        """Wake all waiters."""
        while waiters:
            self.wake(waiters.pop(0))

    # -- running ---------------------------------------------------------------------------------------------

    def run(self, until: float) -> None:
        """Run what is ready, and let time pass, up to a time or until nothing is left to do.

        Raises:
            Endless: That takes too many steps.
        """
        while self.steps <= MOST_STEPS:
            self.steps += 1
            if self._ready:
                self._continue(self._ready.pop(self._draw(len(self._ready))))
            elif not self._advance(until):
                self.clock = max(self.clock, until) if self._timers else self.clock
                return
        raise Endless

    def close(self) -> None:
        """End all tasks that are left, dead and alive."""
        self.closed = True
        for task in list(self._tasks):
            self.current = task
            if task.greenlet:
                task.greenlet.throw(Stopped)
        self.current = None
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()

    def _advance(self, until: float) -> bool:
        while self._timers:
            timer = self._timers[0]
            if timer.function is not None and timer.due > until:
                return False
            heapq.heappop(self._timers)
            if timer.function is not None:
                self.clock = max(self.clock, timer.due)
                timer.function(*timer.args)
                return True
        return False

    def _continue(self, task: Task) -> None:
        process = task.process
        if not process.alive:
            return
        if process.paused:
            process.held_back.append(task)
            return
        self.current = task
        task.greenlet.switch()
        self.current = None

    def _switch(self) -> None:
        self.hub.switch()
        if self.closed:
            raise Stopped

    def _time_is_up(self, task: Task) -> None:
        task.timer = None
        if task.blocked:
            task.blocked = False
            self._ready.append(task)

    def _burn(self, process: Process) -> None:
        process.fuse -= 1
        if process.fuse <= 0:
            process.fuse = None
            process.on_fuse()

    def _draw(self, number: int) -> int:
        return int(self.random.random() * number) if number > 1 else 0
