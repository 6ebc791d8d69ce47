"""Scenarios, strategies, one run and what came of it, and the command line."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
import logging
import random
import uuid

from scheduler.hosts.pending import LIFETIME
from scheduler.stream.records import Kind
from tools.rig import command
from tools.strategies.cloud import PLACES, REFRESH_INTERVAL, Cloud
from tools.strategies.scheduler import ClaimsInFlight, SimulatedScheduler
from tools.strategies.stream import Events, SimulatedStream

INTENTS = frozenset({Kind.INTENT, Kind.CLAIMED, Kind.RELEASED})


@dataclass(frozen=True)
class Strategy:
    """A way for schedulers to keep out of each other's way.

    They share decisions of some kinds, or each prefers the hosts of its own slice.
    """

    name: str
    shared: frozenset[Kind] = frozenset()
    slices: bool = False


STRATEGIES = {
    each.name: each
    for each in (
        Strategy("none"),
        Strategy("stream of intents", INTENTS),
        Strategy("own slice", slices=True),
        Strategy("intents, own slice", INTENTS, slices=True),
    )
}
"""By name. The last one is what Berth does by default."""


@dataclass(frozen=True)
class Scenario:
    """A cloud, its schedulers, and what they are asked for. Times are in seconds.

    A host has ``PLACES`` places, one for each instance.

    Attributes:
        fill_first: Whether the fullest host is preferred; if not, the emptiest.
        most_free: Hosts have any number of free places between 1 and this with the same probability.
        share: Instances to be built, as a share of the free places.
        rate: Requests per second, of all schedulers together.
        question: From the query to Placement to its answer, on which the decision begins.
        choice: From there to the claim.
        claim: Of a claim, on average; each takes between half and three halves of it.
        latency: Until other schedulers read a record of the stream.
        loss: The probability with which a scheduler misses a record.
        report: Until the compute reports an instance.
    """

    name: str = "spread, half full"
    fill_first: bool = False
    most_free: int = 16
    share: float = 0.19
    hosts: int = 1000
    schedulers: int = 4
    rate: float = 100.0
    question: float = 0.005
    choice: float = 0.005
    claim: float = 0.03
    latency: float = 0.01
    loss: float = 0.0
    report: float = 5.0


_NEARLY_FULL = {"most_free": 3, "share": 0.95}

SCENARIOS = {
    each.name: each
    for each in (
        Scenario(),
        Scenario("fill-first, half full", fill_first=True),
        Scenario("spread, nearly full", **_NEARLY_FULL),
        Scenario("fill-first, nearly full", fill_first=True, **_NEARLY_FULL),
    )
}
"""By name."""


@dataclass(frozen=True)
class Result:
    """What came of a run.

    ``denied`` instances got no host. For each placed instance there were so many ``refused`` claims, and so
    many that began ``overlapping`` with one of another scheduler on the same host.
    """

    placed: int
    denied: int
    refused: float
    overlapping: float
    hosts_used: int
    problems: list[str] = field(default_factory=list)


def run(scenario: Scenario, strategy: Strategy, seed: int) -> Result:
    """Run a scenario once. Equal arguments have equal results.

    Arrivals and the cloud depend on the scenario and the seed alone.
    """
    state = random.getstate()
    random.seed(seed)  # rankings draw from it
    try:
        return _Run(scenario, strategy, seed).result()
    finally:
        random.setstate(state)


class _Run:
    def __init__(self, scenario: Scenario, strategy: Strategy, seed: int) -> None:
        self.scenario = scenario
        self.events = Events()
        self.cloud = Cloud(scenario.hosts, scenario.most_free, random.Random(f"{seed} cloud"))
        self.claims = ClaimsInFlight()
        rng = random.Random(f"{seed} run")
        stream = SimulatedStream(self.events, strategy.shared, scenario.latency, scenario.loss, rng)
        shared = (self.cloud, stream, self.claims, self.events, rng)
        self.schedulers = [
            SimulatedScheduler(f"scheduler-{number:02d}", scenario, strategy.slices, *shared)
            for number in range(scenario.schedulers)
        ]
        self.waiting: set[str] = set()
        self.placed: set[str] = set()
        self.denied = 0
        stream.beat()
        self._refresh()
        end = self._plan_requests(random.Random(f"{seed} requests"))
        # What was pending and lost its end is over then.
        self.events.run(end + scenario.report + LIFETIME + 60)

    def _plan_requests(self, rng: random.Random) -> float:
        """Let all requests arrive. Return when the last one does."""
        at = 0.0
        for number in range(int(self.scenario.share * float((PLACES - self.cloud.used).sum()))):
            at += rng.expovariate(self.scenario.rate)
            self._arrive(at, rng.choice(self.schedulers), str(uuid.UUID(int=(2 << 64) + number)))
        return at

    def _arrive(self, at: float, scheduler: SimulatedScheduler, instance: str) -> None:
        def serve() -> None:
            if scheduler.serve(instance):
                self.placed.add(instance)
            else:
                self.denied += 1
                if len(self.cloud.with_room()):  # nothing is ever freed: it had room all the time
                    self.cloud.problems.append(f"Instance {instance} got no host, but there is room")
            self.waiting.remove(instance)

        self.waiting.add(instance)
        self.events.start(at, serve)

    def _refresh(self) -> None:
        """Let all schedulers read what computes have reported."""
        reported = self.cloud.refresh(self.events.now())
        for scheduler in self.schedulers if reported else ():
            scheduler.settle(reported)
        self.events.after(REFRESH_INTERVAL, self._refresh)

    def result(self) -> Result:
        """Return what came of the run."""
        placed = max(1, len(self.placed))
        return Result(
            placed=len(self.placed),
            denied=self.denied,
            refused=self.cloud.refused / placed,
            overlapping=self.claims.overlapping / placed,
            hosts_used=int((self.cloud.added() > 0).sum()),
            problems=[*self.cloud.check(), *self._check()],
        )

    def _check(self) -> list[str]:
        found = [f"Instance {instance} was not answered" for instance in self.waiting]
        if wrong := self.cloud.allocations.keys() ^ self.placed:
            found.append(f"{len(wrong)} instances hold something else than was answered")
        for scheduler in self.schedulers:
            scheduler.settle([])
            if len(scheduler.pending):
                found.append(f"{scheduler.sender} keeps {len(scheduler.pending)} pending placements for ever")
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all strategies in the chosen scenarios, print a table; return 1 if something was wrong."""
    parser = command.Parser("tools/simulate strategies", "Compare how several schedulers avoid each other.")
    parser.share(seed=1)
    names = ", ".join(SCENARIOS)
    parser.add("--scenario", list(SCENARIOS), names, nargs="+", choices=SCENARIOS, metavar="NAME")
    numbers = {
        each.name: type(each.default) for each in fields(Scenario) if type(each.default) in {int, float}
    }
    for name, kind in numbers.items():
        parser.add(f"--{name.replace('_', '-')}", None, "in the place of that of the scenario", type=kind)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)
    given = {name: value for name in numbers if (value := getattr(options, name)) is not None}
    wrong = 0
    print(f"{'':26} {'strategy':20} {'placed':>7} {'refused':>8} {'overlap':>8} {'hosts':>6}")
    for name in options.scenario:
        for strategy in STRATEGIES.values():
            found = run(replace(SCENARIOS[name], **given), strategy, options.seed)
            print(
                f"{name:26} {strategy.name:20} {found.placed:7} {found.refused:8.3f} {found.overlapping:8.3f}"
                f" {found.hosts_used:6}",
                flush=True,
            )
            print("".join(f"WRONG: {problem}\n" for problem in found.problems), end="")
            wrong += len(found.problems)
    return 1 if wrong else 0
