"""An explanation as one HTML page that needs nothing else: it can be sent, kept, and read without JavaScript.

The text is in templates/decision.html; here is what it needs beside the document: the geometry of the
pictures. All lengths are percent of the width of a picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from scheduler.explain.requested import requested_lines

Document = Mapping[str, Any]

#: Classes of colours that weighers share among them; the last one is for all that come after.
COLOURS = 8

#: The narrowest bar that can be seen.
NARROWEST = 0.4


@dataclass(frozen=True)
class Bar:
    """One bar of the funnel: what entered a stage and what left it.

    Attributes:
        stage: The stage as in the document.
        entered: Width for the hosts that entered.
        left: Width for the hosts that left.
    """

    stage: Document
    entered: float
    left: float


@dataclass(frozen=True)
class Segment:
    """What one weigher adds to a host.

    Attributes:
        weigher: The name of the weigher.
        colour: The number of its colour.
        start: Where it begins.
        width: How wide it is.
        weighted: The weight, positive or negative.
    """

    weigher: str
    colour: int
    start: float
    width: float
    weighted: float


@dataclass(frozen=True)
class WeightRow:
    """The weights of one host.

    Attributes:
        host: Its name.
        total: The sum.
        segments: What each weigher adds; negative ones left of zero.
    """

    host: str
    total: float
    segments: Sequence[Segment]


@dataclass(frozen=True)
class Weights:
    """The weights of the best hosts.

    Attributes:
        zero: Where zero is.
        colours: The number of the colour of each weigher.
        rows: One for each host.
    """

    zero: float
    colours: Mapping[str, int]
    rows: Sequence[WeightRow]


def render(explained: Document) -> str:
    """Return an explanation of a decision as HTML."""
    pages = Environment(
        loader=PackageLoader("scheduler.explain"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    decision = explained["decision"]
    return pages.get_template("decision.html").render(
        explained=explained,
        decision=decision,
        requested=list(requested_lines(decision)),
        bars=funnel_bars(explained["funnel"]),
        weights=weight_bars(decision["best"]),
    )


def funnel_bars(stages: Sequence[Document]) -> list[Bar]:
    """Return the bars of the stages that hosts pass; claims are no part of the funnel."""
    of_hosts = [stage for stage in stages if stage["stage"] != "claims"]
    most = max((max(_entered(stage), stage["end"] or 0) for stage in of_hosts), default=0) or 1
    return [
        Bar(stage, _width(_entered(stage) / most), _width((stage["end"] or 0) / most)) for stage in of_hosts
    ]


def weight_bars(best: Sequence[Document]) -> Weights:
    """Return the stacked bars of the best hosts, on one scale."""
    names = list(dict.fromkeys(one["weigher"] for host in best for one in host["weights"]))
    colours = {name: min(number, COLOURS - 1) for number, name in enumerate(names)}
    below = max((-_sum(host, negative=True) for host in best), default=0.0)
    above = max((_sum(host, negative=False) for host in best), default=0.0)
    whole = below + above
    zero = _percent(below, whole)
    rows = [WeightRow(host["host"], host["total"], _segments(host, zero, whole, colours)) for host in best]
    return Weights(zero, colours, rows)


def _segments(host: Document, zero: float, whole: float, colours: Mapping[str, int]) -> list[Segment]:
    found = []
    left = right = zero
    for one in host["weights"]:
        weighted = one["weighted"]
        width = _percent(abs(weighted), whole)
        if weighted < 0:
            left -= width
        found.append(
            Segment(one["weigher"], colours[one["weigher"]], left if weighted < 0 else right, width, weighted)
        )
        if weighted > 0:
            right += width
    return found


def _sum(host: Document, *, negative: bool) -> float:
    return sum(one["weighted"] for one in host["weights"] if (one["weighted"] < 0) is negative)


def _percent(part: float, whole: float) -> float:
    # divided first: 100 divided by the smallest floats is infinite
    return 100 * (part / whole) if whole else 0.0


def _entered(stage: Document) -> int:
    return stage["end"] if stage["start"] is None else stage["start"]


def _width(share: float) -> float:
    return max(100 * share, NARROWEST) if share else 0.0
