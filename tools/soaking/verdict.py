"""Whether what a scheduler occupies is flat: the growth after a warm-up, against a bound for each measure.

Growth is the median of the last third of the samples less the median of the first third: a short peak does
not count, and neither does the order of samples within a third.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tools.soaking.samples import MEASURES, Sample

#: The share of all requests that may fill caches, pools and the allocator's arenas.
WARM_UP = 0.25
#: Seconds that belong to the warm-up in any case: answered calls are remembered for ten minutes.
WARM_UP_TIME = 900
#: Fewer samples after the warm-up say nothing.
FEWEST_SAMPLES = 9


@dataclass(frozen=True)
class Bound:
    """The largest growth: what is noise, and what 10,000 requests may add."""

    noise: float
    per_10000: float

    def allowed(self, requests: float) -> float:
        """Return the largest growth within so many requests."""
        return self.noise + self.per_10000 * requests / 10_000


#: 2 MiB in 10,000 requests are 200 bytes a request. Threads and connections are pooled: they must not grow.
BOUNDS = {
    "memory_mb": Bound(noise=3.0, per_10000=2.0),
    "threads": Bound(noise=2, per_10000=0),
    "descriptors": Bound(noise=4, per_10000=0),
    "connections": Bound(noise=4, per_10000=0),
}


@dataclass(frozen=True)
class Growth:
    """How much one measure grew.

    Attributes:
        measure: Its name.
        first: Its median in the first third after the warm-up.
        last: Its median in the last third.
        requests: Requests between the middles of these thirds.
        allowed: The largest growth that passes.
    """

    measure: str
    first: float
    last: float
    requests: float
    allowed: float

    @property
    def per_10000(self) -> float:
        """Growth in 10,000 requests."""
        return (self.last - self.first) * 10_000 / self.requests if self.requests else 0.0

    @property
    def flat(self) -> bool:
        """Whether the growth is within its bound."""
        return self.last - self.first <= self.allowed

    def __str__(self) -> str:
        word = "flat" if self.flat else "GROWS"
        return (
            f"{self.measure:12} {self.first:8.1f} -> {self.last:8.1f} in {self.requests:.0f} requests"
            f" ({self.per_10000:+.2f} in 10,000; at most {self.allowed:+.1f} allowed): {word}"
        )


def judge(samples: Sequence[Sample]) -> list[Growth]:
    """Return the growth of each measure after the warm-up.

    Raises:
        ValueError: There are too few samples to judge.
    """
    start = samples[-1].requests * WARM_UP if samples else 0
    warm = [sample for sample in samples if sample.requests >= start and sample.seconds >= WARM_UP_TIME]
    if len(warm) < FEWEST_SAMPLES:
        raise ValueError(f"{len(warm)} samples after the warm-up are too few; {FEWEST_SAMPLES} are needed")
    third = len(warm) // 3
    first, last = warm[:third], warm[-third:]
    requests = _median(last, "requests") - _median(first, "requests")
    return [
        Growth(name, _median(first, name), _median(last, name), requests, BOUNDS[name].allowed(requests))
        for name in MEASURES
    ]


def _median(samples: Sequence[Sample], name: str) -> float:
    return median(getattr(sample, name) for sample in samples)
