"""Results as tables: medians of the rounds, and how many times as good as nova-scheduler."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TypeVar

from tools.side_by_side.contenders import NOVA
from tools.side_by_side.measuring import IDLE, Result

Key = TypeVar("Key")

_HEADINGS = ("", "instances/s", "ratio", "p50 ms", "p95 ms", "hosts", "CPU ms", "Placement", "MariaDB")
_LINE = "{:<24}{:>12}{:>8}{:>10}{:>10}{:>7}{:>9}{:>11}{:>9}"


def table(results: Sequence[Result]) -> str:
    """Return the conditions, and a table for each load.

    ``ratio`` is the median over the rounds of the throughput over that of nova-scheduler in the same round.
    CPU is that of the scheduler, of Placement and of MariaDB for one instance.
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
    return "\n".join([*_conditions(results), *lines, *_untrue(results)]) + "\n"


def ratios(results: Sequence[Result], scheduler: str) -> list[float]:
    """Return the ratios of throughputs to nova-scheduler's, one for each round with both."""
    nova = {each.round: each.throughput for each in results if each.scheduler == NOVA}
    own = {each.round: each.throughput for each in results if each.scheduler == scheduler}
    return [own[number] / nova[number] for number in own if nova.get(number)]


def _row(scheduler: str, of_case: Sequence[Result]) -> str:
    own = [each for each in of_case if each.scheduler == scheduler]
    found = ratios(of_case, scheduler)
    p50, p95, hosts = (median(getattr(each, name) for each in own) for name in ("p50", "p95", "hosts_used"))
    cpu = [
        median(each.cpu[service] / max(1, each.instances) * 1000 for each in own)
        for service in ("scheduler", "placement", "mariadb")
    ]
    return _LINE.format(
        scheduler,
        f"{median(each.throughput for each in own):.2f}",
        f"{median(found):.1f}" if found else "",
        f"{p50:.0f}",
        f"{p95:.0f}",
        f"{hosts:.0f}",
        *(f"{milliseconds:.1f}" for milliseconds in cpu),
    )


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
