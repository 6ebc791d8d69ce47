"""Results as tables: medians of the rounds, and how many times as good as nova-scheduler."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

from tools.side_by_side.contenders import BERTH, NOVA, REFRESHING, UNREFRESHED
from tools.side_by_side.measuring import IDLE, SINGLE, Result

Key = TypeVar("Key")

_HEADINGS = ("", "instances/s", "ratio", "p50 ms", "p95 ms", "hosts", "CPU ms", "Placement", "MariaDB")
_LINE = "{:<24}{:>12}{:>8}{:>10}{:>10}{:>7}{:>9}{:>11}{:>9}"


def table(results: Sequence[Result]) -> str:
    """Return the tables: an overview, and one for each load.

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
    return "\n".join([*_conditions(results), *_overview(results), *lines, *_untrue(results)]) + "\n"


class _Figure(NamedTuple):
    """A line of the overview: a value of a load, which is named with its callers."""

    name: str
    case: tuple[str, int]
    value: Callable[[Result], float]
    more_is_better: bool = False


def _overview(results: Sequence[Result]) -> list[str]:
    """Return a line for each figure, with columns for nova-scheduler and Berth; else for what there is."""
    measured = _in_order(each.scheduler for each in results)
    names = [name for name in (NOVA, BERTH) if name in measured] or measured
    ratio = len({NOVA, BERTH} & set(names)) == 2
    form = "{:<34}" + "{:>20}" * len(names) + "{:>8}" * ratio
    lines = ["", form.format("", *names, *["ratio"] * ratio)]
    for figure in _figures(results):
        of_case = [each for each in results if (each.case, each.callers) == figure.case]
        found = {name: [figure.value(each) for each in of_case if each.scheduler == name] for name in names}
        values = {name: median(each) for name, each in found.items() if each}
        shown = [f"{values[name]:,.2f}" if name in values else "" for name in names]
        lines.append(form.format(figure.name, *shown, *[_times(figure, values)] * ratio))
    return [*lines, *_refreshing(results)]


def _figures(results: Sequence[Result]) -> Iterable[_Figure]:
    cases = _in_order((each.case, each.callers) for each in results)
    for case in cases:
        name, callers = case
        if name == SINGLE and callers > 1:
            yield _Figure(f"{callers} callers, instances/s", case, lambda each: each.throughput, True)
        elif name != IDLE:
            yield _Figure(f"{name if name != SINGLE else '1 caller'}, p50 ms", case, lambda each: each.p50)
    for name, callers in cases:
        if name == SINGLE:
            for service, title in (("scheduler", "own CPU"), ("placement", "CPU of Placement")):
                yield _Figure(f"{callers} at once, {title}, ms", (name, callers), _cpu_of(service))
    last = [case for case in cases if case[0] != IDLE][-1]
    yield _Figure("start to first answer, s", last, lambda each: each.first_answer)
    yield _Figure("memory after the last load, MiB", last, lambda each: each.memory_mb)
    if (IDLE, 0) in cases:
        yield _Figure("idle, % of a core", (IDLE, 0), lambda each: each.cpu["scheduler"] / each.seconds * 100)


def _times(figure: _Figure, values: dict[str, float]) -> str:
    if not {NOVA, BERTH} <= values.keys() or not values[NOVA] or not values[BERTH]:
        return ""
    times = values[BERTH] / values[NOVA]
    return f"{times if figure.more_is_better else 1 / times:.1f}"


def _refreshing(results: Sequence[Result]) -> Iterable[str]:
    """Yield a line for each number of callers for which it was measured what a refresh costs."""
    for callers in sorted({each.callers for each in results if each.case == SINGLE}):
        of_case = [each for each in results if (each.case, each.callers) == (SINGLE, callers)]
        slow, quick = (
            [each.p95 for each in of_case if each.scheduler == name] for name in (REFRESHING, UNREFRESHED)
        )
        if slow and quick:
            yield (
                f"{callers} at once, p95 while it refreshes all the time: {median(slow):.0f} ms,"
                f" {median(slow) / median(quick):.2f} times that without a refresh"
            )


def _cpu_of(service: str) -> Callable[[Result], float]:
    return lambda each: each.cpu[service] / max(1, each.instances) * 1000


def ratios(results: Sequence[Result], scheduler: str) -> list[float]:
    """Return the ratios of throughputs to nova-scheduler's, one for each round with both."""
    nova = {each.round: each.throughput for each in results if each.scheduler == NOVA}
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
    return median_of(results, _cpu_of(service))


def _conditions(results: Sequence[Result]) -> list[str]:
    rounds = {each.round for each in results}
    others = [each.others for each in results]
    memory = {
        scheduler: max(each.memory_mb for each in results if each.scheduler == scheduler)
        for scheduler in _in_order(each.scheduler for each in results)
    }
    return [
        f"{results[0].hosts} hosts, {results[0].filled} instances before; medians of {len(rounds)} rounds.",
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
