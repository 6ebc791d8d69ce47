"""A plan as one HTML page that needs nothing else, with pictures; readable on a telephone too.

The text is in templates/plan.html; here is the geometry of the pictures, in percent of their width.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from scheduler.decisions.document import decode
from scheduler.operators.explain import page as decision_page
from scheduler.operators.pages import frame
from scheduler.operators.plan.text import SOURCE

Plan = Mapping[str, Any]
Table = tuple[Sequence[str], Sequence[Sequence[Any]]]

#: Bars of one picture, and rows of one table.
MOST_BARS = 40
MOST_ROWS = 2000


class Bar(NamedTuple):
    """One row of a picture: two widths from the left, the second over the first.

    Attributes:
        whole: The width of the pale bar.
        part: The width of the strong bar.
    """

    label: str
    whole: float
    part: float
    text: str
    bad: bool


class Picture(NamedTuple):
    """Bars with a title.

    Attributes:
        pale: What the pale bars mean, and ``strong`` the strong ones; "" if there are none.
        more: Rows that are not drawn.
    """

    title: str
    pale: str
    strong: str
    bars: Sequence[Bar]
    more: int = 0


#: Label, value of the pale bar, value of the strong bar, text, and whether it is marked as bad.
Values = tuple[str, float, float, str, bool]


def _picture(title: str, pale: str, strong: str, rows: Iterable[Values], most: float = 0) -> Picture:
    """Scale the values to ``most``, or to the largest of them."""
    rows = list(rows)
    most = most or max((max(whole, part) for _, whole, part, *_ in rows), default=1) or 1
    bars = [
        Bar(label, 100 * whole / most, 100 * part / most, text, bad) for label, whole, part, text, bad in rows
    ]
    return Picture(title, pale, strong, bars[:MOST_BARS], max(0, len(bars) - MOST_BARS))


def _of_drain(plan: Plan) -> Picture:
    used = ((one, one["memory_used"]["before"], one["memory_used"]["after"]) for one in plan["targets"])
    rows = (
        (one["host"], after, before, f"{before:.0%} → {after:.0%}, +{one['instances']}", False)
        for one, before, after in used
    )
    return _picture("Memory in use of the hosts that get instances", "after", "before", rows, 1)


def _of_survive(plan: Plan) -> Picture:
    counts = ((one["domain"], one["instances"], one["placed"]) for one in plan["answers"])
    rows = (
        (name, all_, placed, f"{placed} of {all_} placed", placed < all_) for name, all_, placed in counts
    )
    return _picture("Instances of each failure", "on the failed hosts", "placed on the rest", rows)


def _of_failures(plan: Plan) -> Picture:
    counts = (
        (one["kind"], one["domains"], one["survived"] + one["survived_by_hand"]) for one in plan["kinds"]
    )
    rows = ((name, all_, good, f"{good} of {all_}", good < all_) for name, all_, good in counts)
    return _picture("Failures that would be survived", "checked", "survived", rows)


def _histogram(before: Plan, after: Plan, pale: str, strong: str) -> Picture:
    counts = zip(before["hosts_by_tenth_used"], after["hosts_by_tenth_used"], strict=True)
    rows = (
        (f"{10 * tenth}-{10 * tenth + 10} %", first, second, f"{first} → {second} hosts", False)
        for tenth, (first, second) in enumerate(counts)
    )
    return _picture("Hosts by share of memory in use", pale, strong, rows)


def _of_balance(plan: Plan) -> Picture:
    return _histogram(plan["before"], plan["after"], "before", "after")


def _of_policy(plan: Plan) -> Picture:
    return _histogram(plan["sides"]["now"], plan["sides"]["changed"], "options in use", "changed options")


def _of_capacity(plan: Plan) -> Picture:
    counts = ((f"{one['cell']} {one['zone']}", one["instances"]) for one in plan["places"])
    return _picture("Instances that fit", "", "", ((name, 0, fit, str(fit), not fit) for name, fit in counts))


def _of_capacities(plan: Plan) -> Picture:
    counts = (
        (one["flavor"], sum(zone["instances"] for zone in one["zones"]), one["headroom"])
        for one in plan["flavors"]
    )
    rows = ((name, fit, left, f"{fit}, {left} after a loss", not left) for name, fit, left in counts)
    return _picture("Instances that fit", "now", "after the loss of any one host", rows)


PICTURES: Mapping[str, Callable[[Plan], Picture]] = {
    "drain": _of_drain,
    "survive": _of_survive,
    "failures": _of_failures,
    "balance": _of_balance,
    "policy": _of_policy,
    "capacity": _of_capacity,
    "capacities": _of_capacities,
}

TITLES = {
    "drain": "Emptying hosts",
    "survive": "Losing hosts",
    "failures": "What the cloud survives",
    "balance": "Moves that help",
    "policy": "Other options",
    "capacity": "What still fits",
    "capacities": "What still fits",
}


#: What a table is called, by its first column.
HEADINGS = {
    "": "Before and after",
    "Step": "Moves",
    "Instance": "Instances",
    "Failure": "Failures",
    "Flavor": "Flavors",
    "Flavor at risk": "Flavors",
    "Server group": "Server groups at risk",
    "Night": "The last nights",
    "Cell": "Places",
}


def render(plan: Plan, head: Sequence[str], tables: Sequence[Table]) -> str:
    """Return a plan as HTML; a dry run is the page of its decision."""
    if decided := plan.get("decision"):
        return decision_page.render(decode(msgspec.json.encode(decided)), SOURCE, None)
    shown = [(columns, rows) for columns, rows in tables if rows]
    return frame.render(
        "scheduler.operators.plan",
        "plan.html",
        title=TITLES[plan["plan"]],
        good=plan["all_placed"],
        head=head,
        pictures=[picture] if (picture := PICTURES[plan["plan"]](plan)).bars else [],
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
