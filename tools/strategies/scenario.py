"""What is simulated, and the strategies that are compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.stream.records import Kind

CLAIMS = frozenset({Kind.CLAIMED, Kind.RELEASED})
INTENTS = CLAIMS | {Kind.INTENT}


@dataclass(frozen=True)
class Strategy:
    """A way for schedulers to keep out of each other's way.

    Attributes:
        name: What it is called in tables.
        shared: The kinds of decisions that schedulers tell each other.
        slices: Whether each scheduler prefers the hosts that it owns.
        options: Options of ``[filter_scheduler]``.
        alone: Whether one scheduler takes all requests, one after the other and in no time: what the others
            are compared with.
    """

    name: str
    shared: frozenset[Kind] = frozenset()
    slices: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    alone: bool = False


STRATEGIES = {
    each.name: each
    for each in (
        Strategy("one after the other", alone=True),
        Strategy("none"),
        Strategy("random of top 10", options={"host_subset_size": 10}),
        Strategy("stream of claims", CLAIMS),
        Strategy("stream of intents", INTENTS),
        Strategy("own slice", slices=True),
        Strategy("intents, own slice", INTENTS, slices=True),
    )
}
"""By name. The last one is what Berth does by default."""


@dataclass(frozen=True)
class Scenario:
    """A cloud, its schedulers, and what they are asked for. Times are in seconds.

    A host has ``PLACES`` places, one for each of the smallest instances.

    Attributes:
        name: What it is called in tables.
        fill_first: Whether the fullest host is preferred; if not, the emptiest.
        least_free: The least number of free places of a host at the start.
        most_free: The largest; hosts have any number between with the same probability.
        share: Instances to be built, as a share of the free places.
        sizes: Places of an instance; each with the same probability.
        hosts: Number of hosts.
        schedulers: Number of schedulers.
        load: The share of the requests that each scheduler gets, relative to the others; empty: all the same.
        rate: Requests a second, of all schedulers together.
        question: Time from the query to Placement to its answer, on which the decision begins.
        choice: Time from there to the claim.
        claim: Time of a claim, on average; each takes between half and three halves of it.
        latency: Time until other schedulers read a record of the stream.
        loss: The probability with which a scheduler misses a record.
        report: Time until the compute reports an instance.
        cut: Time for which the first scheduler is cut off from the stream, in the middle of the run.
    """

    name: str = "spread, half full"
    fill_first: bool = False
    least_free: int = 1
    most_free: int = 16
    share: float = 0.19
    sizes: tuple[int, ...] = (1,)
    hosts: int = 1000
    schedulers: int = 4
    load: tuple[float, ...] = ()
    rate: float = 100.0
    question: float = 0.005
    choice: float = 0.005
    claim: float = 0.03
    latency: float = 0.01
    loss: float = 0.0
    report: float = 5.0
    cut: float = 0.0


_NEARLY_FULL = {"least_free": 1, "most_free": 3, "share": 0.95}

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
