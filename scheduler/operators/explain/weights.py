"""The weights of the best hosts, as differences to the best. All lengths are percent of the width."""

from collections.abc import Mapping, Sequence

from scheduler.decisions import rendering
from scheduler.decisions.document import CHOSEN, PASSED
from scheduler.operators.shown.shown import Link, Segment, Segments, Table

#: Classes of colours for weighers; the last one is for all others.
COLOURS = 8

#: The share of the largest part of a weight below which a difference is called equal.
EQUAL = 0.01

#: What each weigher adds to a difference.
Differences = Sequence[tuple[str, float]]


def weights(hosts: Sequence[rendering.Host], links: Mapping[str, str]) -> Table | None:
    """Return the best hosts with a bar of the differences; None if there are none to compare."""
    ranked = sorted((one for one in hosts if one.total is not None), key=lambda one: -(one.total or 0.0))
    if len(ranked) < 2:
        return None
    found = differences(ranked)
    names = list(dict.fromkeys(name for each in found for name, _ in each))
    colours = {name: min(number, COLOURS - 1) for number, name in enumerate(names)}
    pictures = segments(found, colours)
    rows = []
    for one, each, picture in zip(ranked, found, pictures, strict=True):
        total = (one.total or 0.0) - (ranked[0].total or 0.0)
        is_best = one is ranked[0]
        by_weigher = ", ".join(f"{name} {_signed(added)}" for name, added in each)
        rows.append(
            (
                Link(one.host, links.get(one.host, "")),
                "" if one.outcome == PASSED else one.outcome,
                f"{one.total:.4g}",
                "best" if is_best else _signed(total) if each else "equal",
                picture if each else "",
                by_weigher,
            )
        )
    return Table(
        ("Host", "Outcome", "Weight", "Difference", "Picture", "By weigher"),
        rows,
        "Weights of the best hosts",
        "As differences to the best host; what a host lacks is left of the line. Differences below 1 % of "
        "the largest weight are called equal.",
        numbers=("Weight", "Difference"),
        pictures=("Picture",),
        legend=[(f"c{colour}", name) for name, colour in colours.items()],
        looks={number: CHOSEN for number, one in enumerate(ranked) if one.outcome == CHOSEN},
        only_on_page=True,
    )


def differences(ranked: Sequence[rendering.Host]) -> list[Differences]:
    """Return what each weigher adds to the difference to the first host; nothing for equal weights."""
    best = dict(ranked[0].weights)
    largest = max((abs(added) for one in ranked for _, added in one.weights), default=0.0)
    found: list[Differences] = []
    for one in ranked:
        each = [(name, added - best.get(name, 0.0)) for name, added in one.weights]
        each = [(name, added) for name, added in each if added]
        found.append([] if all(abs(added) < EQUAL * largest for _, added in each) else each)
    return found


def segments(found: Sequence[Differences], colours: Mapping[str, int]) -> list[Segments]:
    """Return the bar of each host, all on one scale."""
    below = max((_sum(each, -1) for each in found), default=0.0)
    above = max((_sum(each, 1) for each in found), default=0.0)
    whole = below + above
    zero = _percent(below, whole)
    return [
        Segments(
            zero,
            _segments(each, zero, whole, colours),
            ", ".join(f"{name} {_signed(added)}" for name, added in each) or "equal",
        )
        for each in found
    ]


def _segments(parts: Differences, zero: float, whole: float, colours: Mapping[str, int]) -> list[Segment]:
    found = []
    left = right = zero
    for weigher, added in parts:
        width = _percent(abs(added), whole)
        if added < 0:
            left -= width
        start = left if added < 0 else right
        found.append(Segment(start, width, colours[weigher], f"{weigher} {_signed(added)}"))
        if added > 0:
            right += width
    return found


def _sum(parts: Differences, sign: int) -> float:
    """Return the sum of the differences of a sign, which is not negative."""
    return sum(sign * added for _, added in parts if sign * added > 0)


def _percent(part: float, whole: float) -> float:
    # the quotient first: 100 divided by the smallest floats is infinite
    return 100 * (part / whole) if whole else 0.0


def _signed(number: float) -> str:
    return f"{number:+.3g}".replace("-", "\N{MINUS SIGN}")
