"""One INFO line for each decision: the request, the result and the time.

The lines begin with words that operators search for: ``Placed instance`` and ``No host for instance``.
"""

from collections.abc import Iterable, Mapping, Sequence
import re

from scheduler.decisions.record import DecisionRecord
from scheduler.logs import count_text
from scheduler.objects import Selection

_AMOUNTS = re.compile(r"resources(?P<group>.*)")


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
    record: DecisionRecord,
    selections: Sequence[Sequence[Selection]],
    seconds: float,
    cell_names: Mapping[str, str | None],
) -> Iterable[str]:
    """Yield a line for each instance of a request that was placed."""
    for uuid, (chosen, *_) in zip(record.instances, selections, strict=False):
        cell = cell_names.get(chosen.cell_uuid) or chosen.cell_uuid
        numbers = _numbers(record, [uuid], seconds)
        yield f"Placed instance {uuid} on host {chosen.service_host} ({cell}): {numbers}"


def refused_line(record: DecisionRecord, seconds: float, reason: str) -> str:
    uuids = record.instances
    first = uuids[0] if uuids else "none"
    more = f" and {len(uuids) - 1} more" if len(uuids) > 1 else ""
    return f"No host for instance {first}{more}: {_numbers(record, uuids, seconds)}: {reason.strip()}"


def _numbers(record: DecisionRecord, uuids: Iterable[str], seconds: float) -> str:
    found = record.candidates
    candidates = count_text(found.hosts if found.known is None else found.known, "candidate")
    hosts = f"{candidates} -> {record.passed} passed"
    tries = sum(len({event.host for event in record.claims.get(uuid, ())}) for uuid in uuids)
    amounts = f", {amounts_of(record.queries[0].params)}" if record.queries else ""
    return f"{hosts}, {count_text(tries, 'try', 'tries')}, {1000 * seconds:.0f} ms{amounts}"
