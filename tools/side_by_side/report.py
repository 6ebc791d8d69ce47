"""Results as tables: medians of the rounds, and how many times as good as nova-scheduler."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TypeVar

from tools.side_by_side.contenders import BERTH, NOVA
from tools.side_by_side.measuring import IDLE, SERVICES, Result

Key = TypeVar("Key")

_HEADINGS = (
    "",
    "instances/s",
    "ratio",
    "p50 ms",
    "p95 ms",
    "hosts",
    "CPU ms",
    "Placement",
    "MariaDB",
    "sum",
    "ratio",
)
_LINE = "{:<24}{:>12}{:>8}{:>10}{:>10}{:>7}{:>9}{:>11}{:>9}{:>7}{:>7}"


def table(results: Sequence[Result]) -> str:
    """Return the conditions, and a table for each load.

    ``ratio`` is the median over the rounds: of the throughput over that of nova-scheduler in the same round,
    and of the sum of the CPU over that of one daemon of Berth. CPU is that of the scheduler, of Placement and
    of MariaDB for one instance. Another table has what was counted for an instance.
    """
    lines: list[str] = []
    loads = [each for each in results if each.case != IDLE]
    for case, callers in _in_order((each.case, each.callers) for each in loads):
        of_case = [each for each in results if (each.case, each.callers) == (case, callers)]
        lines += [
            "",
            f"{case}, {callers} {'caller' if callers == 1 else 'callers'}",
            _LINE.format(*_HEADINGS),
        ]
        for scheduler in _in_order(each.scheduler for each in of_case):
            lines.append(_row(scheduler, of_case))
        lines += _counts(of_case)
    return "\n".join([*_conditions(results), *lines, *_untrue(results)]) + "\n"


def ratios(
    results: Sequence[Result],
    scheduler: str,
    other: str = NOVA,
    value: Callable[[Result], float] = lambda result: result.throughput,
) -> list[float]:
    """Return the ratios of a value, by default the throughput, to another scheduler's.

    There is one for each round with both.
    """
    others = {each.round: value(each) for each in results if each.scheduler == other}
    own = {each.round: value(each) for each in results if each.scheduler == scheduler}
    return [own[number] / others[number] for number in own if others.get(number)]


def _row(scheduler: str, of_case: Sequence[Result]) -> str:
    own = [each for each in of_case if each.scheduler == scheduler]
    found = ratios(of_case, scheduler)
    p50, p95, hosts = (median(getattr(each, name) for each in own) for name in ("p50", "p95", "hosts_used"))
    cpu = [median(each.milliseconds(service) for each in own) for service in SERVICES]
    cpu.append(median(map(_all_cpu, own)))
    costs = [] if scheduler == BERTH else ratios(of_case, scheduler, BERTH, _all_cpu)
    return _LINE.format(
        scheduler,
        f"{median(each.throughput for each in own):.2f}",
        f"{median(found):.1f}" if found else "",
        f"{p50:.0f}",
        f"{p95:.0f}",
        f"{hosts:.0f}",
        *(f"{milliseconds:.1f}" for milliseconds in cpu),
        f"{median(costs):.2f}" if costs else "",
    )


def _all_cpu(result: Result) -> float:
    return result.milliseconds(*SERVICES)


def _counts(of_case: Sequence[Result]) -> Iterable[str]:
    """Yield what was counted for an instance: a line for each kind, a column for each scheduler."""
    schedulers = _in_order(each.scheduler for each in of_case if each.counts)
    kinds = sorted({kind for each in of_case for kind in each.counts})
    if kinds:
        yield "".join([f"  {'for an instance':<62}", *(f"{name:>18}" for name in schedulers)])
    for kind in kinds:
        values = [_counted(kind, [each for each in of_case if each.scheduler == name]) for name in schedulers]
        yield "".join([f"  {kind:<62}", *(f"{value:>18.3f}" for value in values)])


def _counted(kind: str, results: Sequence[Result]) -> float:
    return median(each.counts.get(kind, 0) / max(1, each.instances) for each in results)


def _conditions(results: Sequence[Result]) -> list[str]:
    rounds = {each.round for each in results}
    others = [each.others for each in results]
    return [
        f"{results[0].hosts} hosts, {results[0].filled} instances before; medians of {len(rounds)} rounds.",
        f"Programs outside the rig used {median(others):.1f} cores in the median, {max(others):.1f} at most.",
        *_of_each("Memory in MiB", results, lambda each: each.memory_mb, max),
        *_of_each("Seconds from the start to the first answer", results, lambda each: each.first_answer),
        *_of_each(
            "Idle, per cent of a core",
            [each for each in results if each.case == IDLE],
            lambda each: each.cpu["scheduler"] / each.seconds * 100,
        ),
    ]


def _of_each(
    name: str,
    results: Sequence[Result],
    value: Callable[[Result], float],
    summed_up: Callable[[Iterable[float]], float] = median,
) -> Iterable[str]:
    """Yield a line with a value of each scheduler, if it was measured."""
    found: dict[str, list[float]] = {}
    for each in results:
        found.setdefault(each.scheduler, []).append(value(each))
    if found:
        yield f"{name}: " + "; ".join(f"{who}: {summed_up(all_):.2f}" for who, all_ in found.items()) + "."


def _untrue(results: Sequence[Result]) -> list[str]:
    lines = ["", "Not true, or not answered:"]
    for each in results:
        place = f"  round {each.round}, {each.scheduler}, {each.case}, {each.callers}: "
        lines += [place + line for line in each.problems]
        lines += [f"{place}{number} times {error}" for error, number in each.errors.items()]
        if each.no_valid_host:
            lines.append(f"{place}{each.no_valid_host} times NoValidHost")
    return lines if len(lines) > 2 else ["", "All answers are true, and all requests were answered."]


def _in_order(keys: Iterable[Key]) -> list[Key]:
    return list(dict.fromkeys(keys))
