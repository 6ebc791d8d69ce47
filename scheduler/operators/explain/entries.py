"""A list of decisions as it is shown."""

from collections.abc import Sequence
from typing import Any

from scheduler.decisions.rendering import NAMED, first
from scheduler.operators.shown.shown import Head, Shown, table

Document = dict[str, Any]


def shown(found: Sequence[Document]) -> Shown:
    decisions = table(
        found,
        {
            "Time": lambda one: one["time"][:19] + "Z",
            "Request": "request_id",
            "Instances": lambda one: first(one["instances"], 1),
            "Flavor": lambda one: one["flavor"]["name"],
            "Result": "result",
            "Hosts or reason": lambda one: one["summary"] or first(one["hosts"], NAMED),
            "ms": lambda one: f"{one['milliseconds']:.0f}",
        },
        "Decisions",
        numbers=("ms",),
        searched=True,
    )
    return Shown(found, Head("Latest decisions"), [decisions])
