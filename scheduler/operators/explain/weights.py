"""The weights of the best hosts, as differences to the best."""

from collections.abc import Mapping, Sequence

from scheduler.decisions import rendering
from scheduler.decisions.document import CHOSEN, PASSED
from scheduler.operators.shown.shown import Link, Table

#: The share of the largest part of a weight below which a difference is called equal.
EQUAL = 0.01

#: What each weigher adds to a difference.
Differences = Sequence[tuple[str, float]]


def weights(hosts: Sequence[rendering.Host], links: Mapping[str, str]) -> Table | None:
    """Return the best hosts with their differences; None if there are none to compare."""
    ranked = sorted((one for one in hosts if one.total is not None), key=lambda one: -(one.total or 0.0))
    if len(ranked) < 2:
        return None
    found = differences(ranked)
    rows = []
    for one, each in zip(ranked, found, strict=True):
        total = (one.total or 0.0) - (ranked[0].total or 0.0)
        is_best = one is ranked[0]
        by_weigher = ", ".join(f"{name} {_signed(added)}" for name, added in each)
        rows.append(
            (
                Link(one.host, links.get(one.host, "")),
                "" if one.outcome == PASSED else one.outcome,
                f"{one.total:.4g}",
                "best" if is_best else _signed(total) if each else "equal",
                by_weigher,
            )
        )
    return Table(
        ("Host", "Outcome", "Weight", "Difference", "By weigher"),
        rows,
        "Weights of the best hosts",
        "As differences to the best host. Differences below 1 % of the largest weight are called equal.",
        numbers=("Weight", "Difference"),
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


def _signed(number: float) -> str:
    return f"{number:+.3g}".replace("-", "\N{MINUS SIGN}")
