"""Measure what recording and counting a decision cost, against the work of the request without them."""

from collections.abc import Callable, Iterator
from statistics import median
import time
from typing import Any

from scheduler import objects
from scheduler.explain.document import encode
from scheduler.explain.memory import DecisionMemory
from scheduler.explain.trace import Trace
from scheduler.health.counters import Counters
from scheduler.health.decisions import DecisionCounter
from scheduler.placement.answer import parse
from scheduler.request import query
from tools.bench.multicreate import Granting
from tools.bench.stages import Stages
from tools.bench.timing import Measurement

#: Pairs of requests, with and without a record in turns, for each run that is asked for.
PAIRS = 100


def run(count: int, runs: int) -> Iterator[Measurement]:
    """Measure a plain boot request from its query on: without a record, with one, and counting it alone."""
    bench = _Recording(count)
    rounds = [(_timed(bench.plain), _timed(bench.recorded), _timed(bench.count)) for _ in range(runs * PAIRS)]
    plain, recorded, counted = (min(times) * 1000 for times in zip(*rounds, strict=True))
    # of pairs, as a busy machine moves the fastest run of one kind but not of the other
    cost = median(with_record - without for without, with_record, _ in rounds)
    share = cost / median(without for without, _, _ in rounds) * 100
    yield Measurement("explain", "default rules", "without a record", count, plain)
    yield Measurement("explain", "default rules", "with a record", count, recorded)
    yield Measurement("explain", "default rules", "cost in per cent", count, share)
    yield Measurement("explain", "default rules", "counting for metrics", count, counted)
    yield Measurement("explain", "default rules", "counting in per cent", count, counted / plain * 100)


class _Recording:
    def __init__(self, count: int) -> None:
        self.stages = Stages(count)
        self.memory = DecisionMemory(1000, 64 * 2**20)
        self.counter = DecisionCounter(Counters())
        self.last: Trace | None = None
        # as from the wire, like the requests that are recorded
        self.stages.spec = objects.hydrate(self.stages.primitive, None)

    def plain(self) -> Any:
        self.stages.decoded_to_selections()

    def recorded(self) -> Any:
        stages = self.stages
        request = stages.request()
        trace = Trace(request)
        trace.asked(query.build(stages.spec, stages.conf))
        stages.found = parse(stages.body, None)
        trace.answered(stages.found)
        view = stages.view()
        trace.mark("table")
        stages.driver.select(view, request, Granting(), observer=trace)
        decision = trace.finish(None)
        self.memory.add(decision, encode(decision))
        self.last = trace

    def count(self) -> None:
        if self.last is not None:
            self.counter.count(self.last, None)


def _timed(work: Callable[[], Any]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
