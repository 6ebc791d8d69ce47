"""A campaign: mutations by seed, one after the other, each judged; what fails is shrunk and kept."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
import random
import resource
import signal
import sys
import time
from typing import Any

from tools.fuzzing import corpus, growth, oracle
from tools.fuzzing.mutation import Json, Mutator, all_paths, at, copied, removed, replaced
from tools.fuzzing.oracle import Outcome, Problem
from tools.fuzzing.targets import Target
from tools.fuzzing.world import World

#: Seconds of wall time after which an input counts as hanging.
HANG_TIMEOUT = 10
#: The problem of an input that hangs. It is not shrunk: each attempt would take that long.
HANGING = f"no end after {HANG_TIMEOUT} seconds"
#: Share of a campaign that may fill caches and pools before containers are measured.
WARM_UP = 0.2
#: Attempts to make a failing input smaller.
MOST_SHRINKING = 300
#: Seconds in which an input is made smaller.
LONGEST_SHRINKING = 120.0


class Hanging(BaseException):
    """An input did not end in time. Not an ``Exception``, so that no handler of the scheduler takes it."""


@dataclass
class Finding:
    """A problem with the first input that had it.

    Attributes:
        target: The name of the target.
        problem: What is wrong.
        value: The input, as small as it could be made.
        count: How many inputs had the problem.
    """

    target: str
    problem: Problem
    value: Json
    count: int = 1


@dataclass
class Report:
    """What a campaign found.

    Attributes:
        done: Number of inputs by target.
        outcomes: How often the inputs of a target ended in which way.
        findings: The problems.
        slowest: CPU seconds of the slowest input of a target.
        grown: Containers that grew beyond their bounds.
    """

    done: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    slowest: dict[str, float] = field(default_factory=dict)
    grown: list[str] = field(default_factory=list)


class Campaign:
    """Feeds mutations to targets in one world."""

    def __init__(
        self,
        world: World,
        targets: Sequence[Target],
        seed: int,
        directory: Path = corpus.DIRECTORY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a campaign.

        Args:
            world: What input is fed to.
            targets: Take turns.
            seed: Determines all mutations.
            directory: Where the corpus is.
            clock: Seconds, for the limit of a whole campaign.
        """
        self.report = Report()
        self._world = world
        self._targets = targets
        self._clock = clock
        rng = random.Random(seed)
        self._seeds: dict[str, Mapping[str, Json]] = {}
        self._mutators: dict[str, Mutator] = {}
        for target in targets:
            seeds = {**target.seeds(), **corpus.load(target.name, directory)}
            self._seeds[target.name] = seeds
            self._mutators[target.name] = Mutator(rng, list(seeds.values()), target.words)
        self._rng = rng

    def replay_corpus(self) -> None:
        """Feed every input of the corpus as it is."""
        for target in self._targets:
            for value in self._seeds[target.name].values():
                self._try(target, value)

    def run(self, count: int, minutes: float = float("inf")) -> Report:
        """Feed ``count`` mutations, or as many as the time allows, and measure what grew."""
        deadline = self._clock() + minutes * 60
        before: Mapping[str, growth.Size] | None = None
        for number in range(count):
            if self._clock() > deadline:
                break
            if before is None and number >= count * WARM_UP:
                before = self._measure()
            target = self._targets[number % len(self._targets)]
            value = self._rng.choice(list(self._seeds[target.name].values()))
            self._try(target, self._mutators[target.name].mutate(value))
        if before is not None:
            self.report.grown = growth.compare(before, self._measure())
        return self.report

    def _measure(self) -> Mapping[str, growth.Size]:
        return growth.measure({**growth.module_roots(), **self._world.roots()})

    def _try(self, target: Target, value: Json) -> None:
        outcome = feed(target, self._world, value)
        report = self.report
        report.done[target.name] += 1
        report.outcomes[target.name, _ending(outcome)] += 1
        report.slowest[target.name] = max(report.slowest.get(target.name, 0.0), outcome.seconds)
        for problem in oracle.problems(outcome):
            self._note(target, value, problem)

    def _note(self, target: Target, value: Json, problem: Problem) -> None:
        known = self.report.findings.get((target.name, problem.kind))
        if known:
            known.count += 1
            return

        def fails(smaller: Json) -> bool:
            found = oracle.problems(feed(target, self._world, smaller))
            return problem.kind in {each.kind for each in found}

        smallest = value if problem.kind == HANGING else shrink(value, fails)
        self.report.findings[target.name, problem.kind] = Finding(target.name, problem, smallest)


def feed(target: Target, world: World, value: Json) -> Outcome:
    """Feed one input to a target, and measure."""
    world.log.take()
    size = len(repr(value)) / 2**20
    given = copied(value)  # takes seconds for a large value that is nested deeply
    memory, started = _highest_memory(), time.process_time()
    try:
        outcome = _within_time(lambda: target.run(world, given))
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        outcome = Outcome(broken=[f"{type(error).__name__} outside of any reply"])
    except Hanging:
        outcome = Outcome(broken=[HANGING])
    outcome.seconds = time.process_time() - started
    outcome.memory_mib = _highest_memory() - memory
    outcome.input_mib = size
    outcome.records = world.log.take()
    return outcome


def shrink(value: Json, fails: Callable[[Json], bool], clock: Callable[[], float] = time.monotonic) -> Json:
    """Return the smallest value that was found, within bounds, for which ``fails`` still holds."""
    attempts, end = MOST_SHRINKING, clock() + LONGEST_SHRINKING
    progress = True
    while progress:
        progress = False
        for path in sorted(all_paths(value), key=len):
            for smaller in _smaller(value, path):
                if attempts == 0 or clock() > end:
                    return value
                attempts -= 1
                if fails(smaller):
                    value, progress = smaller, True
                    break
            if progress:
                break
    return value


def _smaller(value: Json, path: tuple) -> list[Json]:
    """Return values in which what the path leads to is missing, or half as long."""
    inner = at(value, path)
    found = [removed(copied(value), path)]
    if isinstance(inner, str | list) and len(inner) > 1:
        half = len(inner) // 2
        found += [replaced(copied(value), path, part) for part in (inner[:half], inner[half:])]
    return found


def _within_time(action: Callable[[], Outcome]) -> Outcome:
    def stop(*_: Any) -> None:
        raise Hanging

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG_TIMEOUT)
    try:
        return action()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _highest_memory() -> float:
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib


def _ending(outcome: Outcome) -> str:
    if outcome.answer is None:
        return "broken"
    return outcome.answer.error or "reply"
