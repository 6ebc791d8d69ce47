"""The reason for a failed request in one line, for the log and for explanations."""

from collections.abc import Iterator

from scheduler.explain.record import DecisionRecord
from scheduler.selection.host_claiming import NOT_ENOUGH

#: Texts of errors that say no more than the rest of the line.
_SAYS_NOTHING = tuple(f"No valid host was found. {reason}" for reason in ("", NOT_ENOUGH))


def summarize(record: DecisionRecord) -> str:
    """Return what left a request without a host, such as 'Placement offers 12 hosts; RamFilter ...'."""
    return "; ".join(_parts(record)) or "no host was looked at"


def with_summary(text: str, summary: str) -> str:
    """Return the text of an error followed by the summary of its record; one alone if it has the other."""
    text = text.strip()
    if summary in text:
        return text
    return summary if text in summary else f"{text} {summary}"


def _parts(record: DecisionRecord) -> Iterator[str]:
    yield from _candidates(record)
    if record.allowed is not None and record.candidates.known is not None:
        known = record.candidates.known
        if record.allowed < known:
            left = f"{record.allowed} of them" if record.allowed else "none of them"
            yield f"the requested destination, ignored and forced hosts leave {left}"
    yield from _filters(record)
    yield from _claims(record)
    if record.error and record.error[1] not in _SAYS_NOTHING:
        name, text = record.error[0], record.error[1].strip()
        yield text if name in {"NoValidHost", "RequestFilterFailed"} else f"{name}: {text}"


def _candidates(record: DecisionRecord) -> Iterator[str]:
    found = record.candidates
    if not found.name:
        return
    source = {
        "placement": "Placement",
        "coalesced": "Placement",
        "mirror": "the mirror",
        "table": "the host table",
        "held": "an earlier delivery",
    }[found.name]
    if found.failed:
        yield f"{source} gives no usable answer ({found.reason})"
        return
    if not found.offered:
        yield f"{source} offers no host" + (f" ({found.reason})" if found.reason else "")
        return
    yield f"{source} offers {_hosts(found.offered)}"
    if found.known is not None and found.known < found.offered:
        known = f"only {found.known} of them are" if found.known else "none of them is"
        yield f"{known} known in a cell that is enabled, readable and wanted"


def _filters(record: DecisionRecord) -> Iterator[str]:
    counts = [each for each in record.last_counts if each.end < each.start]
    for count in counts:
        reasons = [each for each in record.rejections if each.filter == count.name]
        detail = ", ".join(each.reason for each in reasons[:2])
        more = ", ..." if len(reasons) > 2 else ""
        yield f"{count.name} turned down {count.start - count.end}" + (f" ({detail}{more})" if detail else "")
    if record.last_counts and record.last_counts[-1].end:
        yield f"{_hosts(record.last_counts[-1].end)} passed the filters"
    elif record.hosts is not None and not record.hosts.chain.rules and record.allowed:
        yield f"{_hosts(record.allowed)} allowed, without filters"


def _claims(record: DecisionRecord) -> Iterator[str]:
    lost = [
        event
        for events in record.claims.values()
        for event in events
        if event.next_step.name in {"NEXT_HOST", "GIVEN_UP"}
    ]
    if lost:
        last = lost[-1]
        count = "1 claim was" if len(lost) == 1 else f"{len(lost)} claims were"
        yield f"{count} refused, the last on host {last.host}: {last.cause}"
    elif record.error and record.error[1] == _SAYS_NOTHING[1] and _left(record) and record.request.claims:
        yield "no claim was made on them: they are mapped to no cell, or have no candidate that is left"


def _left(record: DecisionRecord) -> int:
    """Return how many hosts were left to be claimed."""
    return (record.last_counts[-1].end if record.last_counts else record.allowed) or 0


def _hosts(number: int) -> str:
    return "1 host" if number == 1 else f"{number} hosts"
