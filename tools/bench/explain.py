"""Measure what recording a decision costs, against the work of the request without it, in one run."""

from collections.abc import Callable, Iterator
import time
from typing import Any

from scheduler.explain.memory import DecisionMemory
from scheduler.explain.trace import Trace
from scheduler.placement.answer import parse
from scheduler.request import query
from tools.bench.multicreate import Granting
from tools.bench.stages import Stages
from tools.bench.timing import Measurement

#: Pairs of requests, with and without a record in turns, for each run that is asked for.
PAIRS = 20


def run(count: int, runs: int) -> Iterator[Measurement]:
    """Measure a plain boot request from its query on: without a record, with one, and the difference."""
    bench = _Recording(count)
    pairs = [(_timed(bench.plain), _timed(bench.recorded)) for _ in range(runs * PAIRS)]
    plain, recorded = (min(times) * 1000 for times in zip(*pairs, strict=True))
    yield Measurement("explain", "default rules", "without a record", count, plain)
    yield Measurement("explain", "default rules", "with a record", count, recorded)
    yield Measurement("explain", "default rules", "cost in per cent", count, (recorded / plain - 1) * 100)


class _Recording:
    def __init__(self, count: int) -> None:
        self.stages = Stages(count)
        self.memory = DecisionMemory(1000, 64 * 2**20)

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
        self.memory.add(trace.finish(None))


def _timed(work: Callable[[], Any]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
