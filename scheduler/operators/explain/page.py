"""A decision as one self-contained HTML page, readable without JavaScript.

The text is in templates/decision.html; here is the geometry of the pictures. All lengths are percent of the
width of a picture.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple
from urllib.parse import parse_qsl

from scheduler.decisions import rendering
from scheduler.decisions.document import Decision
from scheduler.decisions.failure_cause import cause_of
from scheduler.operators.explain.requested import requested_lines
from scheduler.operators.pages import frame

#: Classes of colours for weighers; the last one is for all others.
COLOURS = 8

#: The width of the narrowest visible bar.
NARROWEST = 0.4


class Row(NamedTuple):
    """One row of the funnel: a stage, or several stages that rejected no host.

    Attributes:
        stage: The stage, or the first of several.
        before: The width for the hosts before, and ``after`` for those that are left.
        names: The names of several stages.
        deciding: Whether it left no host.
    """

    stage: rendering.Stage
    before: float
    after: float
    names: Sequence[str] = ()
    deciding: bool = False


class Segment(NamedTuple):
    """What one weigher adds to a difference (it may be negative): colour, begin and width."""

    weigher: str
    colour: int
    start: float
    width: float
    weighted: float


class WeightRow(NamedTuple):
    """The weight of one host, its difference to the best, and what each weigher adds to the difference."""

    host: str
    outcome: str
    total: float
    difference: float
    segments: Sequence[Segment]


class Weights(NamedTuple):
    """The weights of the best hosts: where zero is, and the number of the colour of each weigher."""

    zero: float
    colours: Mapping[str, int]
    rows: Sequence[WeightRow]


def render(
    decision: Decision,
    source: str,
    most_hosts: int | None,
    links: Mapping[str, str] | None = None,
    home: str = "",
) -> str:
    """Return a decision as HTML.

    Args:
        most_hosts: Maximum number of hosts in the table; None: all that are named.
        home: The address of the list of decisions; "" if there is none.
    """
    hosts = list(rendering.hosts(decision))
    return frame.render(
        "scheduler.operators.explain",
        "decision.html",
        decision=decision,
        result=rendering.result(decision),
        cause=cause_of(decision),
        flavor_text=rendering.flavor(decision.flavor),
        source=source,
        requested=list(requested_lines(decision)),
        queries=[list(query_terms(query)) for query in decision.queries],
        rows=funnel_rows(list(rendering.funnel(decision)), failed=decision.error is not None),
        weights=weight_bars(hosts),
        hosts=hosts[:most_hosts],
        hosts_total=rendering.hosts_total(decision),
        links=links or {},
        home=home,
    )


def query_terms(query: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the parameters of a query for Placement, and their values; the amounts one by one."""
    for name, value in parse_qsl(query, keep_blank_values=True):
        is_list = name.startswith(("resources", "required", "root_required"))
        yield name, value.split(",") if is_list else [value]


def funnel_rows(stages: Sequence[rendering.Stage], *, failed: bool) -> list[Row]:
    """Return the rows of the funnel.

    Args:
        stages: The stages; the bars of all but claims are on one scale.
        failed: Whether the first stage that left no host decided the request.
    """
    counts = [max(_entered(stage), stage.end) for stage in stages if stage.kind != "claims"]
    most = max(counts, default=0) or 1
    decided = next((number for number, stage in enumerate(stages) if failed and not stage.end), None)
    rows = []
    for idle, numbers in groupby(range(len(stages)), lambda number: _is_idle(stages[number])):
        group = [
            Row(
                stages[number],
                _width(_entered(stages[number]) / most),
                _width(stages[number].end / most),
                deciding=number == decided,
            )
            for number in numbers
        ]
        names = [row.stage.name for row in group]
        rows += [group[0]._replace(names=names)] if idle and len(group) > 1 else group
    return rows


def _is_idle(stage: rendering.Stage) -> bool:
    return stage.kind not in {"candidates", "claims"} and stage.start == stage.end


def weight_bars(hosts: Sequence[rendering.Host]) -> Weights:
    """Return the stacked bars of the best hosts, on one scale: the differences to the best host."""
    ranked = sorted((host for host in hosts if host.total is not None), key=lambda host: -(host.total or 0.0))
    best = dict(ranked[0].weights) if ranked else {}
    differences = [
        [(name, added - best.get(name, 0.0)) for name, added in host.weights if added != best.get(name, 0.0)]
        for host in ranked
    ]
    names = list(dict.fromkeys(name for each in differences for name, _ in each))
    colours = {name: min(number, COLOURS - 1) for number, name in enumerate(names)}
    below = max((_sum(each, -1) for each in differences), default=0.0)
    above = max((_sum(each, 1) for each in differences), default=0.0)
    whole = below + above
    zero = _percent(below, whole)
    rows = [
        WeightRow(
            host.host,
            host.outcome,
            host.total or 0.0,
            (host.total or 0.0) - (ranked[0].total or 0.0),
            _segments(each, zero, whole, colours),
        )
        for host, each in zip(ranked, differences, strict=True)
    ]
    return Weights(zero, colours, rows)


def _segments(
    differences: Sequence[tuple[str, float]], zero: float, whole: float, colours: Mapping[str, int]
) -> list[Segment]:
    found = []
    left = right = zero
    for weigher, weighted in differences:
        width = _percent(abs(weighted), whole)
        if weighted < 0:
            left -= width
        found.append(Segment(weigher, colours[weigher], left if weighted < 0 else right, width, weighted))
        if weighted > 0:
            right += width
    return found


def _sum(differences: Sequence[tuple[str, float]], sign: int) -> float:
    """Return the sum of the differences of a sign, which is not negative."""
    return sum(sign * weighted for _, weighted in differences if sign * weighted > 0)


def _percent(part: float, whole: float) -> float:
    # the quotient first: 100 divided by the smallest floats is infinite
    return 100 * (part / whole) if whole else 0.0


def _entered(stage: rendering.Stage) -> int:
    return stage.end if stage.start is None else stage.start


def _width(share: float) -> float:
    return max(100 * share, NARROWEST) if share else 0.0
