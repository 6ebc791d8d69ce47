"""A result as text."""

from collections.abc import Iterator, Mapping

from tools.partitions.results import TARGET, Result, Row, Spread

_ROW = "{:<11}{:<14}{:>9}{:>11}{:>8}{:>8}{:>8}{:>9}{:>8}{:>8}{:>8}"
_PROGRAM = "{:<22}{:>8}{:>13}{:>9}{:>9}"


def text(result: Result) -> str:
    """Return the report on a run."""
    return (
        "\n".join([*_conditions(result), "", *_waits(result), "", *_events(result), "", *_programs(result)])
        + "\n"
    )


def _conditions(result: Result) -> Iterator[str]:
    parts = " and ".join(f"{name} ({number:,})" for name, number in result.hosts.items())
    yield (
        f"{sum(result.hosts.values()):,} hosts in {result.cells} cells, in the partitions {parts},"
        f" {result.schedulers} schedulers each, {result.routers} router(s)"
    )
    yield (
        f"{result.built:,} of {result.instances - result.asked_again:,} instances built in"
        f" {result.seconds:.1f} s, {result.rate:.1f} a second; all had hosts after {result.answered:.1f} s"
    )
    yield f"All within {TARGET // 60} minutes: {'yes' if result.in_time else 'NO'}"
    setup = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in result.setup.items())
    yield f"Start: {setup}. Programs outside used {result.others:.1f} cores."


def _waits(result: Result) -> Iterator[str]:
    yield _ROW.format("", "", "", "", "to host", "", "", "to built", "", "", "")
    spread = ("p50 s", "p95 s", "max s")
    yield _ROW.format("partition", "kind", "requests", "instances", *spread, *spread, "hosts")
    for row in result.rows:
        yield _row(row)


def _row(row: Row) -> str:
    return _ROW.format(
        row.partition,
        row.kind,
        row.requests,
        row.instances,
        *_seconds(row.to_host),
        *_seconds(row.to_built),
        row.hosts,
    )


def _seconds(spread: Spread) -> list[str]:
    return [f"{value:.2f}" for value in spread]


def _events(result: Result) -> Iterator[str]:
    yield (
        f"Builds on an alternate: {result.retries}, alternates refused: {result.refused_alternates},"
        f" asked again without the failed hosts: {result.asked_again}"
    )
    yield f"Deadlocks in MariaDB, after each of which Placement sleeps for a second: {result.deadlocks}"
    yield f"Not built: {_counted(result.errors) or 'none'}"
    for names, at, back in result.kills:
        yield f"Killed at {at:.1f} s: {', '.join(names)}; all took requests again at {back:.1f} s"
    yield f"Instances placed by: {_counted(result.placed)}"
    sent = {name: _counted(reasons) for name, reasons in result.sent_on.items() if reasons}
    yield "Requests sent on by: " + (
        "; ".join(f"{name} ({reasons})" for name, reasons in sent.items()) or "none"
    )
    yield from _truth(result)


def _truth(result: Result) -> Iterator[str]:
    if not result.problems:
        yield "True: each instance holds exactly its allocation, nothing else is held, no host is"
        yield "over-committed, zones and anti-affinity are kept."
    for problem in result.problems:
        yield f"NOT TRUE: {problem}"


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def _programs(result: Result) -> Iterator[str]:
    yield _PROGRAM.format("program", "CPU s", "ms a build", "cores", "MiB")
    for name, seconds in {**result.cpu, "in all": sum(result.cpu.values())}.items():
        yield _PROGRAM.format(
            name,
            f"{seconds:.1f}",
            f"{1000 * seconds / max(1, result.built):.1f}",
            f"{seconds / max(result.seconds, 0.001):.2f}",
            f"{result.memory_mb.get(name, sum(result.memory_mb.values())):.0f}",
        )
