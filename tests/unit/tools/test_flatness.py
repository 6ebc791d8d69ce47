"""What occupies more and more, by the samples of a run without faults."""

import dataclasses
import os
import re

import pytest

from tools.scenarios import flatness
from tools.scenarios.flatness import Sample


def series(count=100, memory=lambda n: 200.0, threads=lambda n: 20):
    return [
        Sample(
            number * 100,
            flatness.WARM_UP_TIME + float(number),
            memory(number),
            threads(number),
            descriptors=50,
            connections=10,
        )
        for number in range(count)
    ]


def not_flat(taken):
    return [growth.measure for growth in flatness.judge(taken) if not growth.flat]


@pytest.mark.parametrize(
    ("taken", "growing"),
    [
        (series(), []),
        (series(memory=lambda n: 100.0 + min(n, 20) * 5), []),
        (series(memory=lambda n: 400.0 if n in {80, 90} else 200.0), []),
        (series(memory=lambda n: 300.0 - n), []),
        (series(memory=lambda n: 200.0 + n * 0.02), []),
        (series(memory=lambda n: 200.0 + n * 0.2), ["memory_mb"]),
        (series(threads=lambda n: 20 + n // 5), ["threads"]),
    ],
    ids=["flat", "warm-up", "peaks", "shrinking", "within the bound", "memory grows", "threads grow"],
)
def test_growth_after_the_warm_up_is_judged(taken, growing):
    assert not_flat(taken) == growing


def test_a_growth_says_how_much_and_in_how_many_requests():
    (memory, *_) = flatness.judge(series(memory=lambda n: 200.0 + n))
    assert re.search(r"in \d+ requests .*: GROWS", str(memory))


def test_samples_before_the_end_of_the_warm_up_time_are_not_judged():
    taken = [dataclasses.replace(sample, seconds=1.0) for sample in series(memory=lambda n: 10.0 * n)]
    assert not_flat([*taken[:60], *series()[60:]]) == []


def test_too_few_samples_are_not_judged():
    with pytest.raises(ValueError, match="too few"):
        flatness.judge(series(count=5))
    with pytest.raises(ValueError, match="too few"):
        flatness.judge([])


def test_a_sample_of_a_process_counts_all_that_is_judged():
    taken = Sample.take([os.getpid()], 7, 1.5)
    assert (taken.requests, taken.seconds) == (7, 1.5)
    assert taken.memory_mb > 1
    assert taken.threads >= 1
    assert taken.descriptors >= 1
