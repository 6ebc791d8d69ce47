"""What a run says in text."""

from collections.abc import Sequence

from tools.strategies.run import Result
from tools.strategies.scenario import Scenario

HEAD = """\
{hosts:,} hosts, {schedulers} schedulers, {rate:g} requests a second. Seconds: question {question:g},
choice {choice:g}, claim {claim:g}, stream {latency:g}, report of a compute {report:g}.

refused, overlap  claims for each placed instance
hosts             that got an instance
std               standard deviation of the used places of all hosts
frag.             share of the free places that instances of half a host cannot use
p50, p99          milliseconds to the answer
"""

HEADER = (
    f"{'strategy':20} {'placed':>7} {'refused':>8} {'overlap':>8} {'hosts':>6} {'std':>6} {'frag.':>6}"
    f" {'p50':>7} {'p99':>7}"
)


def line(result: Result) -> str:
    """Return one line on a run."""
    return f"{result.scenario:24} {_row(result)}{' WRONG' if result.problems else ''}"


def table(results: Sequence[Result], scenario: Scenario) -> str:
    """Return a table for each scenario, and what it was made with."""
    parts = [HEAD.format(**vars(scenario))]
    for name in dict.fromkeys(result.scenario for result in results):
        rows = [_row(result) for result in results if result.scenario == name]
        parts.append("\n".join([f"\n{name}", HEADER, *rows, ""]))
    return "".join(parts)


def _row(result: Result) -> str:
    middle, _, highest = result.latency
    return (
        f"{result.strategy:20} {result.placed:7} {result.refused:8.3f} {result.overlapping:8.3f}"
        f" {result.hosts_used:6} {result.deviation:6.2f} {result.fragmented:6.3f}"
        f" {1000 * middle:7.0f} {1000 * highest:7.0f}"
    )
