"""A campaign: inputs that hypothesis draws, fed to targets in turns, and what came of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
import functools
import math
import resource
import signal
import sys
import time
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.database import ExampleDatabase

from tools.fuzzing import corpus, growth, oracle
from tools.fuzzing.inputs import Json, copied, inputs
from tools.fuzzing.oracle import Outcome, Problem
from tools.fuzzing.targets import Target
from tools.fuzzing.world import World

#: Seconds of CPU time, and of waiting on a busy machine, after which an input counts as hanging.
HANG_CPU, HANG_WAIT = 10.0, 120.0
#: Inputs that a target is fed in its turn.
TURN = 50
#: Share of a campaign that may fill caches and pools before containers are measured.
WARM_UP = 0.2


class Hanging(BaseException):
    """An input did not end in time. Not an ``Exception``, so that no handler of the scheduler takes it."""


class Found(Exception):
    """An input has a problem. Each kind of problem has a class of its own, by which hypothesis tells them."""


@functools.cache
def _found(kind: str) -> type[Found]:
    return type(kind, (Found,), {})


@dataclass
class Report:
    """What a campaign found.

    Attributes:
        done: Number of inputs by target.
        outcomes: How often the inputs of a target ended in which way.
        findings: By target and kind the problem and an input that has it, as small as it could be made.
        slowest: CPU seconds of the slowest input of a target.
        grown: Containers that grew beyond their bounds.
    """

    done: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[tuple[str, str], tuple[Problem, Json]] = field(default_factory=dict)
    slowest: dict[str, float] = field(default_factory=dict)
    grown: list[str] = field(default_factory=list)

    def note(self, target: str, value: Json, outcome: Outcome) -> None:
        """Count an outcome.

        Raises:
            Found: The input has a problem that it will have again, so that it can be made smaller.
        """
        self.done[target] += 1
        ending = (outcome.answer.error or "reply") if outcome.answer else "broken"
        self.outcomes[target, ending] += 1
        self.slowest[target] = max(self.slowest.get(target, 0.0), outcome.seconds)
        for problem in oracle.over_budget(outcome):
            self.findings.setdefault((target, problem.kind), (problem, value))
        for problem in oracle.problems(outcome):
            self.findings[target, problem.kind] = problem, value
            raise _found(problem.kind)(problem.detail)


class Campaign:
    """Feeds inputs to targets in one world, which take turns; the same seed draws the same inputs."""

    def __init__(
        self, world: World, targets: Sequence[Target], seed: int, database: ExampleDatabase | None = None
    ) -> None:
        """Prepare a campaign; what fails is kept in the database, and tried first the next time."""
        self.report = Report()
        self._world = world
        self._targets = targets
        self._seed = seed
        self._database = database

    def replay_corpus(self) -> None:
        """Feed every input of the corpus as it is."""
        for target in self._targets:
            for value in corpus.load(target.name).values():
                self._guarded(lambda target=target, value=value: self._try(target, value))

    def run(self, count: int, minutes: float = math.inf) -> Report:
        """Feed about ``count`` inputs, or as many as the time allows, and measure what grew."""
        deadline, number = time.monotonic() + minutes * 60, 0
        before, fed = None, self.report.done.total()
        while self.report.done.total() - fed < count and time.monotonic() < deadline:
            if before is None and self.report.done.total() - fed >= count * WARM_UP:
                before = self._measure()
            self._turn(self._targets[number % len(self._targets)], number, min(TURN, count))
            number += 1
        if before is not None:
            self.report.grown = growth.compare(before, self._measure())
        return self.report

    def _turn(self, target: Target, number: int, count: int) -> None:
        seeds = [*target.seeds().values(), *corpus.load(target.name).values()]

        @hypothesis.settings(
            max_examples=count,
            database=self._database,
            deadline=None,
            phases=(Phase.reuse, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=hypothesis.Verbosity.quiet,
        )
        @hypothesis.seed(
            f"{self._seed} {number}"
        )  # below the settings: a seed by itself turns the database off
        @hypothesis.given(inputs(seeds, target.words))
        def turn(value: Json) -> None:
            self._try(target, value)

        # what is kept belongs to the target
        turn._hypothesis_internal_database_key = target.name.encode()  # noqa: SLF001
        self._guarded(turn)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except* Found:
            pass  # it is in the report
        except* hypothesis.errors.Flaky as flaky:
            for error in flaky.exceptions:
                self.report.findings["any", str(error)] = Problem("not the same twice", str(error)), None

    def _try(self, target: Target, value: Json) -> None:
        self.report.note(target.name, value, feed(target, self._world, value))

    def _measure(self) -> Any:
        return growth.measure({**growth.module_roots(), **self._world.roots()})


def feed(target: Target, world: World, value: Json) -> Outcome:
    """Feed one input to a target, and measure."""
    world.log.take()
    size = len(repr(value)) / 2**20
    given = copied(value)  # takes seconds for a large value that is nested deeply
    memory, started, begun = _highest_memory(), time.process_time(), time.monotonic()
    try:
        outcome = _within_time(lambda: target.run(world, given))
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        outcome = Outcome(broken=[f"{type(error).__name__} outside of any reply"])
    except Hanging:
        outcome = Outcome(hanging=time.monotonic() - begun)
    outcome.seconds = time.process_time() - started
    outcome.memory_mib = _highest_memory() - memory
    outcome.input_mib = size
    outcome.records = world.log.take()
    return outcome


def _within_time(action: Callable[[], Outcome]) -> Outcome:
    def stop(*_: Any) -> None:
        raise Hanging

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, HANG_CPU)
    outer = signal.setitimer(signal.ITIMER_REAL, HANG_WAIT)
    try:
        return action()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, *outer)  # of who runs tests


def _highest_memory() -> float:
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib
