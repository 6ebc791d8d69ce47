"""A decision as one HTML page that needs nothing else: it can be sent, kept, and read without JavaScript.

The text is in templates/decision.html; here is what it needs besides the document: the geometry of the
pictures. All lengths are percent of the width of a picture.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import to_builtins

from scheduler.explain import rendering
from scheduler.explain.document import Decision
from scheduler.explain.requested import requested_lines

#: Classes of colours that weighers share among them; the last one is for all that come after.
COLOURS = 8

#: The narrowest bar that can be seen.
NARROWEST = 0.4


class Bar(NamedTuple):
    """One bar of the funnel: a stage, and the widths for the hosts that entered and left it."""

    stage: rendering.Stage
    entered: float
    left: float


class Segment(NamedTuple):
    """What one weigher adds to a host, perhaps negative: its colour, where it begins, and its width."""

    weigher: str
    colour: int
    start: float
    width: float
    weighted: float


class WeightRow(NamedTuple):
    """The weights of one host: its total, and what each weigher adds; negative ones left of zero."""

    host: str
    total: float
    segments: Sequence[Segment]


class Weights(NamedTuple):
    """The weights of the best hosts: where zero is, and the number of the colour of each weigher."""

    zero: float
    colours: Mapping[str, int]
    rows: Sequence[WeightRow]


def render(decision: Decision, source: str, most_hosts: int | None) -> str:
    """Return a decision as HTML.

    Args:
        most_hosts: Hosts in the table; None: all that are named.
    """
    pages = Environment(
        loader=PackageLoader("scheduler.explain"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hosts = list(rendering.hosts(decision))
    return pages.get_template("decision.html").render(
        decision=decision,
        flavor=to_builtins(decision.flavor),
        source=source,
        requested=list(requested_lines(decision)),
        bars=funnel_bars(list(rendering.funnel(decision))),
        weights=weight_bars(hosts),
        hosts=hosts[:most_hosts],
        hosts_total=rendering.hosts_total(decision),
    )


def funnel_bars(stages: Sequence[rendering.Stage]) -> list[Bar]:
    """Return the bars of the stages that hosts pass; claims are no part of the funnel."""
    of_hosts = [stage for stage in stages if stage.kind != "claims"]
    most = max((max(_entered(stage), stage.end) for stage in of_hosts), default=0) or 1
    return [Bar(stage, _width(_entered(stage) / most), _width(stage.end / most)) for stage in of_hosts]


def weight_bars(hosts: Sequence[rendering.Host]) -> Weights:
    """Return the stacked bars of the best hosts, on one scale."""
    best = sorted((host for host in hosts if host.total is not None), key=lambda host: -(host.total or 0.0))
    names = list(dict.fromkeys(name for host in best for name, _ in host.weights))
    colours = {name: min(number, COLOURS - 1) for number, name in enumerate(names)}
    below = max((-_sum(host, negative=True) for host in best), default=0.0)
    above = max((_sum(host, negative=False) for host in best), default=0.0)
    whole = below + above
    zero = _percent(below, whole)
    rows = [WeightRow(host.host, host.total or 0.0, _segments(host, zero, whole, colours)) for host in best]
    return Weights(zero, colours, rows)


def _segments(host: rendering.Host, zero: float, whole: float, colours: Mapping[str, int]) -> list[Segment]:
    found = []
    left = right = zero
    for weigher, weighted in host.weights:
        width = _percent(abs(weighted), whole)
        if weighted < 0:
            left -= width
        found.append(Segment(weigher, colours[weigher], left if weighted < 0 else right, width, weighted))
        if weighted > 0:
            right += width
    return found


def _sum(host: rendering.Host, *, negative: bool) -> float:
    return sum(weighted for _, weighted in host.weights if (weighted < 0) is negative)


def _percent(part: float, whole: float) -> float:
    # divided first: 100 divided by the smallest floats is infinite
    return 100 * (part / whole) if whole else 0.0


def _entered(stage: rendering.Stage) -> int:
    return stage.end if stage.start is None else stage.start


def _width(share: float) -> float:
    return max(100 * share, NARROWEST) if share else 0.0
