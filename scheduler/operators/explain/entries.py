"""A list of decisions as it is shown."""

from collections.abc import Sequence
from typing import Any

from scheduler.decisions.rendering import NAMED, first
from scheduler.operators.shown.shown import Head, Shown, Table

Document = dict[str, Any]


def shown(found: Sequence[Document]) -> Shown:
    rows = [
        (
            one["time"][:19] + "Z",
            one["request_id"],
            first(one["instances"], 1),
            one["flavor"]["name"] or "",
            one["result"],
            one["summary"] or first(one["hosts"], NAMED),
            f"{one['milliseconds']:.0f}",
        )
        for one in found
    ]
    columns = ("Time", "Request", "Instances", "Flavor", "Result", "Hosts or reason", "ms")
    table = Table(columns, rows, "Decisions", numbers=("ms",), searched=True)
    return Shown(found, Head("Latest decisions"), [table], _narrow(found))


def _narrow(found: Sequence[Document]) -> Table:
    rows = [
        (
            (one["request_id"], first(one["instances"], 1), one["time"][:19] + "Z"),
            f"{one['flavor']['name'] or 'flavor'} {one['result']}: "
            + (one["summary"] or first(one["hosts"], NAMED)),
        )
        for one in found
    ]
    return Table(("Request", "Result"), rows)
