"""One INFO line for each decision: the request, the result and the time.

The lines are made of plain values, and begin with words that operators search for: ``Placed instance`` and
``No host for instance``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
import re
from typing import NamedTuple

from scheduler.logs import count_text

_AMOUNTS = re.compile(r"resources(?P<group>.*)")


class PlacedOn(NamedTuple):
    """Where an instance was placed: the service host and the uuid of its cell."""

    host: str
    cell_uuid: str


@dataclass
class DecisionCounts:
    """What the line on a decision says; filled in while hosts are chosen.

    Attributes:
        amounts: The amounts in the query, as ``amounts_of`` returns it.
        candidates: The number of hosts that Placement offers, or that are checked.
        passed: The number of hosts that passed the filters for the first instance.
        tries: How many hosts were claimed, by instance uuid.
        places: Where the instances were placed, in their order.
        notes: What a user may not expect of the request, in a sentence each.
    """

    amounts: str = ""
    candidates: int = 0
    passed: int = 0
    tries: Counter[str] = field(default_factory=Counter)
    places: Sequence[PlacedOn] = ()
    notes: list[str] = field(default_factory=list)


def amounts_of(params: Iterable[tuple[str, str]]) -> str:
    """Return the amounts of a query, such as ``DISK_GB:20 MEMORY_MB:2048 VCPU:1``.

    Args:
        params: The parameters of the query. A suffixed group is named before its amounts.
    """
    parts = []
    for name, value in params:
        if match := _AMOUNTS.fullmatch(name):
            group = f"{match['group'].lstrip('_')}=" if match["group"] else ""
            parts.append(group + value.replace(",", " "))
    return "; ".join(parts)


def placed_lines(
    instance_uuids: Sequence[str],
    counts: DecisionCounts,
    seconds: float,
    cell_names: Mapping[str, str | None],
) -> Iterable[str]:
    """Yield a line for each instance of a request that was placed."""
    for uuid, place in zip(instance_uuids, counts.places, strict=False):
        cell = cell_names.get(place.cell_uuid) or place.cell_uuid
        numbers = _numbers(counts, counts.tries[uuid], seconds)
        yield f"Placed instance {uuid} on host {place.host} ({cell}): {numbers}"


def refused_line(instance_uuids: Sequence[str], counts: DecisionCounts, seconds: float, reason: str) -> str:
    first = instance_uuids[0] if instance_uuids else "none"
    more = f" and {len(instance_uuids) - 1} more" if len(instance_uuids) > 1 else ""
    numbers = _numbers(counts, counts.tries.total(), seconds)
    return f"No host for instance {first}{more}: {numbers}: {reason.strip()}"


def _numbers(counts: DecisionCounts, tries: int, seconds: float) -> str:
    amounts = f", {counts.amounts}" if counts.amounts else ""
    hosts = f"{count_text(counts.candidates, 'candidate')} -> {counts.passed} passed"
    return f"{hosts}, {count_text(tries, 'try', 'tries')}, {1000 * seconds:.0f} ms{amounts}"
