"""Results as a table: medians of the rounds, and how many times as fast as nova-scheduler."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TypeVar

from tools.side_by_side.contenders import NovaScheduler
from tools.side_by_side.measuring import Result

Key = TypeVar("Key")

_HEADINGS = ("", "instances/s", "ratio", "p50 ms", "p95 ms", "hosts", "CPU ms", "Placement", "MariaDB")
_LINE = "{:<24}{:>12}{:>8}{:>10}{:>10}{:>7}{:>9}{:>11}{:>9}"


def table(results: Sequence[Result]) -> str:
    """Return the table.

    ``ratio`` is the median over the rounds of the throughput over that of nova-scheduler in the same round.
    CPU is that of the scheduler, of Placement and of MariaDB for one instance.
    """
    lines: list[str] = []
    for case, callers in _in_order((each.case, each.callers) for each in results):
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
    nova = {each.round: each.throughput for each in results if each.scheduler == NovaScheduler.name}
    own = {each.round: each.throughput for each in results if each.scheduler == scheduler}
    return [own[number] / nova[number] for number in own if nova.get(number)]


def median_of(results: Sequence[Result], value: Callable[[Result], float]) -> float:
    """Return the median over the rounds."""
    return median(map(value, results))


def _row(scheduler: str, of_case: Sequence[Result]) -> str:
    own = [each for each in of_case if each.scheduler == scheduler]
    found = ratios(of_case, scheduler)
    return _LINE.format(
        scheduler,
        f"{median_of(own, lambda each: each.throughput):.2f}",
        f"{median(found):.1f}" if found else "",
        f"{median_of(own, lambda each: each.p50):.0f}",
        f"{median_of(own, lambda each: each.p95):.0f}",
        f"{median_of(own, lambda each: each.hosts_used):.0f}",
        *(f"{_cpu_ms(own, service):.1f}" for service in ("scheduler", "placement", "mariadb")),
    )


def _cpu_ms(results: Sequence[Result], service: str) -> float:
    return median_of(results, lambda each: each.cpu[service] / max(1, each.instances) * 1000)


def _conditions(results: Sequence[Result]) -> list[str]:
    rounds = {each.round for each in results}
    others = [each.others for each in results]
    memory = {
        scheduler: max(each.memory_mb for each in results if each.scheduler == scheduler)
        for scheduler in _in_order(each.scheduler for each in results)
    }
    return [
        f"{results[0].hosts} hosts, {len(rounds)} rounds; medians of the rounds.",
        f"Programs outside the rig used {median(others):.1f} cores in the median, {max(others):.1f} at most.",
        "Memory in MiB: " + "; ".join(f"{name}: {size:.0f}" for name, size in memory.items()) + ".",
    ]


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
