"""One run, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
import random
import uuid

import numpy as np

from scheduler.hosts.pending import LIFETIME
from tools.strategies.cloud import PLACES, REFRESH_INTERVAL, Cloud
from tools.strategies.events import Events
from tools.strategies.scenario import Scenario, Strategy
from tools.strategies.scheduler import ClaimsInFlight, SimulatedScheduler
from tools.strategies.stream import SimulatedStream

LARGE = PLACES // 2
"""Places of the instance that fragmentation is measured with."""


@dataclass(frozen=True)
class Result:
    """What came of a run.

    Attributes:
        scenario: Its name.
        strategy: Its name.
        placed: Instances that got a host.
        denied: Instances that got none.
        refused: Refused claims for each placed instance.
        overlapping: Claims, for each placed instance, that began while another scheduler had one under way on
            the same host.
        hosts_used: Hosts that got an instance.
        deviation: Standard deviation of the used places of all hosts.
        fragmented: The share of the free places that instances of ``LARGE`` places cannot use.
        latency: Seconds to the answer: median, 95th and 99th percentile.
        problems: What is wrong, one line each.
    """

    scenario: str
    strategy: str
    placed: int
    denied: int
    refused: float
    overlapping: float
    hosts_used: int
    deviation: float
    fragmented: float
    latency: tuple[float, float, float]
    problems: list[str] = field(default_factory=list)


def run(scenario: Scenario, strategy: Strategy, seed: int) -> Result:
    """Run a scenario once. Equal arguments have equal results.

    Arrivals, sizes and the cloud depend on the scenario and the seed alone.
    """
    if strategy.alone:
        no_time = {"question": 0.0, "choice": 0.0, "claim": 0.0, "loss": 0.0, "cut": 0.0}
        scenario = replace(scenario, schedulers=1, load=(), **no_time)
    state = random.getstate()
    random.seed(seed)  # rankings draw from it
    try:
        return _Run(scenario, strategy, seed).result()
    finally:
        random.setstate(state)


class _Run:
    def __init__(self, scenario: Scenario, strategy: Strategy, seed: int) -> None:
        self.scenario = scenario
        self.strategy = strategy
        self.events = Events()
        self.cloud = Cloud(scenario, random.Random(f"{seed} cloud"))
        self.claims = ClaimsInFlight()
        self.rng = random.Random(f"{seed} run")
        kinds, latency, loss = strategy.shared, scenario.latency, scenario.loss
        stream = SimulatedStream(self.events, kinds, latency, loss, self.rng)
        self.schedulers = [
            SimulatedScheduler(
                f"scheduler-{number:02d}",
                scenario,
                strategy,
                self.cloud,
                stream,
                self.claims,
                self.events,
                self.rng,
            )
            for number in range(scenario.schedulers)
        ]
        self.waits: dict[str, float] = {}
        self.placed: set[str] = set()
        self.requests = 0
        stream.begin()
        self._refresh()
        end = self._plan_requests(random.Random(f"{seed} requests"))
        if scenario.cut:
            first = self.schedulers[0].sender
            self.events.after(max(0.0, end - scenario.cut) / 2, lambda: stream.cut_off(first))
            self.events.after((end + scenario.cut) / 2, lambda: stream.restore(first))
        # What was pending and lost its end is over then.
        self.events.run(end + scenario.cut + scenario.report + LIFETIME + 60)

    def _plan_requests(self, rng: random.Random) -> float:
        """Let all requests arrive. Return when the last one does."""
        scenario, at = self.scenario, 0.0
        wanted = scenario.share * float((PLACES - self.cloud.used).sum())
        load = scenario.load or (1.0,) * scenario.schedulers
        while wanted > 0:
            at += rng.expovariate(scenario.rate)
            places = rng.choice(scenario.sizes)
            (scheduler,) = rng.choices(self.schedulers, load[: scenario.schedulers])
            self.requests += 1
            wanted -= places
            self._arrive(at, scheduler, _uuid_of(self.requests), places)
        return at

    def _arrive(self, at: float, scheduler: SimulatedScheduler, instance: str, places: int) -> None:
        def serve() -> None:
            if scheduler.serve(instance, places):
                self.placed.add(instance)
            elif len(self.cloud.with_room(places)):  # nothing is ever freed: it had room all the time
                self.cloud.problems.append(f"Instance {instance} got no host, but there is room")
            if instance in self.waits:
                self.cloud.problems.append(f"Instance {instance} was answered twice")
            self.waits[instance] = self.events.now() - at

        self.events.start(at, serve)

    def _refresh(self) -> None:
        """Let all schedulers read what computes have reported."""
        reported = self.cloud.refresh(self.events.now())
        if reported:
            for scheduler in self.schedulers:
                scheduler.settle(reported)
        self.events.after(REFRESH_INTERVAL, self._refresh)

    def result(self) -> Result:
        """Return what came of the run."""
        free = PLACES - self.cloud.used
        placed = max(1, len(self.placed))
        return Result(
            scenario=self.scenario.name,
            strategy=self.strategy.name,
            placed=len(self.placed),
            denied=len(self.waits) - len(self.placed),
            refused=self.cloud.refused / placed,
            overlapping=self.claims.overlapping / placed,
            hosts_used=int((self.cloud.added() > 0).sum()),
            deviation=float(self.cloud.used.std()),
            fragmented=float((free % LARGE).sum() / max(1, free.sum())),
            latency=_percentiles(list(self.waits.values())),
            problems=[*self.cloud.check(), *self._check()],
        )

    def _check(self) -> list[str]:
        found = []
        if len(self.waits) != self.requests:
            found.append(f"{self.requests - len(self.waits)} requests were not answered")
        claimed = self.cloud.allocations.keys()
        if claimed != self.placed:
            found.append(f"{len(claimed ^ self.placed)} instances hold something else than was answered")
        for scheduler in self.schedulers:
            scheduler.settle([])
            if len(scheduler.pending):
                found.append(f"{scheduler.sender} keeps {len(scheduler.pending)} pending placements for ever")
        return found


def _uuid_of(instance: int) -> str:
    return str(uuid.UUID(int=(2 << 64) + instance))


def _percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    middle, high, highest = np.percentile(values or [0.0], [50, 95, 99])
    return float(middle), float(high), float(highest)
