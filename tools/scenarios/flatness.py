"""What the processes of schedulers occupy, measured from outside, and whether it is flat after a warm-up.

Growth is the median of the last third of the samples less the median of the first third: a short peak does
not count, and neither does the order of samples within a third.
"""

from collections.abc import Iterable, Sequence
import dataclasses
from statistics import median
from typing import Self

import psutil

#: The share of all requests that may fill caches, pools and the allocator's arenas.
WARM_UP = 0.25
#: Seconds that belong to the warm-up in any case: answered calls are remembered for ten minutes.
WARM_UP_TIME = 900
#: Fewer samples after the warm-up say nothing.
FEWEST_SAMPLES = 9


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement over all processes of the schedulers.

    Attributes:
        requests: Requests that had ended.
        seconds: Time since the first request.
        memory_mb: Memory in MiB: of each process the part that it shares with no other (USS).
        threads: Number of threads.
        descriptors: Number of open file descriptors.
        connections: Number of open TCP connections.
    """

    requests: int
    seconds: float
    memory_mb: float
    threads: int
    descriptors: int
    connections: int

    @classmethod
    def take(cls, pids: Iterable[int], requests: int, seconds: float) -> Self:
        """Measure processes and all their children.

        Raises:
            psutil.Error: A process has ended.
        """
        masters = [psutil.Process(pid) for pid in pids]
        processes = [each for master in masters for each in (master, *master.children(recursive=True))]
        return cls(
            requests=requests,
            seconds=round(seconds, 1),
            memory_mb=round(sum(each.memory_full_info().uss for each in processes) / 2**20, 2),
            threads=sum(each.num_threads() for each in processes),
            descriptors=sum(each.num_fds() for each in processes),
            connections=sum(len(each.net_connections("tcp")) for each in processes),
        )


#: What each measure may grow by: noise, and what 10,000 requests may add. 2 MiB are 200 bytes a request.
#: Threads and connections are pooled: they must not grow.
BOUNDS = {"memory_mb": (3.0, 2.0), "threads": (2, 0), "descriptors": (4, 0), "connections": (4, 0)}


@dataclasses.dataclass(frozen=True)
class Growth:
    """How much a measure grew: its medians in the first and last third after the warm-up, and what may pass.

    ``requests`` were sent between the middles of these thirds.
    """

    measure: str
    first: float
    last: float
    requests: float
    allowed: float

    @property
    def flat(self) -> bool:
        """Whether the growth is within its bound."""
        return self.last - self.first <= self.allowed

    def __str__(self) -> str:
        word = "flat" if self.flat else "GROWS"
        return (
            f"{self.measure:12} {self.first:8.1f} -> {self.last:8.1f} in {self.requests:.0f} requests"
            f" (at most {self.allowed:+.1f} allowed): {word}"
        )


def judge(samples: Sequence[Sample]) -> list[Growth]:
    """Return the growth of each measure after the warm-up.

    Raises:
        ValueError: There are too few samples to judge.
    """
    start = samples[-1].requests * WARM_UP if samples else 0
    warm = [sample for sample in samples if sample.requests >= start and sample.seconds >= WARM_UP_TIME]
    if len(warm) < FEWEST_SAMPLES:
        minutes = f"at least {WARM_UP_TIME / 60:.0f} minutes"
        raise ValueError(
            f"{len(warm)} samples after the warm-up ({minutes}) are too few; {FEWEST_SAMPLES} are needed"
        )
    third = len(warm) // 3
    first, last = warm[:third], warm[-third:]

    def of_both(name: str) -> tuple[float, float]:
        before, after = (median(getattr(sample, name) for sample in part) for part in (first, last))
        return before, after

    before, after = of_both("requests")
    requests = after - before
    return [
        Growth(name, *of_both(name), requests, noise + per_10000 * requests / 10_000)
        for name, (noise, per_10000) in BOUNDS.items()
    ]
