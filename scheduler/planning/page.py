"""A plan as one HTML page that needs nothing else, with pictures; readable on a telephone too.

The text is in templates/plan.html; here is the geometry of the pictures, in percent of their width.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.pages import frame

Plan = Mapping[str, Any]
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]

#: Bars of one picture, and rows of one table.
MOST_BARS = 40
MOST_ROWS = 2000


class Bar(NamedTuple):
    """One row of a picture: two widths from the left, the second over the first.

    Attributes:
        label: What it is of.
        whole: The width of the pale bar.
        part: The width of the strong bar.
        text: The text next to it.
        bad: Whether it is marked as bad.
    """

    label: str
    whole: float
    part: float
    text: str
    bad: bool = False


class Picture(NamedTuple):
    """Bars with a title.

    Attributes:
        title: What is drawn.
        pale: What the pale bars mean, and ``strong`` the strong ones; "" if there are none.
        bars: One for each row.
        more: Rows that are not drawn.
    """

    title: str
    pale: str
    strong: str
    bars: Sequence[Bar]
    more: int = 0


def _picture(title: str, pale: str, strong: str, bars: Sequence[Bar]) -> Picture:
    return Picture(title, pale, strong, bars[:MOST_BARS], max(0, len(bars) - MOST_BARS))


def _of_drain(plan: Plan) -> Iterator[Picture]:
    bars = [
        Bar(
            one["host"],
            100 * one["memory_used"]["after"],
            100 * one["memory_used"]["before"],
            f"{one['memory_used']['before']:.0%} → {one['memory_used']['after']:.0%}, +{one['instances']}",
        )
        for one in plan["targets"]
    ]
    yield _picture("Memory in use of the hosts that get instances", "after", "before", bars)


def _of_survive(plan: Plan) -> Iterator[Picture]:
    most = max((one["instances"] for one in plan["answers"]), default=1) or 1
    bars = [
        Bar(
            one["domain"],
            100 * one["instances"] / most,
            100 * one["placed"] / most,
            f"{one['placed']} of {one['instances']} placed",
            one["placed"] < one["instances"],
        )
        for one in plan["answers"]
    ]
    yield _picture("Instances of each failure", "on the failed hosts", "placed on the rest", bars)


def _histogram(title: str, before: Plan, after: Plan, words: tuple[str, str]) -> Picture:
    first, second = before["hosts_by_tenth_used"], after["hosts_by_tenth_used"]
    most = max([*first, *second, 1])
    bars = [
        Bar(
            f"{10 * tenth}-{10 * tenth + 10} %",
            100 * first[tenth] / most,
            100 * second[tenth] / most,
            f"{first[tenth]} → {second[tenth]} hosts",
        )
        for tenth in range(len(first))
    ]
    return _picture(title, *words, bars)


def _of_balance(plan: Plan) -> Iterator[Picture]:
    yield _histogram("Hosts by share of memory in use", plan["before"], plan["after"], ("before", "after"))


def _of_policy(plan: Plan) -> Iterator[Picture]:
    now, then = plan["sides"]["now"], plan["sides"]["changed"]
    yield _histogram("Hosts by share of memory in use", now, then, ("options in use", "changed options"))


def _of_capacity(plan: Plan) -> Iterator[Picture]:
    most = max((one["instances"] for one in plan["places"]), default=1) or 1
    bars = [
        Bar(
            f"{one['cell']} {one['zone']}",
            0.0,
            100 * one["instances"] / most,
            str(one["instances"]),
            not one["instances"],
        )
        for one in plan["places"]
    ]
    yield _picture("Instances that fit", "", "", bars)


def _of_capacities(plan: Plan) -> Iterator[Picture]:
    totals = [
        (one["flavor"], sum(zone["instances"] for zone in one["zones"]), one["headroom"])
        for one in plan["flavors"]
    ]
    most = max((total for _, total, _ in totals), default=1) or 1
    bars = [
        Bar(
            name, 100 * total / most, 100 * headroom / most, f"{total}, {headroom} after a loss", not headroom
        )
        for name, total, headroom in totals
    ]
    yield _picture("Instances that fit", "now", "after the loss of any one host", bars)


def _of_dry_run(plan: Plan) -> Iterator[Picture]:
    stages = plan["why"]["stages"]
    most = max((one["before"] for one in stages), default=1) or 1
    bars = [
        Bar(
            one["name"],
            100 * one["before"] / most,
            100 * one["after"] / most,
            f"{one['before']} → {one['after']}",
            not one["after"],
        )
        for one in stages
    ]
    yield _picture("Hosts, step by step", "before", "left", bars)


PICTURES: Mapping[str, Callable[[Plan], Iterator[Picture]]] = {
    "drain": _of_drain,
    "survive": _of_survive,
    "balance": _of_balance,
    "policy": _of_policy,
    "capacity": _of_capacity,
    "capacities": _of_capacities,
    "dry-run": _of_dry_run,
}

TITLES = {
    "drain": "Emptying hosts",
    "survive": "Losing hosts",
    "balance": "Moves that help",
    "policy": "Other options",
    "capacity": "What still fits",
    "capacities": "What still fits",
    "dry-run": "A request now",
}


#: What a table is called, by its first column.
HEADINGS = {
    "": "Before and after",
    "Step": "Moves",
    "Instance": "Instances",
    "Failure": "Failures",
    "Flavor": "Flavors",
    "Cell": "Places",
    "Stage": "Stages",
}


def render(plan: Plan, head: Sequence[str], tables: Sequence[Table]) -> str:
    """Return the page of a plan.

    Args:
        tables: Column names and rows of each table.
    """
    shown = [(columns, rows) for columns, rows in tables if rows]
    return frame.render(
        "scheduler.planning",
        "plan.html",
        title=TITLES[plan["plan"]],
        good=plan["all_placed"],
        head=head,
        pictures=[each for each in PICTURES[plan["plan"]](plan) if each.bars],
        tables=[
            (HEADINGS.get(columns[0], columns[0]), columns, rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS))
            for columns, rows in shown
        ],
        numbers=[list(_numbers(*one)) for one in shown],
    )


def _numbers(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        if all(isinstance(cell, int | float) or cell == "" for cell in cells):
            yield column
